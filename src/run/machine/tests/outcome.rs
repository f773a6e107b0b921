//! How a run ends.

use super::*;

#[test]
fn rule_48_49_status_of_the_command_passes_through() {
    for status in [0, 1, 7, 75, 79, 255] {
        let mut run = Run::running(rules());
        run.leader_exits(status);
        assert_eq!(run.deeds(), [Action::StandDown, Action::Finish]);
        assert_eq!(run.settle(), (Exit::Status(status), None));
    }
    for signal in [HUP, TERM, libc::SIGSEGV] {
        let mut run = Run::running(rules());
        run.tell(Input::LeaderEnded(Ending::Signaled(signal), Left::Nothing));
        assert_eq!(run.settle(), (Exit::Signal(signal), None));
    }
    // A relayed signal that the command handles does not change its status.
    let mut run = Run::running(rules());
    run.tell(signal(TERM));
    run.leader_exits(0);
    assert_eq!(run.settle(), (Exit::Status(0), None));
}

#[test]
fn rule_9_stop_signals_end_the_wait() {
    for stop in [HUP, INT, libc::SIGQUIT, TERM] {
        let mut run = Run::new(rules());
        run.tell(signal(stop));
        assert_eq!(run.deeds(), [Action::StandDown, Action::Release]);
        // What comes too late starts nothing any more.
        run.tell(acquired(2968));
        assert!(!run.machine.is_ready());
        assert_eq!(run.settle(), (Exit::Signal(stop), None));
    }
    let mut run = Run::new(rules());
    run.tell(signal(libc::SIGUSR1));
    assert_eq!(run.take(), []);
}

#[test]
fn rule_9_undo_is_bounded() {
    let mut run = Run::new(rules());
    run.tell(signal(TERM));
    run.take();
    run.pass_to(1200);
    assert_eq!(run.end(), (Exit::Signal(TERM), None));
}

#[test]
fn rule_10_signal_between_acquisition_and_spawn_prevents_the_start() {
    let mut run = Run::new(rules());
    run.tell(acquired(2968));
    run.tell(signal(TERM));
    run.proceed();
    assert!(!run.take().contains(&Action::Spawn));
    assert_eq!(run.settle(), (Exit::Signal(TERM), None));
}

#[test]
fn rule_10_too_little_validity_prevents_the_start() {
    let needed = ms(500 + 200 + 20);
    for (late, starts) in [(2968 - 720, true), (2968 - 719, false), (9000, false)] {
        let mut run = Run::new(rules());
        run.tell(acquired(2968));
        run.sleep_to(late);
        run.proceed();
        assert_eq!(run.take().contains(&Action::Spawn), starts, "{late}");
        if !starts {
            let left = ms(2968_u64.saturating_sub(late));
            let reason = Reason::TooLate { left, needed };
            assert_eq!(run.settle(), (Exit::Status(69), Some(reason)));
        }
    }
}

#[test]
fn rule_14_command_that_cannot_be_executed_releases_at_once() {
    let program = || "x".to_owned();
    for (reason, code) in [
        (Reason::NotFound { program: program() }, 127),
        (Reason::NotExecutable { program: program(), error: "permission denied".into() }, 126),
    ] {
        let mut run = Run::new(rules());
        run.tell(acquired(2968));
        run.proceed();
        run.take();
        run.tell(Input::NotStarted(reason.clone(), Left::Something));
        assert_eq!(run.deeds(), []);
        run.leader_exits(127);
        assert_eq!(run.deeds(), [Action::StandDown, Action::Release]);
        assert_eq!(run.settle(), (Exit::Status(code), Some(reason)));
    }
    let reason = Reason::Failed { error: "cannot start the command: no memory".into() };
    let mut run = Run::new(rules());
    run.tell(acquired(2968));
    run.proceed();
    run.tell(Input::NotStarted(reason.clone(), Left::Nothing));
    assert_eq!(run.settle(), (Exit::Status(125), Some(reason)));
}

/// Whoever has run something has the lock kept for as long as was asked for; whoever has not gives
/// it back.
#[test]
fn lock_is_finished_after_a_command_and_released_without_one() {
    let deed = |run: &mut Run| {
        let mut deeds = run.take();
        deeds.retain(|action| matches!(action, Action::Finish | Action::Release));
        deeds
    };
    let mut ran = Run::running(rules());
    ran.leader_exits(3);
    assert_eq!(deed(&mut ran), [Action::Finish]);
    let mut lost = Run::running(rules());
    lost.tell(super::lost());
    lost.leader_exits(137);
    assert_eq!(deed(&mut lost), [Action::Finish]);
    let missing = || Reason::NotFound { program: "x".into() };
    for left in [Left::Nothing, Left::Something] {
        let mut none = Run::running(rules());
        none.tell(Input::NotStarted(missing(), left));
        none.leader_exits(127);
        assert_eq!(deed(&mut none), [Action::Release]);
    }
    let mut late = Run::new(rules());
    late.tell(acquired(10));
    late.proceed();
    assert_eq!(deed(&mut late), [Action::Release]);
    let mut cancelled = Run::new(rules());
    cancelled.tell(acquired(2968));
    cancelled.tell(signal(TERM));
    assert_eq!(deed(&mut cancelled), [Action::Release]);
}

#[test]
fn lock_that_could_not_be_given_back_may_stay_for_the_rest_of_its_min_hold() {
    let hold = crate::protocol::MinHold::new(ms(50_000), Ttl::DEFAULT_MAX).unwrap();
    let mut run = Run::running(Rules { timing: rules().timing.keeping(hold), ..rules() });
    run.sleep_to(1000);
    run.leader_exits(0);
    // The release had 1150 ms.
    run.pass_to(2150);
    let at_most = ms(50_000 - 2150);
    assert!(run.take().contains(&Action::Say(Notice::NotReleased { at_most })));
}

#[test]
fn loss_beats_overtime_which_beats_the_status() {
    let mut run = Run::running(Rules { max_runtime: Some(ms(1000)), ..rules() });
    run.pass_to(1100);
    run.tell(lost());
    run.leader_exits(3);
    assert_eq!(run.settle(), (LOST, Some(Reason::Lost)));
}

#[test]
fn rule_46_release_is_deaf_and_bounded() {
    let mut run = Run::running(rules());
    run.pass_to(100);
    run.leader_exits(0);
    run.take();
    for stop in [HUP, INT, TERM, TSTP] {
        run.tell(signal(stop));
    }
    assert_eq!(run.take(), []);
    run.pass_to(1249);
    assert_eq!(run.take(), []);
    run.pass_to(1250);
    let unreleased = Notice::NotReleased { at_most: ms(3000) };
    let end = Action::End(Exit::Status(0));
    assert_eq!(run.unreported(), [Action::Say(unreleased), end], "status unchanged");
}

#[test]
fn rule_46_nodes_that_could_not_be_told_are_named() {
    let mut run = Run::running(rules());
    run.leader_exits(0);
    run.take();
    let nodes = vec![NodeIndex(2)];
    let at_most = ms(2500);
    run.tell(Input::Lock(Event::Settled { untold: nodes.clone(), at_most }));
    let untold = Action::Say(Notice::Untold { nodes, at_most });
    assert_eq!(run.unreported(), [untold, Action::End(Exit::Status(0))]);
}
