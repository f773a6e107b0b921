//! The manual pages and completions that are committed are those of the command line: a test
//! generates them anew and fails when they differ. `REDLOCK_REWRITE=1 cargo test documents` writes
//! them.
#![expect(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "pages are built once, and read better so"
)]

mod blocks;
mod completion;
mod examples;
mod five_masters;
mod pages;

use std::{env, fs, path::Path, process::Command};

use clap_complete::Shell;

use crate::{harness::scratch, skip};

/// Everything that is generated: where it stands, and what should be there.
fn documents(root: &Path) -> Vec<(String, Vec<u8>)> {
    let pages = pages::all(root).into_iter();
    let mut all: Vec<_> =
        pages.map(|(name, text)| (format!("man/{name}.1"), text.into_bytes())).collect();
    for (shell, name) in [
        (Shell::Bash, "completions/redlock.bash"),
        (Shell::Zsh, "completions/_redlock"),
        (Shell::Fish, "completions/redlock.fish"),
    ] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut redlock::cli::command(), "redlock", &mut text);
        all.push((name.to_owned(), text));
    }
    all
}

#[test]
fn committed_pages_and_completions_are_those_of_the_command_line() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rewrite = env::var_os("REDLOCK_REWRITE").is_some();
    let mut stale = Vec::new();
    for (name, text) in documents(root) {
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
    let mut program = redlock::cli::command();
    program.build();
    for command in program.get_subcommands() {
        for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
            assert!(option.get_help().is_some(), "{} of {}", option.get_id(), command.get_name());
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

#[test]
fn manual_pages_are_clean() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if Command::new("mandoc").arg("-V").output().is_err() {
        skip!("no mandoc to read the manual pages");
    }
    for (name, text) in pages::all(root) {
        let page = scratch();
        let path = page.path().join(format!("{name}.1"));
        fs::write(&path, text).unwrap();
        let found = Command::new("mandoc").arg("-Tlint").arg(&path).output().unwrap();
        let found = String::from_utf8_lossy(&found.stdout).into_owned();
        // A page may refer to others that this machine does not have.
        let found: Vec<_> = found.lines().filter(|line| !line.contains("not found: Xr")).collect();
        assert!(found.is_empty(), "{name}: {found:?}");
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
        (
            "the README's first screen",
            &screen,
            &["ends the command before the lock could pass on"][..],
        ),
        ("the README", &readme, &["**Nothing here covers**", "fencing token", "exec redlock run"]),
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
