//! The house's rules, read from the source (the map in `src/lib.rs` draws them): arrows between modules
//! point one way, and what may be dangerous has one place each.
//!
//! A checker without tests would be green for ever, so every rule is also shown a text that breaks it.

use std::{fmt, fs, path::Path};

/// The floors of the house, from the top down. A module may use what lies on a lower floor, never
/// its own floor or a higher one, save for [`STAIRS`].
const FLOORS: &[&[&str]] = &[
    &["main"],
    // The library's root: it ties the rooms together.
    &["lib"],
    &["commands", "run"],
    &["settings"],
    &["node", "child", "signal", "ui", "cli"],
    &["protocol"],
    &["clock", "duration", "exit", "wake"],
];

/// Arrows inside a floor: an alarm is set to a tick.
const STAIRS: &[(&str, &str)] = &[("wake", "clock")];

/// Words that belong to some files only: the word, where it may stand, and why.
const PLACES: &[(&str, &[&str], &str)] = &[
    ("redis::", &["node/"], "redis is the nodes' codec"),
    ("rustls::", &["node/tls/"], "TLS has one place"),
    ("clap::", &["cli/"], "clap is what the user typed"),
    ("println!", &["ui/"], "only ui prints"),
    ("print!", &["ui/"], "only ui prints"),
    ("eprintln!", &["ui/"], "only ui prints"),
    ("eprint!", &["ui/"], "only ui prints"),
    ("dbg!", &[], "nothing for debugging stays"),
    ("unsafe", &["child/"], "unsafe lives in child"),
    ("process::exit", &["main.rs"], "main ends the process"),
];

/// What the pure core must not know: it is told the time and does nothing itself.
const IMPURE: &[&str] = &[
    "std::net",
    "std::thread",
    "std::fs",
    "std::process",
    "std::env",
    "std::io",
    "Instant",
    "SystemTime",
    "BootClock",
    "rustix::",
    "thread::",
    "Mutex",
    "RwLock",
];

/// Where [`IMPURE`] holds.
const PURE: &[&str] = &["protocol/", "run/machine"];

/// A broken rule.
#[derive(Debug, PartialEq, Eq)]
struct Breach {
    file: String,
    line: usize,
    rule: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "src/{}:{}: {}", self.file, self.line, self.rule)
    }
}

#[test]
fn arrows_point_one_way_and_every_danger_has_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(files.len() > 10, "the source was not found");
    let breaches: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
            check(name, &fs::read_to_string(path).unwrap())
        })
        .map(|breach| breach.to_string())
        .collect();
    assert!(breaches.is_empty(), "\n{}", breaches.join("\n"));
}

fn collect(place: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Every rule that a file of `src/` breaks; `name` is its path there.
fn check(name: &str, text: &str) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let code = Code::of(text);
    let mut report = |line: usize, rule: String| {
        breaches.push(Breach { file: name.to_owned(), line, rule });
    };
    let module = module_of(name);
    let Some(floor) = floor_of(module) else {
        report(1, format!("'{module}' is a room that no floor has; draw its arrows"));
        return breaches;
    };
    // One line may belong to an import of several lines: the arrows are read from the whole text.
    for (line, target) in code.arrows(name) {
        match floor_of(&target) {
            // What is no room is the root's own, and the root is below `main` only.
            None if module == "main" => {}
            None => report(line, format!("'{target}' is a room that no floor has")),
            Some(_) if target == module || module == "lib" => {}
            Some(below) if below > floor => {}
            Some(_) if STAIRS.contains(&(module, target.as_str())) => {}
            Some(_) => report(line, format!("{module} -> {target} is no arrow of the house")),
        }
    }
    for (number, line) in code.lines() {
        for (word, places, why) in PLACES {
            let at_home = places.iter().any(|place| name.starts_with(place));
            if !at_home && has_word(line, word) {
                report(number, format!("'{word}' has no place here: {why}"));
            }
        }
        if PURE.iter().any(|place| name.starts_with(place)) {
            for word in IMPURE.iter().filter(|word| has_word(line, word)) {
                report(number, format!("'{word}' has no place in the pure core"));
            }
        }
    }
    breaches
}

/// The room that a file belongs to: `node/loop.rs` and `node.rs` are `node`.
fn module_of(name: &str) -> &str {
    let first = name.split('/').next().unwrap_or(name);
    first.strip_suffix(".rs").unwrap_or(first)
}

fn floor_of(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// Whether `word` stands in `line`, not as the end of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(place, _)| {
        let before = line[..place].chars().next_back();
        let after = line[place + word.len()..].chars().next();
        let closed = !word.ends_with(inside) || !after.is_some_and(inside);
        !before.is_some_and(inside) && closed
    })
}

/// A source text without comments, strings and what only tests see, line by line.
struct Code(Vec<String>);

impl Code {
    fn of(text: &str) -> Self {
        let bare = blank_comments_and_strings(text);
        // By convention the tests are the last item of a file.
        let end = bare.find("#[cfg(test)]\nmod ").unwrap_or(bare.len());
        Self(bare[..end].lines().map(str::to_owned).collect())
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.0.iter().map(String::as_str))
    }

    /// The rooms that this text names: `crate::room`, or `redlock::room` in the binary, also as
    /// `crate::{room, other::thing}`, also over several lines.
    fn arrows(&self, name: &str) -> Vec<(usize, String)> {
        let root = if name == "main.rs" { "redlock::" } else { "crate::" };
        let text = self.0.join("\n");
        let mut arrows = Vec::new();
        for (place, _) in text.match_indices(root) {
            if text[..place].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let line = 1 + text[..place].matches('\n').count();
            let rest = &text[place + root.len()..];
            for target in targets(rest) {
                arrows.push((line, target));
            }
        }
        arrows
    }
}

/// The first names of the paths in `rest`, which follows `crate::`.
fn targets(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        let end = |c: char| !(c.is_alphanumeric() || c == '_');
        text.trim_start().split(end).next().unwrap_or("").to_owned()
    };
    let Some(group) = rest.strip_prefix('{') else {
        return vec![name(rest)];
    };
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => parts.push(String::new()),
            _ => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                parts.last_mut().unwrap().push(c);
            }
        }
    }
    let names = parts.iter().map(|part| name(part));
    names.filter(|name| !name.is_empty()).collect()
}

/// The text with comments and the insides of strings and character literals made blank. Lines stay
/// where they are.
pub fn blank_comments_and_strings(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let starts = |place: usize, what: &str| {
        what.chars().enumerate().all(|(offset, c)| chars.get(place + offset) == Some(&c))
    };
    let mut out = String::with_capacity(text.len());
    let mut place = 0;
    while place < chars.len() {
        // Where the thing that begins here ends; nothing special begins with most characters.
        let end = if starts(place, "//") {
            find(&chars, place, |at| chars[at] == '\n')
        } else if starts(place, "/*") {
            find(&chars, place, |at| at > place + 3 && starts(at - 2, "*/"))
        } else if let Some(hashes) = raw_string(&chars, place) {
            let close: String = std::iter::once('"').chain((0..hashes).map(|_| '#')).collect();
            let open = place + 2 + hashes;
            let length = close.len();
            find(&chars, open, |at| at >= open + length && starts(at - length, &close))
        } else if chars[place] == '"' {
            let mut escaped = false;
            let close = find(&chars, place + 1, |at| {
                let closes = chars[at] == '"' && !escaped;
                escaped = chars[at] == '\\' && !escaped;
                closes
            });
            close + 1
        } else if starts(place, "'\\") {
            find(&chars, place + 3, |at| chars[at] == '\'') + 1
        } else if chars.get(place + 2) == Some(&'\'') && chars[place] == '\'' {
            place + 3
        } else {
            out.push(chars[place]);
            place += 1;
            continue;
        };
        let end = end.min(chars.len());
        out.extend(chars[place..end].iter().map(|&c| if c == '\n' { c } else { ' ' }));
        place = end;
    }
    out
}

/// The first place from `from` on that is `wanted`, or the end.
fn find(chars: &[char], from: usize, mut wanted: impl FnMut(usize) -> bool) -> usize {
    (from..chars.len()).find(|&at| wanted(at)).unwrap_or(chars.len())
}

/// The number of `#` of the raw string that begins at `place`.
fn raw_string(chars: &[char], place: usize) -> Option<usize> {
    let before = place.checked_sub(1).map(|before| chars[before]);
    // `br"` begins at its `r`; the end of a name is no beginning.
    if chars[place] != 'r' || before.is_some_and(|c| c.is_alphanumeric() && c != 'b' || c == '_') {
        return None;
    }
    let hashes = chars[place + 1..].iter().take_while(|&&c| c == '#').count();
    (chars.get(place + 1 + hashes) == Some(&'"')).then_some(hashes)
}

/// The rules that a text breaks, as `line: rule`.
fn breaches(name: &str, text: &str) -> Vec<(usize, String)> {
    let breaches = check(name, text).into_iter();
    breaches.map(|breach| (breach.line, breach.rule)).collect()
}

#[test]
fn arrow_against_the_drawing_is_found() {
    let no_arrow = |line: usize, arrow: &str| (line, format!("{arrow} is no arrow of the house"));
    for (name, text, arrow) in [
        ("protocol/lease.rs", "use crate::node::Link;", "protocol -> node"),
        ("protocol/lease.rs", "fn f() { crate::ui::say() }", "protocol -> ui"),
        ("node/loop.rs", "use crate::child::Group;", "node -> child"),
        ("node/loop.rs", "use crate::{clock::Tick, run};", "node -> run"),
        ("commands/status.rs", "use crate::{run::{a, b}};", "commands -> run"),
        ("clock.rs", "pub use crate::exit::Exit;", "clock -> exit"),
        ("cli/mod.rs", "use crate::settings::Nodes;", "cli -> settings"),
        ("run/mod.rs", "use crate::lib::x;", "run -> lib"),
    ] {
        assert_eq!(breaches(name, text), [no_arrow(1, arrow)], "{name}: {text}");
    }
    let text = "use std::fmt;\nuse crate::{\n    clock::{Clock, Tick},\n    ui::Notice,\n};\n";
    assert_eq!(breaches("node/mod.rs", text), [no_arrow(2, "node -> ui")]);
}

#[test]
fn arrow_of_the_drawing_passes() {
    for (name, text) in [
        ("commands/sandbox/mod.rs", "use crate::{child::belt, exit::{Code, Exit}};"),
        ("run/shell.rs", "use crate::{node, child, signal, ui, settings, protocol, clock};"),
        ("settings/nodes.rs", "use crate::cli::Run;"),
        ("node/mod.rs", "use crate::node::Link; use crate::protocol::Session;"),
        ("protocol/lease.rs", "// crate::node\nconst A: &str = \"crate::node\";"),
        ("protocol/lease.rs", "#[cfg(test)]\nmod tests { use crate::node::x; }"),
        ("lib.rs", "pub mod cli; fn f() { crate::run::x() }"),
        ("main.rs", "use redlock::{cli, ui, start}; fn main() { std::process::exit(1) }"),
    ] {
        assert_eq!(breaches(name, text), [], "{name}: {text}");
    }
}

#[test]
fn room_that_is_not_drawn_is_found() {
    let rule = "'cellar' is a room that no floor has".to_owned();
    assert_eq!(breaches("ui/mod.rs", "use crate::cellar::x;"), [(1, rule)]);
    assert_eq!(breaches("cellar.rs", "").len(), 1);
}

#[test]
fn word_out_of_its_place_is_found() {
    for (name, text, word) in [
        ("protocol/x.rs", "use redis::Value;", "redis::"),
        ("commands/x.rs", "fn f(x: ::redis::Value) {}", "redis::"),
        ("node/stream.rs", "use rustls::ClientConfig;", "rustls::"),
        ("settings/x.rs", "use clap::Parser;", "clap::"),
        ("run/x.rs", "println!()", "println!"),
        ("run/x.rs", "eprintln!()", "eprintln!"),
        ("run/x.rs", "std::print!()", "print!"),
        ("run/x.rs", "let x = unsafe { f() };", "unsafe"),
        ("run/x.rs", "std::process::exit(1)", "process::exit"),
        ("child/x.rs", "dbg!(1)", "dbg!"),
        ("main.rs", "fn f() { unsafe {} }", "unsafe"),
    ] {
        let found = breaches(name, text);
        assert_eq!(found.len(), 1, "{name}: {text}: {found:?}");
        assert!(found[0].1.starts_with(&format!("'{word}' ")), "{found:?}");
    }
    for (name, text) in [
        ("node/codec.rs", "use redis::Value;"),
        ("cli/mod.rs", "use clap::Parser;"),
        ("child/x.rs", "unsafe { f() }"),
        ("settings/x.rs", "let hiredis::X = y; let unsafe_code = 1;"),
        ("settings/x.rs", "/* unsafe */ f('\"'); g('\\''); // println!\nlet x = r#\"unsafe \"\"#;"),
        ("settings/x.rs", "/// unsafe\nlet url = \"a \\\" redis://\"; let life: &'a str;"),
    ] {
        assert_eq!(breaches(name, text), [], "{name}: {text}");
    }
}

#[test]
fn pure_core_that_looks_at_the_clock_is_found() {
    for text in ["use std::time::Instant;", "std::thread::sleep(x)", "use rustix::time;"] {
        assert!(!breaches("protocol/hold.rs", text).is_empty(), "{text}");
        assert!(!breaches("run/machine.rs", text).is_empty(), "{text}");
        assert_eq!(breaches("run/shell.rs", text), [], "{text}");
    }
    let instance = "struct Instants; let my_thread = thread_id;";
    assert_eq!(breaches("protocol/hold.rs", instance), []);
}

#[test]
fn breach_names_the_line_of_the_whole_file() {
    let text = "//! A header.\n\n/* two\nlines */\nuse crate::node::x;\n";
    assert_eq!(breaches("protocol/x.rs", text)[0].0, 5);
}
