//! What is said, when, and how often.

use super::{super::denial::Sought, *};
use crate::protocol::{Denial, NodeIndex, NodeView, Obstacle, Occupant, Verdict};

fn voice(tone: Tone) -> Voice {
    let subject = Subject {
        key: "K".into(),
        keys: vec!["K".into()],
        sought: Sought::All,
        nodes: ["a:1", "b:1", "c:1"].map(String::from).to_vec(),
        fleet: "f".into(),
        patience: "waiting without limit (-n, -w D)".into(),
        endurance: "giving up after 1m of it (--quorum-wait)".into(),
        limit: None,
    };
    Voice::new(subject, tone)
}

fn denial() -> Denial {
    let held = || {
        NodeView::Held(vec![Obstacle {
            key: 0,
            occupant: Occupant::Value(b"x".to_vec()),
            expires_in: Some(Duration::from_secs(7)),
        }])
    };
    let nodes = vec![held(), held(), held()];
    Denial { verdict: Verdict::Held, nodes, waited: Duration::ZERO }
}

fn said(voice: &mut Voice, notice: &Notice, at: u64) -> Option<String> {
    let now = Tick::from_boot(Duration::from_secs(at));
    voice.line(notice, now, SystemTime::UNIX_EPOCH)
}

fn busy() -> Notice {
    Notice::Exit { code: 75, reason: Reason::Denied(denial()) }
}

#[test]
fn waiting_talks_at_once_and_then_in_a_doubling_heartbeat() {
    let mut voice = voice(Tone::default());
    let waiting = Notice::Note(Note::Waiting(denial()));
    let spoken: Vec<u64> =
        (0..2000).filter(|at| said(&mut voice, &waiting, *at).is_some()).collect();
    assert_eq!(spoken, [0, 30, 90, 210, 450, 750, 1050, 1350, 1650, 1950]);
}

#[test]
fn outage_is_said_when_it_begins_whatever_was_said_before() {
    let mut voice = voice(Tone::default());
    let waiting = Notice::Note(Note::Waiting(denial()));
    let outage = Denial { verdict: Verdict::Unavailable, ..denial() };
    let outage = Notice::Note(Note::Outage(outage));
    let mut says = |notice: &Notice, at| said(&mut voice, notice, at).is_some();
    assert!(says(&waiting, 0) && !says(&waiting, 1));
    assert!(says(&outage, 2) && !says(&outage, 3));
    assert!(says(&outage, 32), "the heartbeat begins anew");
    assert!(says(&Notice::Note(Note::Recovered), 33) && says(&waiting, 34));
}

#[test]
fn first_waiting_line_names_holder_and_what_ends_the_wait() {
    let waiting = Notice::Note(Note::Waiting(denial()));
    assert_eq!(
        said(&mut voice(Tone::default()), &waiting, 0).unwrap(),
        "waiting for 'K': held by another client's value 'x' (expires in 7s), waiting without \
         limit (-n, -w D)"
    );
}

#[test]
fn end_of_a_wait_that_was_announced_is_announced_too() {
    let mut voice = voice(Tone::default());
    let got = Notice::Acquired { waited: Duration::from_secs(192) };
    assert_eq!(said(&mut voice, &got, 0), None);
    said(&mut voice, &Notice::Note(Note::Waiting(denial())), 0).unwrap();
    assert_eq!(said(&mut voice, &got, 192).unwrap(), "got 'K' after 3m 12s");
}

#[test]
fn verbose_says_one_line_per_acquisition_when_all_nodes_have_answered() {
    let mut voice = voice(Tone { verbosity: 1, ..Tone::default() });
    let got = Notice::Acquired { waited: Duration::from_millis(4) };
    assert_eq!(said(&mut voice, &got, 0), None);
    let all = Notice::Note(Note::Acquired { nodes: 3 });
    assert_eq!(said(&mut voice, &all, 0).unwrap(), "got 'K' on 3 of 3 nodes after 4ms");
}

#[test]
fn outage_says_how_long_it_is_endured() {
    let outage = Denial { verdict: Verdict::Unavailable, ..denial() };
    let line = said(&mut voice(Tone::default()), &Notice::Note(Note::Outage(outage)), 0).unwrap();
    assert!(line.ends_with("; trying again, giving up after 1m of it (--quorum-wait)"), "{line}");
}

#[test]
fn verbose_tells_the_end_of_a_wait_once() {
    let mut voice = voice(Tone { verbosity: 1, ..Tone::default() });
    said(&mut voice, &Notice::Note(Note::Waiting(denial())), 0).unwrap();
    let got = Notice::Acquired { waited: Duration::from_secs(192) };
    assert_eq!(said(&mut voice, &got, 192), None);
    let all = Notice::Note(Note::Acquired { nodes: 3 });
    assert_eq!(said(&mut voice, &all, 192).unwrap(), "got 'K' on 3 of 3 nodes after 3m 12s");
}

#[test]
fn quiet_silences_waiting_and_busy_lines_and_never_errors() {
    let mut voice = voice(Tone { hush: Hush::Quiet, ..Tone::default() });
    assert_eq!(said(&mut voice, &Notice::Note(Note::Waiting(denial())), 0), None);
    assert_eq!(said(&mut voice, &busy(), 0), None);
    assert!(said(&mut voice, &Notice::RanOut, 0).is_some());
    let lost = Notice::Exit { code: 79, reason: Reason::Lost };
    assert_eq!(said(&mut voice, &lost, 0).unwrap(), "exit 79: 'K' was lost while the command ran");
}

#[test]
fn busy_line_names_the_flag_that_would_have_helped() {
    assert_eq!(
        said(&mut voice(Tone::default()), &busy(), 0).unwrap(),
        "exit 75: 'K' is held by another client's value 'x' (expires in 7s); to wait for it: \
         --wait 10m"
    );
}

#[test]
fn flag_is_not_named_where_no_wait_would_help() {
    let mut denial = denial();
    for view in &mut denial.nodes {
        if let NodeView::Held(obstacles) = view {
            obstacles[0].expires_in = None;
        }
    }
    let notice = Notice::Exit { code: 75, reason: Reason::Denied(denial) };
    assert_eq!(
        said(&mut voice(Tone::default()), &notice, 0).unwrap(),
        "exit 75: 'K' is held by another client's value 'x' (without expiry: it does not free \
         itself)"
    );
}

#[test]
fn success_is_silent_off_a_terminal_and_told_with_v() {
    let extended = Notice::Note(Note::Extended { nodes: 3 });
    let failed = Notice::Note(Note::ExtensionFailed { nodes: 1 });
    let one = Notice::Untold { nodes: vec![NodeIndex(0)], at_most: Duration::from_secs(9) };
    let mut silent = voice(Tone::default());
    let mut verbose = voice(Tone { verbosity: 1, ..Tone::default() });
    let mut terminal = voice(Tone { terminal: true, ..Tone::default() });
    for (notice, on_terminal) in [(&extended, false), (&failed, true), (&one, true)] {
        assert_eq!(said(&mut silent, notice, 0), None);
        assert!(said(&mut verbose, notice, 0).is_some());
        assert_eq!(said(&mut terminal, notice, 0).is_some(), on_terminal);
    }
}

#[test]
fn heartbeat_can_be_set_and_switched_off() {
    let waiting = Notice::Note(Note::Waiting(denial()));
    let spoken = |heartbeat: Option<u64>, until: u64| -> Vec<u64> {
        let heartbeat = heartbeat.map(Duration::from_secs);
        let mut voice = voice(Tone { heartbeat, ..Tone::default() });
        (0..until).filter(|at| said(&mut voice, &waiting, *at).is_some()).collect()
    };
    assert_eq!(spoken(Some(2), 16), [0, 2, 6, 14]);
    assert_eq!(spoken(None, 100_000), [0]);
    assert_eq!(spoken(Some(600), 3000), [0, 600, 1200, 1800, 2400]);
}

#[test]
fn heartbeat_comes_without_news_and_ends_with_the_wait() {
    let tick = |at| Tick::from_boot(Duration::from_secs(at));
    let mut voice = voice(Tone::default());
    voice.subject.limit = Some(Duration::from_secs(600));
    let waiting = Notice::Note(Note::Waiting(denial()));
    voice.remember(&waiting, tick(0));
    said(&mut voice, &waiting, 0).unwrap();
    assert_eq!(voice.due(), Some(tick(30)));
    assert_eq!(voice.repetition(tick(29)), None);
    let again = voice.repetition(tick(30)).unwrap();
    let line = said(&mut voice, &again, 30).unwrap();
    assert!(line.ends_with("(-n, -w D) (9m 30s left)"), "{line}");
    assert_eq!(voice.due(), Some(tick(90)));
    let got = Notice::Acquired { waited: Duration::from_secs(40) };
    voice.remember(&got, tick(40));
    assert_eq!(voice.due(), None);
}

#[test]
fn skip_is_silent_where_somebody_has_the_lock_and_loud_where_nobody_has() {
    let mut voice = voice(Tone { hush: Hush::Skip, verbosity: 2, ..Tone::default() });
    assert_eq!(said(&mut voice, &Notice::Note(Note::Waiting(denial())), 0), None);
    assert_eq!(said(&mut voice, &busy(), 0), None);
    let contended = Denial { verdict: Verdict::Contended, ..denial() };
    let leftovers = Notice::Exit { code: 75, reason: Reason::Denied(contended) };
    let line = said(&mut voice, &leftovers, 0).unwrap();
    assert!(line.starts_with("exit 75: 'K' is contended") && line.contains("'x'"), "{line}");
    let outage = Denial { verdict: Verdict::Unavailable, ..denial() };
    let outage = Notice::Exit { code: 69, reason: Reason::Denied(outage) };
    assert!(said(&mut voice, &outage, 0).is_some());
}

#[test]
fn very_verbose_says_each_nodes_part_and_the_code_last() {
    let mut voice = voice(Tone { verbosity: 2, ..Tone::default() });
    let now = Tick::from_boot(Duration::ZERO);
    let lines = voice.lines(&busy(), now, SystemTime::UNIX_EPOCH);
    let parts = ["a:1: held by another", "b:1: held", "c:1: held", "exit 75: "];
    assert_eq!(lines.len(), parts.len(), "{lines:?}");
    assert!(lines.iter().zip(parts).all(|(line, part)| line.starts_with(part)), "{lines:?}");
    let views = vec![NodeView::Ours, NodeView::Unknown, NodeView::Free];
    let nodes = Notice::Note(Note::Nodes(views));
    let lines = voice.lines(&nodes, now, SystemTime::UNIX_EPOCH);
    assert_eq!(lines, ["a:1: ours", "b:1: no answer yet", "c:1: free"]);
    voice.tone.verbosity = 1;
    assert!(voice.lines(&nodes, now, SystemTime::UNIX_EPOCH).is_empty());
}

#[test]
fn json_lines_tell_the_same_events_as_objects() {
    let json = |notice: &Notice, tone: Tone| {
        let line = said(&mut voice(Tone { format: Format::Json, ..tone }), notice, 0)?;
        Some(serde_json::from_str::<serde_json::Value>(&line).unwrap())
    };
    let quiet = Tone { hush: Hush::Quiet, ..Tone::default() };
    assert_eq!(json(&busy(), quiet), None);
    let waiting = json(&Notice::Note(Note::Waiting(denial())), Tone::default()).unwrap();
    assert_eq!((&waiting["v"], &waiting["event"]), (&1.into(), &"waiting".into()));
    assert_eq!(waiting["time"], "1970-01-01T00:00:00.000Z");
    assert_eq!((&waiting["key"], &waiting["verdict"]), (&"K".into(), &"held".into()));
    assert_eq!(waiting["holder"]["value"], "x");
    assert_eq!(waiting["holder"]["expires_ms"], 7000);
    assert!(waiting["message"].as_str().unwrap().starts_with("waiting for 'K': held by"));
    let exit = json(&busy(), Tone::default()).unwrap();
    assert_eq!((&exit["event"], &exit["code"]), (&"exit".into(), &75.into()));
    assert_eq!(exit["nodes"][2]["node"], "c:1");
    let extended = Notice::Note(Note::Extended { nodes: 2 });
    assert_eq!(json(&extended, Tone::default()), None);
    let extended = json(&extended, Tone { verbosity: 1, ..Tone::default() }).unwrap();
    assert_eq!((&extended["event"], &extended["nodes_ok"]), (&"extended".into(), &2.into()));
}

#[test]
fn lock_that_stays_on_a_quorum_is_an_error() {
    let both = vec![NodeIndex(0), NodeIndex(2)];
    let untold = Notice::Untold { nodes: both, at_most: Duration::from_secs(9) };
    assert_eq!(
        said(&mut voice(Tone::default()), &untold, 0).unwrap(),
        "could not tell a:1, c:1: 'K' may stay locked there for up to 9s"
    );
}
