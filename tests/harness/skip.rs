//! A test that cannot run on this machine says so by name. It is green for Cargo, which knows no
//! third colour, but `make test` names and counts it at the end.

use std::{env, fs::OpenOptions, io::Write};

/// Ends the test here because of something that this machine lacks.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        fn here() {}
        $crate::harness::skip::record(std::any::type_name_of_val(&here), &format!($($reason)+));
        return;
    }};
}

/// Writes one line `name: reason` to the list of this run: the file named in
/// `REDLOCK_TEST_SKIPPED`, or standard error.
pub fn record(place: &str, reason: &str) {
    let line = line(place, reason);
    let file = env::var_os("REDLOCK_TEST_SKIPPED")
        .map(|path| OpenOptions::new().create(true).append(true).open(path).unwrap());
    match file {
        // One write: several tests may append at once.
        Some(mut file) => file.write_all(line.as_bytes()).unwrap(),
        None => eprint!("skipped: {line}"),
    }
}

/// `place` is the path of a function inside the test: `main::topic::test::here`.
fn line(place: &str, reason: &str) -> String {
    let name = place.trim_end_matches("::here").trim_start_matches("main::");
    format!("{name}: {reason}\n")
}

#[test]
fn skipped_test_is_named_with_its_reason() {
    assert_eq!(
        line("main::acquire::some_test::here", "no unshare"),
        "acquire::some_test: no unshare\n"
    );
}
