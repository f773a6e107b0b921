//! The configuration file, the environment and the options: where each value comes from, which one
//! counts, and what is said when one is wrong.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::PathBuf,
};

use crate::{
    harness::{
        Redlock,
        builder::{End, Outcome},
        fleet,
        pty::Terminal,
        scratch,
        servers::{Fleet, Inspect},
    },
    skip,
};

/// A home directory, and a machine without /etc/redlock.
struct Home {
    place: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { place: scratch() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Writes a file that only its owner can read; its path.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The usual file.
    fn config(&self, text: &str) -> String {
        self.write(".config/redlock/config.toml", text)
    }

    fn redlock(&self, words: &[&str]) -> Redlock {
        Redlock::new(words).env("HOME", self.place.path())
    }
}

fn list(fleet: &Fleet) -> String {
    format!("nodes = {:?}\nrestart-guard = 'off'\n", fleet.nodes().split(',').collect::<Vec<_>>())
}

/// What `status --json` says.
#[track_caller]
fn status(redlock: Redlock) -> serde_json::Value {
    let out = redlock.args(["--json"]).output();
    assert_eq!(out.end, End::Exit(0), "{out}");
    serde_json::from_str(&out.stdout).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// Ends with `code` and one line that has all of `words` in it.
#[track_caller]
fn refused(redlock: Redlock, code: i32, words: &[&str]) -> Outcome {
    let out = redlock.output();
    assert_eq!(out.end, End::Exit(code), "{out}");
    assert!(out.stderr.starts_with(&format!("redlock: exit {code}: ")), "{out}");
    assert_eq!(out.stderr.lines().count(), 1, "{out}");
    for word in words {
        assert!(out.stderr.contains(word), "no {word:?}: {out}");
    }
    out
}

#[test]
fn file_in_the_usual_place_names_the_nodes_and_operators_are_told_so() {
    let (fleet, home) = (fleet(3), Home::new());
    let path = home.config(&list(&fleet));
    home.redlock(&["run", "-k", "k", "--", "true"]).check();
    let source = format!("configuration file {path}");
    assert_eq!(status(home.redlock(&["status"]))["source"], source);
    let table = home.redlock(&["status"]).output().stdout;
    assert!(table.contains(&format!("3 of 3 nodes reachable (from {source})\n")), "{table}");
    let doctor = home.redlock(&["doctor"]).output().stdout;
    assert!(doctor.starts_with(&format!("3 nodes from {source}, a quorum is 2")), "{doctor}");
}

#[test]
fn options_come_before_the_environment_before_the_file() {
    let (fleet, home) = (fleet(1), Home::new());
    let url = fleet.nodes();
    home.config(&format!("{}prefix = 'file:'\n", list(&fleet)));
    let of = |redlock: Redlock| {
        let said = status(redlock);
        let text = |name: &str| said[name].as_str().unwrap().to_owned();
        (text("source").split(' ').next().unwrap().to_owned(), text("prefix"))
    };
    let is = |source: &str, prefix: &str| (source.to_owned(), prefix.to_owned());
    let look = || home.redlock(&["status"]);
    assert_eq!(of(look()), is("configuration", "file:"));
    let env = || look().env("REDLOCK_NODES", &url).env("REDLOCK_PREFIX", "env:");
    assert_eq!(of(env()), is("REDLOCK_NODES", "env:"));
    assert_eq!(of(env().args(["--nodes", &url, "--prefix", "flag:"])), is("--nodes", "flag:"));
    // A variable that is set and empty says nothing; only the prefix may be empty.
    let empty = |name| look().env(name, "");
    assert_eq!(of(empty("REDLOCK_NODES")), is("configuration", "file:"));
    assert_eq!(of(empty("REDLOCK_CONFIG")), is("configuration", "file:"));
    assert_eq!(of(empty("REDLOCK_NODE_TIMEOUT")), is("configuration", "file:"));
    assert_eq!(of(empty("REDLOCK_PREFIX")), is("configuration", ""));
    assert_eq!(of(look().args(["--prefix", ""])), is("configuration", ""));
}

#[test]
fn every_key_of_the_file_is_overridden_by_its_variable() {
    let (fleet, home) = (fleet(1), Home::new());
    let run = || home.redlock(&["run", "-n", "-k", "k"]);
    let end = |redlock: Redlock| redlock.command(["true"]).output().end;
    // A node-timeout that cannot go with the ttl shows which one counts.
    home.config(&format!("{}node-timeout = '1h'\n", list(&fleet)));
    assert_eq!(end(run()), End::Exit(78));
    assert_eq!(end(run().env("REDLOCK_NODE_TIMEOUT", "1s")), End::Exit(0));
    assert_eq!(end(run().env("REDLOCK_NODE_TIMEOUT", "")), End::Exit(78));
    assert_eq!(end(run().args(["--node-timeout", "1s"])), End::Exit(0));
    // Nobody votes under a strict guard in a new fleet.
    home.config(&list(&fleet).replace("off", "strict"));
    assert_eq!(end(run()), End::Exit(69));
    assert_eq!(end(run().env("REDLOCK_RESTART_GUARD", "off")), End::Exit(0));
    assert_eq!(end(run().args(["--restart-guard", "off"])), End::Exit(0));
    // A time-out of the connection that nobody can keep is refused.
    home.config(&format!("{}connect-timeout = '0s'\n", list(&fleet)));
    assert_eq!(end(run()), End::Exit(78));
    home.config(&format!("{}connect-timeout = '1ms'\n", list(&fleet)));
    let other = run().env("REDLOCK_CONNECT_TIMEOUT", "1us");
    let words = ["REDLOCK_CONNECT_TIMEOUT: it must be at least 1ms"];
    refused(other.command(["true"]), 78, &words);
    home.config(&format!("{}node-timeout = '0s'\n", list(&fleet)));
    refused(run().args(["true"]), 78, &["config.toml:3: node-timeout: it must be at least 1ms"]);
}

#[test]
fn first_file_counts_alone_and_a_named_one_before_it() {
    let (fleet, home) = (fleet(1), Home::new());
    home.config(&format!("{}prefix = 'home:'\n", list(&fleet)));
    let xdg = home.write("x/redlock/config.toml", &list(&fleet));
    let look = || home.redlock(&["status"]).env("XDG_CONFIG_HOME", home.path("x"));
    let said = status(look());
    assert_eq!(said["source"], format!("configuration file {xdg}"));
    // They are not merged.
    assert_eq!(said["prefix"], "");
    assert_eq!(status(look().env("XDG_CONFIG_HOME", ""))["prefix"], "home:");
    let named = home.write("named.toml", &format!("{}prefix = 'named:'\n", list(&fleet)));
    assert_eq!(status(look().env("REDLOCK_CONFIG", &named))["prefix"], "named:");
    let other = home.write("other.toml", &format!("{}prefix = 'other:'\n", list(&fleet)));
    let both = look().env("REDLOCK_CONFIG", &named).args(["--config", &other]);
    assert_eq!(status(both)["prefix"], "other:");
    // An empty file is a file: the others are not looked at.
    refused(look().env("REDLOCK_CONFIG", "/dev/null"), 78, &["no nodes"]);
}

#[test]
fn file_that_cannot_be_read_is_78_with_its_name() {
    let home = Home::new();
    let run = || home.redlock(&["run", "-k", "k"]).env("REDLOCK_NODES", "127.0.0.1:1");
    let gone = home.path("gone.toml");
    let gone = gone.to_str().unwrap();
    let words = ["--config: cannot read the configuration ", gone, "no such file"];
    refused(run().args(["--config", gone]).command(["true"]), 78, &words);
    let words = ["REDLOCK_CONFIG: cannot read the configuration ", gone];
    refused(run().env("REDLOCK_CONFIG", gone).command(["true"]), 78, &words);
    // Found, and no file: nothing that comes later is taken in its place.
    fs::create_dir_all(home.path(".config/redlock/config.toml")).unwrap();
    let words = [".config/redlock/config.toml", "is a directory"];
    refused(run().command(["true"]), 78, &words);
}

#[test]
fn file_that_is_there_and_closed_is_78_and_one_in_a_closed_directory_is_not_there() {
    let (fleet, home) = (fleet(1), Home::new());
    let closed = home.config(&format!("{}prefix = 'closed:'\n", list(&fleet)));
    // As somebody else, who may come as far as here.
    let other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let open = |path: PathBuf| fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    open(home.path(""));
    let version = Redlock::new(["--version"]).under(other).output();
    if version.end != End::Exit(0) {
        skip!("nobody else can be played: {version}");
    }
    let look = || home.redlock(&["status", "--nodes", &fleet.nodes()]).under(other);
    let words = ["cannot read the configuration ", &closed, ": permission denied"];
    refused(look(), 78, &words);
    let inner = home.path(".config/redlock");
    fs::set_permissions(inner, PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(status(look())["prefix"], "");
}

#[test]
fn mistake_in_the_file_is_78_with_file_line_and_key() {
    let home = Home::new();
    for (text, words) in [
        ("# nodes\n\nnodes = ['a:1']\nnode = 1\n", &[":4: node: unknown key (known: nodes, "][..]),
        ("nodes = 5\n", &[":1: nodes: a list of strings is needed"]),
        ("\nnodes = ['a:1', 'ftp://b:1']\n", &[":2: nodes: node 'ftp://b:1': unknown scheme"]),
        ("nodes = ['a:1', 'b:1']\n", &[":1: nodes: 2 nodes: an even list"]),
        ("nodes = 'a:1'\npassword-file = 'pw'\n", &[":2: password-file: cannot read ", "/pw: no"]),
        ("nodes = 'a:1'\nmax-ttl = '1'\n", &[":2: max-ttl: a unit is needed: did you mean 1s?"]),
        ("nodes = ['a:1'\n", &[":1: no TOML: "]),
        ("prefix = 'x'\n", &["no nodes"]),
    ] {
        let path = home.config(text);
        let words = [words, &[path.as_str()]].concat();
        let words = if words[0] == "no nodes" { vec!["no nodes"] } else { words };
        refused(home.redlock(&["run", "-k", "k", "true"]), 78, &words);
    }
}

#[test]
fn even_list_can_be_allowed_in_the_file() {
    let (fleet, home) = (fleet(2), Home::new());
    home.config(&format!("{}allow-even-nodes = true\n", list(&fleet)));
    home.redlock(&["run", "-k", "k", "--", "true"]).check();
    home.config(&format!("{}allow-even-nodes = false\n", list(&fleet)));
    refused(home.redlock(&["run", "-k", "k", "true"]), 78, &["even"]);
    home.redlock(&["run", "--allow-even-nodes", "-k", "k", "--", "true"]).check();
}

#[test]
fn max_ttl_bounds_the_ttl_and_says_both() {
    let (fleet, home) = (fleet(1), Home::new());
    let path = home.config(&format!("{}max-ttl = '20s'\n", list(&fleet)));
    let place = format!("{path}:3: max-ttl");
    let words = ["30s (30 s)", "20s (20 s)", &place];
    refused(home.redlock(&["run", "-k", "k", "true"]), 78, &words);
    refused(home.redlock(&["acquire", "-k", "k", "-t", "21s"]), 78, &["21s (21 s)", &place]);
    home.redlock(&["run", "-t", "20s", "-k", "k", "--", "true"]).check();
    let kept = |hold| home.redlock(&["run", "-t", "9s", "--min-hold", hold, "-k", "m", "true"]);
    refused(kept("21s"), 78, &["a min-hold of 21s (21 s)", "20s (20 s)", &place]);
    kept("20s").check();
    // Where no ttl is given there is none to bound.
    status(home.redlock(&["status"]));
    home.redlock(&["doctor"])
        .stdout_like("*\n*\nwarning: *\nwarning: *\nwarning: *\nverdict: *\n")
        .check();
    let hold = ["run", "-t", "9s", "--min-hold", "21s", "-k", "k", "true"];
    refused(home.redlock(&hold), 78, &["21s (21 s)", "20s (20 s)", &place]);
    // It may also be more than a day.
    home.config(&format!("{}max-ttl = '2days'\n", list(&fleet)));
    home.redlock(&["run", "-t", "25h", "-k", "k", "--", "true"]).check();
}

#[test]
fn max_ttl_of_the_file_is_part_of_the_restart_guard() {
    let (fleet, home) = (fleet(1), Home::new());
    let run = || home.redlock(&["run", "-n", "-k", "k", "true"]);
    home.config(&format!("{}max-ttl = '2h'\n", list(&fleet).replace("off", "strict")));
    refused(run(), 69, &["restarted less than 2h ago"]);
    home.config(&list(&fleet).replace("off", "strict"));
    refused(run(), 69, &["restarted less than 30s ago"]);
}

/// Servers that only `app` may use, by the password `pw`.
fn closed_fleet() -> Fleet {
    let fleet = fleet(3);
    for server in fleet.servers() {
        let mut client = server.client();
        for rule in [
            &["ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all"][..],
            &["ACL", "SETUSER", "default", "off"],
        ] {
            assert_eq!(format!("{:?}", client.command(rule)), "Simple(\"OK\")");
        }
    }
    fleet
}

#[test]
fn command_reaches_the_nodes_itself_from_another_directory() {
    let (fleet, home) = (closed_fleet(), Home::new());
    home.write("site/pw", "pw\n");
    let text = "username = 'app'\npassword-file = 'pw'\nprefix = 'p:'\n";
    home.write("site/redlock.toml", &format!("{}{text}", list(&fleet)));
    let line = format!(
        "cd / && {0} status k --exit-code >/dev/null 2>&1; test $? -eq 75 && \
         token=$({0} acquire -k other -t 9s) && {0} release -k other --token $token && env",
        env!("CARGO_BIN_EXE_redlock")
    );
    let run = |words: &[&str]| {
        let mut run =
            home.redlock(&["run", "-k", "k"]).args(words).shell(&line).start_as(&mut |command| {
                command.current_dir(home.path("site"));
            });
        run.wait_stdout("REDLOCK_TOKEN");
        let out = run.output();
        assert!(out.end == End::Exit(0) && out.stderr.is_empty(), "{out}");
        out.stdout
    };
    let has = |env: &str, name: &str, value: &str| {
        let line = format!("{name}={value}");
        assert!(env.lines().any(|other| other == line), "no {line}: {env}");
    };
    let site = |name: &str| home.path("site").join(name).to_str().unwrap().to_owned();
    // All from a file that is named relative to where we are.
    let env = run(&["--config", "redlock.toml"]);
    has(&env, "REDLOCK_CONFIG", &site("redlock.toml"));
    has(&env, "REDLOCK_PASSWORD_FILE", &site("pw"));
    has(&env, "REDLOCK_PREFIX", "p:");
    has(&env, "REDLOCK_USERNAME", "app");
    has(&env, "REDLOCK_NODES", &sorted(&fleet.nodes().replace("redis://", "")));
    // All from options, with another prefix than the file has.
    let nodes = fleet.nodes();
    let options = ["--nodes", &nodes, "--username", "app", "--password-file", "pw"];
    let env = run(&options);
    assert!(!env.contains("REDLOCK_CONFIG=") && !env.contains("REDLOCK_PREFIX="), "{env}");
    has(&env, "REDLOCK_PASSWORD_FILE", &site("pw"));
    let env = run(&["--config", "redlock.toml", "--prefix", ""]);
    has(&env, "REDLOCK_PREFIX", "");
    // A user in the URL goes with everybody's password.
    let nodes = nodes.replace("redis://", "redis://app@");
    let env = run(&["--nodes", &nodes, "--password-file", "pw"]);
    has(&env, "REDLOCK_NODES", &sorted(&nodes));
}

fn sorted(list: &str) -> String {
    let mut items: Vec<&str> = list.split(',').collect();
    items.sort_unstable();
    items.join(",")
}

#[test]
fn password_is_found_at_the_nearest_place() {
    let (fleet, home) = (closed_fleet(), Home::new());
    let (right, wrong) = (home.write("right", "pw\n"), home.write("wrong", "other"));
    let config = |file: &str| {
        let text = format!("username = 'app'\npassword-file = {file:?}\n");
        home.config(&format!("{}{text}", list(&fleet)));
    };
    let run = || home.redlock(&["run", "-n", "-k", "k"]);
    let end = |redlock: Redlock| redlock.command(["true"]).output().end;
    let (works, fails) = (End::Exit(0), End::Exit(77));
    config(&right);
    assert_eq!(end(run()), works);
    assert_eq!(end(run().env("REDLOCK_PASSWORD", "other")), fails);
    assert_eq!(end(run().env("REDLOCK_PASSWORD_FILE", &wrong)), fails);
    assert_eq!(end(run().args(["--password-file", &wrong])), fails);
    config(&wrong);
    assert_eq!(end(run()), fails);
    assert_eq!(end(run().env("REDLOCK_PASSWORD", "pw")), works);
    assert_eq!(end(run().env("REDLOCK_PASSWORD", "")), fails);
    let file = |file: &str| run().env("REDLOCK_PASSWORD_FILE", file);
    assert_eq!(end(file(&right).env("REDLOCK_PASSWORD", "other")), works);
    assert_eq!(end(file(&wrong).args(["--password-file", &right])), works);
    // A user without a password.
    home.config(&list(&fleet));
    refused(run().args(["--username", "app", "true"]), 78, &["REDLOCK_PASSWORD"]);
    assert_eq!(end(run().args(["--username", "app"]).env("REDLOCK_PASSWORD", "pw")), works);
    let both = run().env("REDLOCK_USERNAME", "nobody").args(["--username", "app"]);
    assert_eq!(end(both.env("REDLOCK_PASSWORD", "pw")), works);
}

#[test]
fn password_from_a_descriptor_is_read_once_and_not_handed_on() {
    let (fleet, home) = (closed_fleet(), Home::new());
    home.config(&format!("{}username = 'app'\n", list(&fleet)));
    let by = |redirect: &str, option: &str, command: &str| {
        let redlock = env!("CARGO_BIN_EXE_redlock");
        let line =
            format!("exec {redlock} run -k k --password-file {option} -- {command} {redirect}");
        home.redlock(&[]).under(["sh", "-c", &line]).output()
    };
    let pw = home.write("pw", "pw\n");
    for redirect in [format!("7<{pw}"), "7<<.\npw\n.\n".to_owned()] {
        let out = by(&redirect, "fd:7", "sh -c 'ls /proc/self/fd; env'");
        assert_eq!(out.end, End::Exit(0), "{out}");
        assert!(out.stdout.starts_with("0\n1\n") && !out.stdout.contains("\n7\n"), "{out}");
        assert!(!out.stdout.contains("REDLOCK_PASSWORD"), "{out}");
    }
    // Below a run that does not know what 7 is for it stays open, so that it can be seen here.
    let out = by(&format!("7<{pw} 8<{pw}"), "fd:8", "ls /proc/self/fd");
    assert!(out.stdout.contains("\n7\n") && !out.stdout.contains("\n8\n"), "{out}");
    for (redirect, option, code, words) in [
        ("", "fd:9", 78, "--password-file: cannot read fd:9: bad file descriptor"),
        ("", "fd:0", 64, "--password-file: fd:N takes a number from 3 on"),
        ("", "fd:x", 64, "--password-file: fd:N takes a number from 3 on"),
        ("", "-", 64, "--password-file: name a file or fd:N; standard input is the command's"),
        ("3</dev/null", "fd:3", 78, "cannot read fd:3: there is no password in it"),
        ("3</", "fd:3", 78, "cannot read fd:3: is a directory"),
        ("", "/nonexistent", 78, "--password-file: cannot read /nonexistent: no such file"),
        ("", "/dev/zero", 78, "cannot read /dev/zero: it has more than 65536 bytes"),
    ] {
        let out = by(redirect, option, "true");
        assert_eq!(out.end, End::Exit(code), "{out}");
        assert!(out.stderr.contains(words), "no {words:?}: {out}");
    }
    // The variable's own value never reaches the command either.
    let line = format!("exec {} run -k k -- env 3<{pw}", env!("CARGO_BIN_EXE_redlock"));
    let out = home.redlock(&[]).under(["sh", "-c", &line]).env("REDLOCK_PASSWORD_FILE", "fd:3");
    let out = out.output();
    assert!(out.end == End::Exit(0) && !out.stdout.contains("REDLOCK_PASSWORD"), "{out}");
}

#[test]
fn wrong_variable_is_named() {
    let home = Home::new();
    let run = || home.redlock(&["run", "-k", "k"]).env("REDLOCK_CONFIG", "/dev/null");
    for (name, value, words) in [
        ("CONNECT_TIMEOUT", "5", "a unit is needed: did you mean 5s?"),
        ("NODE_TIMEOUT", "soon", "soon"),
        ("RESTART_GUARD", "maybe", "not auto, strict or off"),
        ("DIE_WITH_PARENT", "maybe", "maybe"),
    ] {
        let name = format!("REDLOCK_{name}");
        let place = format!("redlock: exit 64: {name}: ");
        let bad = || run().env(&name, value).command(["true"]);
        let out = refused(bad(), 64, &[words]);
        assert!(out.stderr.starts_with(&place), "{out}");
        // Among others that are right.
        let among = bad().env("REDLOCK_LABEL", "x").env("REDLOCK_PREFIX", "p:");
        assert_eq!(among.output().stderr, out.stderr);
    }
    let bad = || run().env("REDLOCK_NODE_TIMEOUT", "soon");
    // What is typed wrong is not the variable's fault, and what is typed right hides it.
    let out = refused(bad().args(["--connect-timeout", "5", "true"]), 64, &["--connect-timeout"]);
    assert!(!out.stderr.contains("REDLOCK_"), "{out}");
    refused(bad().args(["--node-timeout", "1s", "true"]), 78, &["no nodes"]);
    for (name, value, words) in [
        ("REDLOCK_NODES", "ftp://a", "REDLOCK_NODES: node 'ftp://a'"),
        ("REDLOCK_PASSWORD_FILE", "/nonexistent", "REDLOCK_PASSWORD_FILE: cannot read"),
        ("REDLOCK_PASSWORD_FILE", "-", "REDLOCK_PASSWORD_FILE: name a file or fd:N"),
        ("REDLOCK_CONFIG", "/nonexistent", "REDLOCK_CONFIG: cannot read"),
    ] {
        let out = run().env("REDLOCK_NODES", "a:1").env(name, value).command(["true"]).output();
        assert!(out.stderr.contains(words), "no {words:?}: {out}");
    }
    // Bytes that are no text.
    let bytes = OsStr::from_bytes(b"\xff");
    for (name, code) in [("USERNAME", 64), ("PASSWORD", 78), ("NODES", 78), ("LABEL", 64)] {
        let name = format!("REDLOCK_{name}");
        let run = run().env("REDLOCK_NODES", "a:1").env(&name, bytes).command(["true"]);
        refused(run, code, &[&name]);
    }
}

#[test]
fn variable_of_a_flag_is_true_false_or_an_error() {
    let fleet = fleet(1);
    for (value, code) in [("1", 0), ("yes", 0), ("0", 0), ("false", 0), ("", 0), ("2", 64)] {
        let run = Redlock::run(fleet.nodes()).env("REDLOCK_DIE_WITH_PARENT", value);
        assert_eq!(run.command(["true"]).output().end, End::Exit(code), "{value}");
    }
}

#[test]
fn secret_that_everybody_can_read_is_a_warning_where_it_is_seen() {
    let (fleet, home) = (closed_fleet(), Home::new());
    let pw = home.write("pw", "pw\n");
    let with_file = format!("{}username = 'app'\npassword-file = {pw:?}\n", list(&fleet));
    let with_url = list(&fleet).replace("redis://", "redis://app:pw@");
    let config = home.config(&with_file);
    let open =
        |path: &str, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let run = || home.redlock(&["run", "-k", "k"]);
    run()
        .args(["-v", "true"])
        .stderr_like("redlock: got 'k' *\nredlock: let go of 'k' *\n")
        .check();
    let findings = || {
        let out = home.redlock(&["doctor", "--json"]).output();
        let report: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
        let all = report["findings"].as_array().unwrap().clone();
        all.iter().map(|finding| finding["check"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let is_told = |what: &str, check: &str, nodes: &[&str]| {
        // A run that works says nothing to cron.
        run().args(nodes).args(["true"]).check();
        let out = run().args(nodes).args(["-v", "true"]).output();
        assert!(out.stderr.starts_with(&format!("redlock: warning: {what}")), "{out}");
        for command in [&["run", "-k", "k"][..], &["status", "k"]] {
            let words = [&[env!("CARGO_BIN_EXE_redlock")], command, nodes].concat();
            let words = if command[0] == "run" { [&words[..], &["true"]].concat() } else { words };
            let mut terminal =
                Terminal::start(words, &[("HOME", home.place.path().to_str().unwrap())]);
            terminal.wait_for(what);
            assert_eq!(terminal.finish(), End::Exit(0), "{}", terminal.screen());
        }
        if nodes.is_empty() {
            assert!(findings().contains(&check.to_owned()), "{:?}", findings());
        }
    };
    assert!(!findings().contains(&"secret-exposed".to_owned()));
    open(&pw, 0o604);
    is_told("everybody on this machine can read the password in ", "secret-exposed", &[]);
    open(&pw, 0o640);
    home.config(&with_url);
    run()
        .args(["-v", "true"])
        .stderr_like("redlock: got 'k' *\nredlock: let go of 'k' *\n")
        .check();
    open(&config, 0o644);
    is_told("everybody on this machine can read the configuration ", "secret-exposed", &[]);
    // The file is as open as before, and nothing in it is secret.
    home.config(&with_file);
    open(&config, 0o644);
    run()
        .args(["-v", "true"])
        .stderr_like("redlock: got 'k' *\nredlock: let go of 'k' *\n")
        .check();
    let nodes = fleet.nodes().replace("redis://", "redis://app:pw@");
    let words = ["--nodes", &nodes];
    is_told("a password stands on the command line", "password-in-argv", &words);
}
