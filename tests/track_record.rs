//! `TRACK_RECORD.md` is kept true: what it names exists, and no report is without an answer.
//!
//! The tests of the library are found in its source, those of this target in it and, which proves
//! the reading right, by asking the running binary.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::house::blank_comments_and_strings;

/// The ids of each section, as ranges. Numbers that are missing were never given.
const EXPECTED: &[(&str, &str)] = &[
    ("cli-", "1-5 7-11 13-30 32-35 38-55 57-67 69-71 73-84 86-90"),
    ("wish-", "1-20"),
    ("suite-R", "1-14"),
    ("suite-N", "1-11"),
    ("suite-D", "1-10"),
    ("suite-P", "1-11"),
    ("suite-B", "1-13"),
    ("suite-H", "1-8"),
    ("suite-A", "1-12"),
    ("suite-L", "1-9"),
    ("suite-S", "1-10"),
    ("suite-M", "1 3-4 6-14"),
    ("suite-U", "1-7 9-10"),
    ("suite-J", "1-5"),
    ("suite-K", "1-4"),
    ("suite-X", "1-9"),
    ("interop-", "1-10"),
    ("bug-A", "1-14"),
    ("bug-B", "1-12 14-19"),
    ("bug-C", "1-16 18-24"),
    ("bug-D", "1-18 21-24"),
    ("bug-E", "1-25"),
    ("process-", "1-53"),
];

/// What stands before the reason of a row without a test.
const CANNOT: &str = "Cannot apply: ";

/// A reason is a sentence.
const SHORTEST_REASON: usize = 40;

/// One row: a report, what it is with us, and what guards it.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    id: String,
    tests: Vec<String>,
    reason: Option<String>,
}

fn record() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/TRACK_RECORD.md");
    fs::read_to_string(path).unwrap()
}

/// The rows of all tables, and what is wrong with their form.
fn rows(text: &str) -> (Vec<Row>, Vec<String>) {
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, report, scenario, guards] = cells[..] else {
            wrong.push(format!("not four cells: {line}"));
            continue;
        };
        if id == "id" || id.starts_with("---") {
            continue;
        }
        let (names, reason) = guards.split_once(CANNOT).unwrap_or((guards, ""));
        let tests: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        let name = |word: &String| {
            let name = word.strip_prefix('`').and_then(|word| word.strip_suffix('`'));
            name.map(str::to_owned).ok_or_else(|| format!("{id}: no test and no reason: {word}"))
        };
        let (tests, strange): (Vec<_>, Vec<_>) = tests.iter().map(name).partition(Result::is_ok);
        wrong.extend(strange.into_iter().filter_map(Result::err));
        let reason = Some(reason.to_owned()).filter(|reason| !reason.is_empty());
        let tests: Vec<String> = tests.into_iter().filter_map(Result::ok).collect();
        if report.is_empty() || scenario.is_empty() {
            wrong.push(format!("{id}: the report or the scenario is missing"));
        }
        match &reason {
            Some(reason) if reason.len() < SHORTEST_REASON => {
                wrong.push(format!("{id}: that is no reason: {reason}"));
            }
            None if tests.is_empty() => wrong.push(format!("{id}: no test and no reason")),
            _ => {}
        }
        rows.push(Row { id: id.to_owned(), tests, reason });
    }
    (rows, wrong)
}

/// Every id that there has to be.
fn expected() -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for (section, ranges) in EXPECTED {
        for range in ranges.split(' ') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().unwrap(), last.parse().unwrap());
            ids.extend((first..=last).map(|number| format!("{section}{number}")));
        }
    }
    ids
}

/// What is wrong with a record, where these tests exist.
fn faults(text: &str, ids: &BTreeSet<String>, tests: &BTreeSet<String>) -> Vec<String> {
    let (rows, mut wrong) = rows(text);
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        *seen.entry(&row.id).or_default() += 1;
        let lost = row.tests.iter().filter(|test| !tests.contains(*test));
        wrong.extend(lost.map(|test| format!("{}: there is no test {test}", row.id)));
    }
    for (id, count) in &seen {
        if !ids.contains(*id) {
            wrong.push(format!("{id}: nobody expects it"));
        } else if *count > 1 {
            wrong.push(format!("{id}: {count} times"));
        }
    }
    let missing = ids.iter().filter(|id| !seen.contains_key(id.as_str()));
    wrong.extend(missing.map(|id| format!("{id}: missing")));
    let said = text.lines().find_map(|line| line.strip_prefix("Entries: ")?.strip_suffix('.'));
    if said != Some(ids.len().to_string().as_str()) {
        wrong.push(format!("Entries: {said:?}, there should be {}", ids.len()));
    }
    wrong
}

#[test]
fn every_report_has_a_test_that_exists_or_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = found(&root.join("src/lib.rs"));
    tests.extend(found(&root.join("tests/main.rs")));
    let wrong = faults(&record(), &expected(), &tests);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn record_with_a_hole_is_found() {
    let head = "Entries: 2.\n| id | report | our scenario | guarded by |\n|---|---|---|---|\n";
    let ids: BTreeSet<String> = ["x-1", "x-2"].map(String::from).into();
    let tests: BTreeSet<String> = ["a::b", "c::d"].map(String::from).into();
    let reason = "there is nothing in this program that this could happen to";
    let sound =
        format!("{head}| x-1 | r | s | `a::b` `c::d` |\n| x-2 | r | s | {CANNOT}{reason} |");
    assert_eq!(faults(&sound, &ids, &tests), [""; 0]);
    for (old, new, complaint) in [
        ("`a::b`", "`a::gone`", "x-1: there is no test a::gone"),
        ("`a::b` `c::d`", "", "x-1: no test and no reason"),
        ("`a::b`", "later", "x-1: no test and no reason: later"),
        (reason, "just so", "x-2: that is no reason: just so"),
        ("x-2", "x-1", "x-1: 2 times"),
        ("x-2", "x-1", "x-2: missing"),
        ("x-2", "x-3", "x-3: nobody expects it"),
        ("r | s | `a", "r | | `a", "x-1: the report or the scenario is missing"),
        ("r | s | `a", "r | `a", "not four cells: | x-1 | r | `a::b` `c::d` |"),
        ("Entries: 2.", "Entries: 3.", "Entries: Some(\"3\"), there should be 2"),
    ] {
        let broken = faults(&sound.replace(old, new), &ids, &tests);
        assert!(broken.iter().any(|it| it == complaint), "{complaint}: {broken:?}");
    }
}

/// The tests of the crate whose root is this file, as libtest names them.
fn found(root: &Path) -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    read_module(root, root.parent().unwrap(), &[], &mut tests);
    tests
}

/// Reads one file: a module whose children are in `place`.
fn read_module(file: &Path, place: &Path, path: &[String], tests: &mut BTreeSet<String>) {
    let text = fs::read_to_string(file).unwrap();
    for item in items(&text) {
        let within = [path, &item.within].concat();
        match item.what {
            What::Test => {
                tests.insert([&within[..], &[item.name]].concat().join("::"));
            }
            What::File => {
                let place: PathBuf = item.within.iter().fold(place.to_owned(), |p, m| p.join(m));
                let below = place.join(&item.name);
                let flat = place.join(format!("{}.rs", item.name));
                let file = if flat.exists() { flat } else { below.join("mod.rs") };
                read_module(&file, &below, &[&within[..], &[item.name]].concat(), tests);
            }
        }
    }
}

/// What a source text has that matters here.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    what: What,
    name: String,
    /// The modules within the file that it is in.
    within: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    /// `#[test] fn name`.
    Test,
    /// `mod name;`.
    File,
}

fn items(text: &str) -> Vec<Item> {
    let bare = blank_comments_and_strings(text);
    let spaced = bare.replace("#[test]", " #[test] ");
    // Braces and semicolons are words of their own.
    let spaced =
        ["{", "}", ";", "("].iter().fold(spaced, |text, c| text.replace(c, &format!(" {c} ")));
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut items = Vec::new();
    let mut depth = 0;
    // Modules that are open, and how deep they began.
    let mut open: Vec<(String, usize)> = Vec::new();
    let mut is_test = false;
    for (place, word) in words.iter().enumerate() {
        let next = |count: usize| words.get(place + count).copied().unwrap_or_default();
        let within = || open.iter().map(|(name, _)| name.clone()).collect();
        match *word {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                open.retain(|(_, began)| *began < depth + 1);
            }
            "#[test]" => is_test = true,
            "fn" if is_test => {
                is_test = false;
                let name = next(1).to_owned();
                items.push(Item { what: What::Test, name, within: within() });
            }
            "mod" if next(2) == ";" => {
                let name = next(1).to_owned();
                items.push(Item { what: What::File, name, within: within() });
            }
            "mod" if next(2) == "{" => open.push((next(1).to_owned(), depth + 1)),
            _ => {}
        }
    }
    items
}

/// The reading of the source is proven by what the compiler made of it.
#[test]
fn tests_found_in_the_source_are_those_of_the_binary() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main.rs");
    let output = Command::new(env::current_exe().unwrap()).arg("--list").output().unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    let listed: BTreeSet<String> =
        list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect();
    assert!(listed.len() > 300, "{list}");
    let found = found(&root);
    let apart: Vec<_> = found.symmetric_difference(&listed).collect();
    assert!(apart.is_empty(), "in one of the two only: {apart:?}");
}

#[test]
fn tests_are_found_wherever_they_stand() {
    let test = |name: &str, within: &[&str]| Item {
        what: What::Test,
        name: name.to_owned(),
        within: within.iter().map(|&name| name.to_owned()).collect(),
    };
    let source = "//! #[test] fn no() {}\nmod a;\n#[test]\n#[should_panic = \"}\"]\nfn b() { '{'; }\n\
                fn c() { \"mod d { #[test] fn e() {} }\"; }\n#[cfg(test)]\nmod f {\n    mod g {\n\
                #[test] fn h() { if x {} }\n }\n proptest! {\n /// }\n #[test]\n fn i(x in 0..1) {} \
                }\n}\n#[test]\nfn j() {}\n";
    let file = Item { what: What::File, name: "a".to_owned(), within: Vec::new() };
    let expected =
        [file, test("b", &[]), test("h", &["f", "g"]), test("i", &["f"]), test("j", &[])];
    assert_eq!(items(source), expected);
}

/// Of the library too, which is not asked: all of its files, and the kinds that it has.
#[test]
fn tests_of_the_library_are_found() {
    let tests = found(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"));
    assert!(tests.len() > 200, "{}", tests.len());
    for name in [
        // In a file of its own, in a module of its file, in a macro.
        "node::wire::tests::lock_is_set_extended_and_released",
        "protocol::lease::tests::validity_is_the_quorum_th_largest",
        "protocol::lease::tests::validity_is_the_last_moment_with_a_quorum",
    ] {
        assert!(tests.contains(name), "{name}");
    }
}
