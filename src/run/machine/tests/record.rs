//! What is counted, and how a run is said to have ended.

use super::*;
use crate::protocol::Note;

/// The one report among what was done, which comes before the last line.
fn report(run: &mut Run) -> Figures {
    let done = run.take();
    let reports: Vec<usize> =
        (0..done.len()).filter(|at| matches!(done[*at], Action::Report(_))).collect();
    assert_eq!(reports.len(), 1, "{done:?}");
    let last = done.iter().position(|a| matches!(a, Action::Say(Notice::Exit { .. })));
    assert!(last.is_none_or(|last| last > reports[0]), "{done:?}");
    match done[reports[0]] {
        Action::Report(figures) => figures,
        _ => unreachable!(),
    }
}

fn note(note: Note) -> Input {
    Input::Lock(Event::Note(note))
}

#[test]
fn durations_extensions_and_the_narrowest_margin_are_counted() {
    let mut run = Run::new(rules());
    run.sleep_to(400);
    run.tell(acquired(3368));
    run.proceed();
    run.tell(note(Note::Acquired { nodes: 5 }));
    run.sleep_to(1400);
    run.tell(validity(4368));
    run.tell(note(Note::Extended { nodes: 4 }));
    run.sleep_to(2400);
    run.tell(note(Note::ExtensionFailed { nodes: 2 }));
    run.sleep_to(2700);
    // 1668 ms before its end.
    run.tell(validity(5668));
    run.tell(note(Note::Extended { nodes: 3 }));
    run.sleep_to(3000);
    run.leader_exits(0);
    run.sleep_to(3100);
    run.tell(settled());
    assert_eq!(
        report(&mut run),
        Figures {
            fate: Fate::Ran,
            exit: Exit::Status(0),
            waited: ms(400),
            held: Some(ms(2600)),
            extensions: 2,
            failed_rounds: 1,
            min_margin: Some(ms(1668)),
            nodes_ok: 3,
        }
    );
}

#[test]
fn last_stretch_counts_for_the_margin_too() {
    let mut run = Run::running(rules());
    run.sleep_to(2000);
    run.leader_exits(0);
    // What comes while the lock is given back is no margin any more.
    run.sleep_to(2900);
    run.tell(validity(5000));
    run.tell(settled());
    let figures = report(&mut run);
    assert_eq!((figures.min_margin, figures.held), (Some(ms(968)), Some(ms(2000))));
}

#[test]
fn run_without_the_lock_has_waited_and_held_nothing() {
    let mut run = Run::new(rules());
    run.sleep_to(700);
    run.tell(denied(Verdict::Held, vec![NodeView::Free, NodeView::Unknown, NodeView::Ours]));
    let figures = report(&mut run);
    assert_eq!((figures.waited, figures.held, figures.min_margin), (ms(700), None, None));
    assert_eq!(figures.nodes_ok, 2);
    // And nothing is reported a second time.
    run.tell(settled());
    assert!(!run.take().iter().any(|action| matches!(action, Action::Report(_))));
}

#[test]
fn every_end_has_its_word() {
    let refused = || {
        let refusal = Refusal { kind: RefusalKind::Rights, text: "NOPERM".into() };
        vec![NodeView::Refused(refusal); 3]
    };
    let views = || vec![NodeView::Free; 3];
    let exit = |code| Conflict::Exit(code);
    let wait = Some(ms(700));
    for (verdict, nodes, conflict, wait, fate) in [
        (Verdict::Held, views(), exit(75), None, Fate::Busy),
        (Verdict::Held, views(), exit(0), None, Fate::Busy),
        (Verdict::Contended, views(), exit(75), None, Fate::Busy),
        (Verdict::Held, views(), exit(75), wait, Fate::TimedOut),
        (Verdict::Held, views(), Conflict::Skip, None, Fate::Skipped),
        (Verdict::Held, views(), Conflict::Skip, wait, Fate::Skipped),
        // Nobody does the work.
        (Verdict::Contended, views(), Conflict::Skip, None, Fate::Busy),
        (Verdict::Unavailable, views(), exit(75), wait, Fate::Unavailable),
        (Verdict::TooSlow, views(), exit(75), None, Fate::Unavailable),
        (Verdict::Unavailable, refused(), exit(75), None, Fate::Refused),
        (Verdict::Unfit, views(), exit(75), None, Fate::Refused),
        (Verdict::NotOurs, views(), exit(75), None, Fate::Lost),
    ] {
        let mut run = Run::new(Rules { conflict, wait, ..rules() });
        run.tell(denied(verdict, nodes));
        assert_eq!(report(&mut run).fate, fate, "{verdict:?} {conflict:?}");
    }
    let mut cancelled = Run::new(rules());
    cancelled.tell(signal(TERM));
    cancelled.tell(settled());
    let figures = report(&mut cancelled);
    assert_eq!((figures.fate, figures.exit), (Fate::Cancelled, Exit::Signal(TERM)));
    let mut late = Run::new(rules());
    late.tell(acquired(10));
    late.proceed();
    late.tell(settled());
    assert_eq!(report(&mut late).fate, Fate::Unavailable);
    let mut over = Run::running(Rules { max_runtime: Some(ms(100)), ..rules() });
    over.pass_to(100);
    over.leader_exits(0);
    over.tell(settled());
    assert_eq!(report(&mut over).fate, Fate::MaxRuntime);
    let mut gone = Run::running(rules());
    gone.tell(lost());
    gone.leader_exits(0);
    gone.tell(settled());
    assert_eq!(report(&mut gone).fate, Fate::Lost);
    let mut none = Run::running(rules());
    let reason = Reason::NotFound { program: "x".into() };
    none.tell(Input::NotStarted(reason, Left::Nothing));
    none.tell(settled());
    assert_eq!(report(&mut none).fate, Fate::NotStarted);
}
