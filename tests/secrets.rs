//! Passwords show up nowhere: one is put everywhere where it can be given, and looked for in
//! everything that comes out.

use std::{fs, os::unix::fs::PermissionsExt, thread};

use crate::harness::{
    Redlock,
    builder::{End, Outcome},
    fleet,
    pty::Terminal,
    scratch,
    servers::{Fleet, Inspect},
};

/// What is looked for. It is the same whether a URL's escapes are undone or not, and no other
/// process of this machine has it.
fn marker() -> String {
    format!("cr3tM{}", std::process::id())
}

/// The password, and how it is written in a URL.
fn password() -> (String, String) {
    (format!("s/{}", marker()), format!("%73%2F{}", marker()))
}

#[track_caller]
fn clean(what: &str, text: &str) {
    assert!(!text.contains(&marker()), "{what}: {text}");
}

#[track_caller]
fn silent(redlock: Redlock) -> Outcome {
    let out = redlock.output();
    clean("stdout", &out.stdout);
    clean("stderr", &out.stderr);
    out
}

/// How a password can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    UrlInVariable,
    UrlInFile,
    Variable,
    File,
    FileOfConfig,
    /// The one that cannot be hidden from ps(1).
    UrlInArgv,
}

const WAYS: [Way; 6] = [
    Way::UrlInVariable,
    Way::UrlInFile,
    Way::Variable,
    Way::File,
    Way::FileOfConfig,
    Way::UrlInArgv,
];

/// Files with the password in them.
struct Place {
    place: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { place: scratch() }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.place.path().join(name);
        fs::write(&path, text).unwrap();
        // Readable by all, so that the warnings are looked at too.
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `redlock` with the password given this way, for nodes at these addresses.
    fn redlock(&self, way: Way, command: &str, words: &[&str], nodes: &str) -> Redlock {
        let (plain, escaped) = password();
        let urls = nodes.replace("redis://", &format!("redis://app:{escaped}@"));
        let list = |nodes: &str| format!("nodes = {:?}\n", nodes.split(',').collect::<Vec<_>>());
        let user = "username = 'app'\n";
        let redlock = Redlock::new([command]).env("REDLOCK_RESTART_GUARD", "off");
        let config = |text: String| {
            // One file for each list, since several commands run at a time.
            let name = format!("{way:?}-{}.toml", nodes.len() + usize::from(nodes.contains(":1,")));
            self.write(&name, &text)
        };
        let redlock = match way {
            Way::UrlInVariable => redlock.nodes(urls),
            Way::UrlInArgv => redlock.args(["--nodes", &urls]),
            Way::UrlInFile => redlock.env("REDLOCK_CONFIG", config(list(&urls))),
            Way::Variable => {
                let redlock = redlock.nodes(nodes).env("REDLOCK_USERNAME", "app");
                redlock.env("REDLOCK_PASSWORD", &plain)
            }
            Way::File => {
                let file = self.write("pw", &plain);
                redlock.nodes(nodes).args(["--username", "app", "--password-file", &file])
            }
            Way::FileOfConfig => {
                self.write("pw", &plain);
                let text = format!("{}{user}password-file = 'pw'\n", list(nodes));
                redlock.env("REDLOCK_CONFIG", config(text))
            }
        };
        redlock.args(words)
    }
}

/// Servers that only `app` may use, by this password.
fn closed_fleet(password: &str) -> Fleet {
    let fleet = fleet(3);
    for server in fleet.servers() {
        let mut client = server.client();
        let pw = format!(">{password}");
        for rule in [
            &["ACL", "SETUSER", "app", "on", &pw, "~*", "&*", "+@all"][..],
            &["ACL", "SETUSER", "default", "off"],
        ] {
            assert_eq!(format!("{:?}", client.command(rule)), "Simple(\"OK\")");
        }
    }
    fleet
}

const TOKEN: &str = "01234567-89ab-4cde-8f01-23456789abcd";

/// Everything that can be asked for, as verbose as it gets.
const COMMANDS: [&[&str]; 13] = [
    &["run", "-n", "-vv", "-k", "k", "true"],
    &["run", "-n", "-vv", "--log-format", "json", "-k", "k", "true"],
    &["run", "-n", "-vv", "--report", "/dev/stdout", "-k", "k", "true"],
    &["run", "--token", TOKEN, "-vv", "-k", "k", "true"],
    &["acquire", "-n", "-vv", "-k", "k", "-t", "1s"],
    &["acquire", "-w", "10s", "--json", "--fence", "-k", "k2", "-t", "1s"],
    &["extend", "-k", "k", "--token", TOKEN, "-t", "1s"],
    &["release", "-k", "k", "--token", TOKEN],
    &["release", "-k", "k", "--force", "--yes"],
    &["status", "k"],
    &["status", "--json"],
    &["doctor"],
    &["doctor", "--json"],
];

#[test]
fn no_command_says_a_password_whether_it_works_is_wrong_or_nobody_is_there() {
    let (right, wrong) = (closed_fleet(&password().0), closed_fleet("other"));
    let nobody = "redis://127.0.0.1:1,redis://127.0.0.2:1,redis://127.0.0.3:1";
    let look = |way: Way| {
        let place = Place::new();
        for nodes in [&right.nodes(), &wrong.nodes(), nobody] {
            for name in ["report.json", "report.prom"] {
                let file = place.place.path().join(name);
                let words = ["-n", "-k", "k", "--report", file.to_str().unwrap(), "--", "true"];
                silent(place.redlock(way, "run", &words, nodes));
                clean("report", &fs::read_to_string(&file).unwrap());
            }
            for words in COMMANDS {
                let out = silent(place.redlock(way, words[0], &words[1..], nodes));
                // It is what it was meant to be.
                let refused = nodes == wrong.nodes() && words[0] != "status";
                let said = out.stderr.contains("WRONGPASS") || out.stdout.contains("WRONGPASS");
                assert!(!refused || said || words.contains(&"--json"), "{way:?} {words:?}: {out}");
            }
        }
    };
    thread::scope(|scope| {
        let looks: Vec<_> = WAYS.map(|way| scope.spawn(move || look(way))).into();
        for look in looks {
            look.join().unwrap();
        }
    });
}

#[test]
fn argv_environment_and_lock_of_a_run_have_no_password() {
    let fleet = closed_fleet(&password().0);
    for way in WAYS {
        let place = Place::new();
        let shell = "env; readlink /proc/self/fd/* 2>/dev/null; echo ready; exec sleep 60";
        let words = ["-k", "k", "-vv", "--", "sh", "-c", shell];
        let mut run = place.redlock(way, "run", &words, &fleet.nodes()).start();
        run.wait_stdout("ready");
        clean("environment", &run.stdout());
        assert!(run.stdout().contains("REDLOCK_NODES="), "{run}");
        let mut ours = 0;
        for entry in fs::read_dir("/proc").unwrap() {
            let path = entry.unwrap().path().join("cmdline");
            let argv = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
            ours += u8::from(argv.contains(shell) && argv.contains("redlock"));
            if way != Way::UrlInArgv {
                clean("argv", &argv);
            }
        }
        // The run and its guardian.
        assert!(ours >= 2, "{ours}");
        for server in fleet.servers() {
            let mut client = server.client();
            client.command(&["AUTH", "app", &password().0]);
            let value = format!("{:?}", client.command(&["GET", "k"]));
            assert!(value.contains("Text"), "{value}");
            let value = client.get("k").unwrap();
            assert!(value.contains("\"host\""), "{value}");
            clean("value", &value);
        }
        run.signal(rustix::process::Signal::TERM);
        let out = run.output();
        clean("stderr", &out.stderr);
    }
}

#[test]
fn keep_credentials_is_the_exception_and_only_for_what_was_there() {
    let fleet = closed_fleet(&password().0);
    for way in WAYS {
        let place = Place::new();
        let env = |words: &[&str]| {
            let words = [&["-k", "k"], words, &["--", "env"]].concat();
            let out = place.redlock(way, "run", &words, &fleet.nodes()).output();
            assert_eq!(out.end, End::Exit(0), "{out}");
            out.stdout
        };
        clean("environment", &env(&[]));
        let kept =
            matches!(way, Way::UrlInVariable | Way::UrlInFile | Way::UrlInArgv | Way::Variable);
        let env = env(&["--keep-credentials"]);
        assert_eq!(env.contains(&marker()), kept, "{way:?}: {env}");
    }
}

#[test]
fn terminal_shows_no_password() {
    let fleet = closed_fleet(&password().0);
    let (_, escaped) = password();
    let urls = fleet.nodes().replace("redis://", &format!("redis://app:{escaped}@"));
    for command in [&["run", "-k", "k", "true"][..], &["status"], &["doctor"]] {
        let binary = env!("CARGO_BIN_EXE_redlock");
        let words = [&[binary, command[0], "--nodes", &urls], &command[1..]].concat();
        let mut terminal = Terminal::start(words, &[("REDLOCK_RESTART_GUARD", "off")]);
        assert_eq!(terminal.finish(), End::Exit(0), "{}", terminal.screen());
        assert!(terminal.screen().contains("password"), "{}", terminal.screen());
        clean("terminal", &terminal.screen());
    }
}

/// Lists of nodes that are wrong in every way, with the password in them.
fn wrong_lists() -> Vec<String> {
    let (plain, escaped) = password();
    let secret = marker();
    let forms = [
        "redis://u:P@",
        "redis://u:P",
        "redis://:P",
        "redis:/u:P@h",
        "redis:u:P@h",
        "redis//u:P@h",
        "http://u:P@h",
        "u:P@h",
        ":P@h",
        "P@h",
        "redis://u:P@h:port",
        "redis://u:P@h:0",
        "redis://u:P@h:70000",
        "redis://u:P@h?x=P",
        "redis://h?password=P",
        "redis://h#P",
        "redis://u:P@h#P",
        "redis://u:P@h/db",
        "redis://u:P@h/1/2",
        "redis://u:P@[::1",
        "redis://u:P@::1",
        "redis://u:P@0.0.0.0",
        "redis://u:P@h\u{f6}st",
        "redis://u:P@h h",
        "redis://u:P,x@h",
        "redis://u:x,P,y@h",
        "redis://u:x,P@h",
        "redis://u:a P@h",
        "redis://P@h",
        "redis://P:@h",
        "redis://u:P@@",
        "redis://u:P@h:1@",
        "redis://u:P@h,redis://u:P@h",
        "redis://u:P@h,redis://u:P@h/1,redis://u:P@i",
        "redis://u:P@h,i",
        "unix:///s?pass=P",
        "unix://u:P@/s",
        "unix://u:P@h/s",
        "unix:///s#P",
        "unix:///s?db=P",
        "rediss://u:P@h?P",
        "REDIS://u:P@h:x",
        "redis+unix://u:P@/s",
        "redis://u:P@h\u{7}",
        "redis://u:P@127.1",
        "redis://u:%zzP@h:x",
        "redis://u:P@h:1:2",
        "redis://u:P\\@h:x",
        "redis://u:P@ ,h:x",
    ];
    let fill = |password: &str| forms.map(|form| form.replace('P', password));
    [&secret, &plain, &escaped].into_iter().flat_map(|password| fill(password)).collect()
}

#[test]
fn wrong_list_of_nodes_is_said_without_its_password() {
    let place = Place::new();
    for list in wrong_lists() {
        let run =
            |words: &[&str]| Redlock::new(["run", "-n", "-k", "k"]).args(words).args(["true"]);
        let toml = format!("nodes = [{list:?}]\n").replace("\\u{7}", "\\u0007");
        let file = place.write("c.toml", &toml);
        let mut ends = Vec::new();
        for run in [
            run(&["--nodes", &list]),
            run(&[]).env("REDLOCK_NODES", &list),
            run(&["--config", &file]),
            run(&["--nodes", &list, "--log-format", "json"]),
        ] {
            let out = silent(run);
            assert!(!out.stderr.is_empty(), "{list}: {out}");
            ends.push(out.end);
        }
        assert_eq!(ends, [End::Exit(78); 4], "{list}");
    }
}

#[test]
fn wrong_configuration_is_said_without_its_password() {
    let place = Place::new();
    for text in [
        "password = 'P'",
        "nodes = 'redis://:P@h' x",
        "nodes = ['redis://:P@h'",
        "nodes = \"redis://:P\\q@h\"",
        "nodes = redis://:P@h",
        "redis://:P@h",
        "P",
        "P = ",
        "= 'P'",
        "nodes = 'redis://:P@h",
        "nodes = [P]",
        "nodes = {a = 'P'}",
        "nodes = [['P']]",
        "nodes = ['redis://:P@h', 5]",
        "username = ['P']",
        "password-file = ['P']",
        "prefix = 5 # P",
        "node = 'redis://:P@h'",
        "restart-guard = 'P'",
        "connect-timeout = 'P'",
        "allow-even-nodes = 'P'",
        "allow-even-nodes = P",
        "max-ttl = 'P'",
        "nodes = 'redis://:P@h'\nnodes = 'redis://:P@h'",
        "[nodes]\nurl = 'redis://:P@h'",
        "[[nodes]]\nurl = 'redis://:P@h'",
        "nodes.url = 'redis://:P@h'",
        "'redis://:P@h' = 1",
        "nodes = '''\nredis://:P@h\n''' '",
        "nodes = 'redis://:P@h:x'",
        "a\u{0}P",
        "nodes = 'P\u{1}'",
    ] {
        let file = place.write("c.toml", &text.replace('P', &marker()));
        let out = silent(Redlock::new(["run", "-n", "-k", "k", "--config", &file, "true"]));
        assert_eq!(out.end, End::Exit(78), "{text}: {out}");
    }
}

#[test]
fn password_in_a_wrong_place_of_the_command_line_is_not_repeated() {
    let (_, escaped) = password();
    let url = format!("redis://app:{escaped}@127.0.0.1:1");
    let secret = marker();
    for words in [
        &[url.as_str()][..],
        &["run", &url],
        &["run", "-k", "k", "--node", &url, "true"],
        &["run", "-k", "k", &format!("--node={url}"), "true"],
        &["run", "-k", "k", "--wait", &url, "true"],
        &["run", "-k", "k", "-E", &url, "true"],
        &["run", "-k", "k", "--strategy", &url, "true"],
        &["run", "-k", "k", "--connect-timeout", &url, "true"],
        &["run", "-k", "k", "--restart-guard", &url, "true"],
        &["run", "-k", "k", "--password", &secret, "true"],
        &["run", "-k", "k", &format!("--password={secret}"), "true"],
        &["extend", "-k", "k", "--token", &url, "-t", "1s"],
        &["sandbox", "--count", &url],
        &["doctor", &url],
    ] {
        let out = silent(Redlock::new(words));
        assert_eq!(out.end, End::Exit(64), "{words:?}: {out}");
    }
}

#[test]
fn help_shows_no_value_of_the_environment() {
    let secret = marker();
    for command in ["run", "acquire", "extend", "release", "status", "doctor", "sandbox"] {
        let mut help = Redlock::new([command, "--help"]);
        let text = Redlock::new([command, "--help"]).output().stdout;
        // Every variable that the help knows of.
        let names = text.split("REDLOCK_").skip(1).map(|rest| {
            let end = |c: char| !(c.is_ascii_uppercase() || c == '_');
            format!("REDLOCK_{}", rest.split(end).next().unwrap())
        });
        let names: std::collections::BTreeSet<String> = names.collect();
        assert!(command == "sandbox" || names.len() > 6, "{names:?}");
        for name in names {
            help = help.env(name, &secret);
        }
        let out = silent(help);
        assert_eq!((out.end, out.stdout), (End::Exit(0), text));
    }
}
