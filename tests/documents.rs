//! The manual pages and completions that are committed are those of the command line: a test
//! generates them anew and fails when they differ. `REDLOCK_REWRITE=1 cargo test documents` writes
//! them.

use std::{env, fs, path::Path};

use clap_complete::Shell;

/// Everything that is generated: where it stands, and what should be there.
fn documents() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let command = redlock::cli::command();
    for page in pages(&command) {
        let mut text = Vec::new();
        clap_mangen::Man::new(page.clone()).render(&mut text).unwrap();
        all.push((format!("man/{}.1", page.get_display_name().unwrap_or(page.get_name())), text));
    }
    for (shell, name) in [
        (Shell::Bash, "completions/redlock.bash"),
        (Shell::Zsh, "completions/_redlock"),
        (Shell::Fish, "completions/redlock.fish"),
    ] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), "redlock", &mut text);
        all.push((name.to_owned(), text));
    }
    all
}

/// One page for the program and one for each command.
fn pages(command: &clap::Command) -> Vec<clap::Command> {
    let mut command = command.clone();
    command.build();
    let mut pages: Vec<_> = command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
        .map(|sub| {
            let name: &'static str = format!("redlock-{}", sub.get_name()).leak();
            sub.clone().name(name).display_name(name).version(env!("CARGO_PKG_VERSION"))
        })
        .collect();
    pages.push(command);
    pages
}

#[test]
fn committed_pages_and_completions_are_those_of_the_command_line() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rewrite = env::var_os("REDLOCK_REWRITE").is_some();
    let mut stale = Vec::new();
    for (name, text) in documents() {
        let path = root.join(&name);
        if rewrite {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &text).unwrap();
        } else if fs::read(&path).ok().as_ref() != Some(&text) {
            stale.push(name);
        }
    }
    assert!(stale.is_empty(), "REDLOCK_REWRITE=1 cargo test documents writes {stale:?} anew");
}

#[test]
fn every_page_says_what_every_option_does() {
    for page in pages(&redlock::cli::command()) {
        for option in page.get_arguments().filter(|option| !option.is_hide_set()) {
            assert!(option.get_help().is_some(), "{} of {}", option.get_id(), page.get_name());
        }
    }
}

#[test]
fn readme_has_the_table_of_exit_codes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let ours = redlock::exit::TABLE.iter().filter(|row| row.code.number() != 0);
    for row in ours {
        let line = format!("| {} | {} |", row.code.number(), row.meaning);
        assert!(readme.lines().any(|other| other.replace('`', "") == line), "{line}");
    }
}

/// Lines as people read them.
fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// k8s-await-election#2, util-linux#313, etcd#10811: what decides whether somebody may rely on a
/// lock, and stood nowhere.
#[test]
fn what_users_of_other_tools_looked_for_in_vain_is_said() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let screen = readme.lines().take(40).collect::<Vec<_>>().join("\n");
    let mut run = redlock::cli::command().find_subcommand("run").unwrap().clone();
    let help = run.render_long_help().to_string();
    for (place, text, sentences) in [
        ("the README's first screen", &screen, &["alive when the lock could pass on"][..]),
        ("the README", &readme, &["**It does not promise**", "fencing token", "exec redlock run"]),
        (
            "run --help",
            &help,
            &[
                "alive when the lock could pass on",
                "redlock stays its parent",
                "A resource that keeps the largest number it has seen",
            ],
        ),
    ] {
        for sentence in sentences {
            assert!(flowing(text).contains(sentence), "{place} does not say: {sentence}");
        }
    }
}
