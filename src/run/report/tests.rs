//! The texts, and how they get into files.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, thread};

use super::*;

fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

fn about(to: ReportTo, key: &str) -> Reporting {
    Reporting {
        to,
        key: key.into(),
        label: Some("say \"hi\"".into()),
        host: "db1".into(),
        began: at(1_700_000_000_250),
        fleet: Some((5, "0a1b2c3d".into())),
    }
}

fn nowhere(key: &str) -> Reporting {
    about(ReportTo::File("/nonexistent/x".into()), key)
}

fn ran(exit: Exit) -> Figures {
    Figures {
        fate: Fate::Ran,
        exit,
        waited: Duration::from_micros(1_500),
        held: Some(Duration::from_millis(61_234)),
        extensions: 6,
        failed_rounds: 1,
        min_margin: Some(Duration::from_secs(19)),
        nodes_ok: 4,
    }
}

fn denied(fate: Fate) -> Figures {
    let nothing = Figures::of_nothing(Exit::Status(75));
    Figures { fate, waited: Duration::from_millis(7), nodes_ok: 3, ..nothing }
}

#[test]
fn object_has_every_field_in_its_order() {
    let about = nowhere("a \"b\"\n");
    let text = Report::of(&about, &ran(Exit::Status(3)), at(1_700_000_061_485)).json();
    assert_eq!(
        text,
        "{\"v\":1,\"outcome\":\"ran\",\"exit\":3,\"source\":\"command\",\"key\":\"a \\\"b\\\"\\n\",\
         \"label\":\"say \\\"hi\\\"\",\"host\":\"db1\",\"start\":\"2023-11-14T22:13:20.250Z\",\
         \"end\":\"2023-11-14T22:14:21.485Z\",\"wait_ms\":1,\"held_ms\":61234,\"extensions\":6,\
         \"failed_rounds\":1,\"min_margin_ms\":19000,\"nodes_ok\":4,\"nodes\":5,\
         \"fingerprint\":\"0a1b2c3d\"}\n"
    );
    let never = Reporting { label: None, fleet: None, ..nowhere("k") };
    let text = Report::of(&never, &Figures::of_nothing(Code::Config.into()), at(0)).json();
    for part in [
        "\"outcome\":\"not-started\",\"exit\":78,\"source\":\"redlock\"",
        "\"label\":null",
        "\"held_ms\":null",
        "\"min_margin_ms\":null",
        "\"nodes\":0,\"fingerprint\":null",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(status(Exit::Signal(9)), 137);
}

/// The lines of a Prometheus text that are no comments.
fn samples(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn gauges_have_their_help_and_type_once() {
    let text = prometheus::merged("", &nowhere("k"), &ran(Exit::Status(0)), at(1_700_000_061_485));
    assert_eq!(
        samples(&text),
        [
            "redlock_last_start_timestamp_seconds{key=\"k\"} 1700000000.250",
            "redlock_last_success_timestamp_seconds{key=\"k\"} 1700000061.485",
            "redlock_last_wait_seconds{key=\"k\"} 0.001",
            "redlock_last_held_seconds{key=\"k\"} 61.234",
            "redlock_last_exit_code{key=\"k\"} 0",
        ]
    );
    for line in samples(&text) {
        let name = line.split('{').next().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|other| *other == line).unwrap();
        assert!(lines[at - 2].starts_with(&format!("# HELP {name} ")), "{text}");
        assert_eq!(lines[at - 1], format!("# TYPE {name} gauge"));
    }
    let again =
        prometheus::merged(&text, &nowhere("k"), &ran(Exit::Status(0)), at(1_700_000_061_485));
    assert_eq!(again, text);
}

#[test]
fn what_did_not_happen_again_keeps_its_time() {
    let key = |name: &str| nowhere(name);
    let first = prometheus::merged("", &key("k"), &ran(Exit::Status(0)), at(1_000));
    let failed = prometheus::merged(&first, &key("k"), &ran(Exit::Status(3)), at(2_000));
    let skipped = prometheus::merged(&failed, &key("k"), &denied(Fate::Skipped), at(3_000));
    let busy = prometheus::merged(&skipped, &key("k"), &denied(Fate::Busy), at(4_000));
    assert_eq!(
        samples(&busy),
        [
            "redlock_last_start_timestamp_seconds{key=\"k\"} 1700000000.250",
            "redlock_last_success_timestamp_seconds{key=\"k\"} 1.000",
            "redlock_last_skip_timestamp_seconds{key=\"k\"} 3.000",
            "redlock_last_wait_seconds{key=\"k\"} 0.001",
            "redlock_last_held_seconds{key=\"k\"} 61.234",
            "redlock_last_exit_code{key=\"k\"} 75",
        ]
    );
}

#[test]
fn other_keys_and_what_is_not_ours_stay() {
    let strange = "a}\"\\\n{key=\"k\"} 7";
    let one = prometheus::merged("", &nowhere(strange), &ran(Exit::Status(0)), at(1_000));
    let foreign =
        format!("{one}# TYPE other gauge\nother{{key=\"k\"}} 1\nredlock_last_startled 2\n");
    let two = prometheus::merged(&foreign, &nowhere("k"), &ran(Exit::Status(1)), at(2_000));
    let escaped = "{key=\"a}\\\"\\\\\\n{key=\\\"k\\\"} 7\"}";
    let lines = samples(&two);
    for line in [
        format!("redlock_last_success_timestamp_seconds{escaped} 1.000"),
        format!("redlock_last_exit_code{escaped} 0"),
        "redlock_last_exit_code{key=\"k\"} 1".into(),
        "other{key=\"k\"} 1".into(),
        "redlock_last_startled 2".into(),
    ] {
        assert!(lines.contains(&line.as_str()), "{line}:\n{two}");
    }
    let count = |part: &str| two.matches(part).count();
    assert_eq!((count("# TYPE redlock_last_exit_code "), count("# TYPE other ")), (1, 1));
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn names(place: &tempfile::TempDir) -> Vec<String> {
    let names = fs::read_dir(place.path()).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn file_is_replaced_as_a_whole_and_a_link_to_it_stays() {
    let place = scratch();
    let (file, link) = (place.path().join("file"), place.path().join("link"));
    fs::write(&file, "a long text that was there before").unwrap();
    std::os::unix::fs::symlink("file", &link).unwrap();
    file::replace(&link, "new\n").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "new\n");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let fresh = place.path().join("fresh");
    file::replace(&fresh, "x\n").unwrap();
    let usual = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(fs::metadata(&fresh).unwrap().permissions().mode(), usual, "as the umask has it");
    assert_eq!(names(&place), ["file", "fresh", "link"]);
}

#[test]
fn file_behind_a_descriptor_is_written_to_and_not_replaced() {
    use std::{io::Write as _, os::fd::AsRawFd as _};
    let place = scratch();
    let path = place.path().join("output");
    let mut output = fs::File::create(&path).unwrap();
    output.write_all(b"before\n").unwrap();
    let name = format!("/proc/self/fd/{}", output.as_raw_fd());
    file::replace(&PathBuf::from(name), "report\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "before\nreport\n");
    assert_eq!(names(&place), ["output"]);
}

#[test]
fn failure_leaves_nothing_behind() {
    let place = scratch();
    // It can be written beside a directory, and does not get its name.
    fs::create_dir_all(place.path().join("dir/in")).unwrap();
    for (name, said) in [
        ("dir", "is a directory"),
        ("missing/file", "cannot write into"),
        ("dir/..", "is a directory"),
    ] {
        let error = file::replace(&place.path().join(name), "x").unwrap_err();
        assert!(chain(&error).contains(said), "{name}: {error:#}");
    }
    assert_eq!(names(&place), ["dir"]);
    let full = file::replace(&PathBuf::from("/dev/full"), "x").unwrap_err();
    assert!(chain(&full).contains("no space left"), "{full:#}");
    file::replace(&PathBuf::from("/dev/null"), "x").unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn pipe_that_nobody_reads_is_not_waited_for_for_ever() {
    let (_read, write) = rustix::pipe::pipe().unwrap();
    let error = file::append(&write, &"x".repeat(200_000)).unwrap_err();
    assert_eq!(error.to_string(), "nobody reads it");
    let place = scratch();
    let fifo = place.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .unwrap();
    // Nobody is there at all.
    assert!(file::replace(&fifo, "x").is_err());
}

/// Runs of many locks that end at the same time all find their place in the file.
#[test]
fn runs_that_end_together_do_not_lose_each_other() {
    let place = scratch();
    let path = place.path().join("redlock.prom");
    thread::scope(|scope| {
        for thread in 0..8 {
            let path = &path;
            scope.spawn(move || {
                for run in 0..10 {
                    let key = format!("{thread}-{run}");
                    put(&about(ReportTo::File(path.clone()), &key), &ran(Exit::Status(0))).unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("redlock_last_exit_code{").count(), 80);
    assert_eq!(names(&place), ["redlock.prom"]);
}
