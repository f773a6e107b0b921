//! Every line of the README and of the manual pages that somebody may copy is run, as it stands:
//! only places (paths, hosts) are those of the test.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

use super::blocks::{self, Block};
use crate::harness::{fleet, scratch, script, servers::Fleet};

/// The programs that the examples run: what each of them checks of its arguments and environment.
const PROGRAMS: [(&str, &str); 11] = [
    ("backup", r#"[ "$1" = --all ]"#),
    ("report", r#"[ "$1" = --mail ]"#),
    ("sync-mirror", ":"),
    ("migrate", r#"[ "$REDLOCK_KEY" = database ]"#),
    ("build", ":"),
    ("deploy", r#"[ "$REDLOCK_KEY" = deploy-production ]"#),
    ("step1", r#"[ -n "$REDLOCK_TOKEN" ]"#),
    ("step2", r#"[ -n "$REDLOCK_TOKEN" ]"#),
    ("render", r#"[ "$REDLOCK_SLOT" -ge 1 ] && [ "$REDLOCK_SLOT" -le 3 ]"#),
    ("thumbnails", r#"[ "$REDLOCK_SLOT" -ge 1 ] && [ "$REDLOCK_SLOT" -le 3 ]"#),
    ("reindex", r#"[ "$REDLOCK_KEY" = "database search-index" ]"#),
];

/// A place where the examples make sense.
struct World {
    place: TempDir,
    fleet: Fleet,
}

impl World {
    fn new() -> Self {
        let place = scratch();
        symlink(env!("CARGO_BIN_EXE_redlock"), place.path().join("redlock")).unwrap();
        for (name, check) in PROGRAMS {
            script(&place, name, &format!("#!/bin/sh\n{check} && echo {name} >>ran\n"));
        }
        script(&place, "ledger", "#!/bin/sh\n[ \"$1\" = --epoch ] && [ \"$2\" -gt 0 ]\n");
        // It runs on for one look.
        script(&place, "migration-running", "#!/bin/sh\n[ ! -e looked ] && : >looked\n");
        // Nobody waits for minutes here.
        script(&place, "sleep", "#!/bin/sh\nexec /bin/sleep 0.1\n");
        Self { place, fleet: fleet(5) }
    }

    fn path(&self) -> &Path {
        self.place.path()
    }

    /// What programs have run, in order.
    fn ran(&self) -> String {
        fs::read_to_string(self.path().join("ran")).unwrap_or_default()
    }

    /// Runs words for a shell as the user would.
    fn run(&self, shell: &[&str], text: &str, path: &str) -> Output {
        let here = self.path().to_str().unwrap();
        let text = text.replace("/usr/local/bin/", &format!("{here}/"));
        Command::new("timeout")
            .args(["20", shell[0]])
            .args(&shell[1..])
            .arg(text)
            .current_dir(here)
            .env_clear()
            .env("PATH", path)
            .env("HOME", here)
            .env("BUILD_URL", "https://ci.example.net/7")
            .env("REDLOCK_NODES", self.fleet.nodes())
            .env("REDLOCK_RESTART_GUARD", "off")
            .env("REDLOCK_CONFIG", "/dev/null")
            .output()
            .unwrap()
    }

    fn shell(&self, shell: &[&str], text: &str) -> Output {
        let path = std::env::var("PATH").unwrap();
        self.run(shell, text, &format!("{}:{path}", self.path().display()))
    }
}

#[track_caller]
fn worked(block: &Block, out: &Output) {
    let said = String::from_utf8_lossy(&out.stderr);
    let code = out.status;
    assert!(out.status.success(), "{}: {code}\n{}\n{said}", block.place, block.text);
}

/// What has to be so before an example makes sense, and what makes it come to an end.
fn staged(text: &str) -> String {
    let endless = "redlock status --watch 2s";
    let watched = format!("timeout -s INT 2 {endless} || [ $? = 124 ]");
    let held = "redlock acquire -k nightly-backup -t 10s >/dev/null\n";
    let before = if text.contains("--force") { held } else { "" };
    format!("{before}{}", text.replace(endless, &watched))
}

#[test]
fn every_block_is_of_a_kind_that_is_tried() {
    let tried = [
        "sh",
        "crontab",
        "ini",
        "github",
        "gitlab",
        "jenkins",
        "kubernetes",
        "make",
        "redis.conf",
        "users.acl",
        "config.toml",
    ];
    for block in blocks::readme().iter().chain(&blocks::manual()) {
        assert!(tried.contains(&block.kind.as_str()), "{}: {}", block.place, block.kind);
    }
}

#[test]
fn lines_for_a_shell_work() {
    // The certificates are made where five masters use them.
    let all = blocks::readme().into_iter().chain(blocks::manual());
    let all: Vec<_> = all.filter(|b| b.kind == "sh" && !b.text.starts_with("openssl")).collect();
    assert!(all.len() > 20, "only {} found", all.len());
    for block in &all {
        let world = World::new();
        worked(block, &world.shell(&["sh", "-euc"], &staged(&block.text)));
    }
}

#[test]
fn lines_for_cron_work_in_its_environment_and_say_nothing() {
    let block =
        Block { place: "crontab".into(), kind: "crontab".into(), text: blocks::only("crontab") };
    for line in block.text.lines() {
        let world = World::new();
        // Five fields of time, the user, the command.
        let mut rest = line;
        for _ in 0..6 {
            rest = rest.split_once(char::is_whitespace).unwrap().1.trim_start();
        }
        // What Debian's cron gives.
        let out = world.run(&["/bin/sh", "-c"], rest, "/usr/bin:/bin");
        worked(&block, &out);
        assert!(out.stdout.is_empty() && out.stderr.is_empty(), "{line} earns a mail: {out:?}");
        assert_eq!(world.ran().lines().count(), 1, "{line}");
    }
}

#[test]
fn lines_for_schedulers_and_runners_work() {
    let after = |text: &str, key: &str| -> Vec<String> {
        text.lines().filter_map(|line| Some(line.trim().strip_prefix(key)?.to_owned())).collect()
    };
    let unit = blocks::only("ini");
    let github = blocks::only("github");
    let gitlab = blocks::only("gitlab");
    let script: Vec<_> = gitlab.lines().skip_while(|line| line.trim() != "script:").collect();
    let jenkins = blocks::only("jenkins");
    let step = jenkins.trim().strip_prefix("sh '").unwrap().strip_suffix('\'').unwrap();
    let pod = blocks::only("kubernetes");
    let words: Vec<String> = serde_json::from_str(&after(&pod, "command: ")[0]).unwrap();
    // (what it is, the shell that its runner uses, the text)
    let cases = [
        ("a unit", vec!["sh", "-c"], after(&unit, "ExecStart=").join("\n")),
        ("GitHub", vec!["bash", "-e", "-c"], after(&github, "- run: ").join("\n")),
        ("GitLab", vec!["bash", "-e", "-c"], after(&script.join("\n"), "- ").join("\n")),
        ("Jenkins", vec!["sh", "-xe", "-c"], step.to_owned()),
        ("Kubernetes", vec!["sh", "-c"], format!("exec {}", words.join(" "))),
    ];
    for (what, shell, text) in cases {
        let world = World::new();
        let block = Block { place: what.into(), kind: what.into(), text };
        worked(&block, &world.shell(&shell, &block.text));
        assert!(!world.ran().is_empty(), "{what}: the command did not run");
    }
}

#[test]
fn lines_for_make_have_their_target() {
    let makefile = blocks::read("Makefile");
    for line in blocks::only("make").lines() {
        let target = line.strip_prefix("make ").unwrap();
        assert!(makefile.contains(&format!("\n{target}:")), "{line}");
    }
}

/// Options that the documents name are options of ours, or of the programs in the examples.
#[test]
fn options_that_are_named_exist() {
    let mut command = redlock::cli::command();
    command.build();
    let commands = command.get_subcommands();
    let mut known: Vec<String> = commands
        .flat_map(clap::Command::get_arguments)
        .filter_map(|argument| argument.get_long().map(|long| format!("--{long}")))
        .collect();
    let others =
        ["--all", "--mail", "--epoch", "--path", "--open", "--help", "--version", "--nodes"];
    known.extend(others.map(str::to_owned));
    let mut texts = vec![blocks::read("README.md")];
    let sections: Vec<PathBuf> = fs::read_dir(blocks::root().join("man/sections"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    texts.extend(sections.iter().map(|path| fs::read_to_string(path).unwrap().replace("\\-", "-")));
    for text in texts {
        let other = |c: char| !(c.is_ascii_lowercase() || c == '-');
        for word in text.split(other).filter(|word| word.starts_with("--") && word.len() > 2) {
            if word.chars().all(|c| c == '-') {
                continue;
            }
            assert!(known.iter().any(|option| option == word), "{word}");
        }
    }
}
