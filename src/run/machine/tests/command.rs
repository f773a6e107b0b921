//! Looking after the command.

use super::*;

#[test]
fn rule_38_max_runtime_ends_with_124_or_137() {
    let limited = || Rules { max_runtime: Some(ms(1000)), kill_after: Some(ms(500)), ..rules() };
    let limit = ms(1000);
    let mut run = Run::running(limited());
    run.pass_to(999);
    assert_eq!(run.deeds(), []);
    run.pass_to(1000);
    assert_eq!(run.deeds(), [Action::TermTree]);
    run.leader_exits(0);
    let by = EndedBy::Term;
    let reason = Reason::MaxRuntime { limit, by };
    assert_eq!(run.settle(), (Exit::Status(124), Some(reason)));

    let mut run = Run::running(limited());
    run.pass_to(1499);
    run.take();
    run.pass_to(1500);
    assert_eq!(run.deeds(), [Action::KillTree]);
    run.tell(Input::LeaderEnded(Ending::Signaled(9), Left::Nothing));
    let by = EndedBy::Kill;
    let reason = Reason::MaxRuntime { limit, by };
    assert_eq!(run.settle(), (Exit::Status(137), Some(reason)));
}

#[test]
fn rule_38_max_runtime_counts_to_the_last_descendant() {
    let mut run = Run::running(Rules { max_runtime: Some(ms(1000)), ..rules() });
    run.tell(Input::LeaderEnded(Ending::Exited(0), Left::Something));
    run.take();
    run.pass_to(1000);
    assert!(run.deeds().contains(&Action::TermTree));
    run.tell(Input::TreeEmpty);
    assert_eq!(run.settle().0, Exit::Status(124));
}

#[test]
fn rule_28_relayed_signal_sets_no_timer_unless_asked_for() {
    let mut run = Run::running(rules());
    run.tell(signal(TERM));
    assert_eq!(run.deeds(), [Action::Relay(TERM)]);
    run.tell(validity(60_000));
    run.pass_to(50_000);
    assert_eq!(run.deeds(), []);
}

#[test]
fn kill_after_bounds_a_relayed_signal_and_repetition_does_not_hasten_it() {
    let mut run = Run::running(Rules { kill_after: Some(ms(500)), ..rules() });
    run.tell(signal(libc::SIGUSR1));
    run.pass_to(900);
    assert_eq!(run.deeds(), [Action::Relay(libc::SIGUSR1)]);
    run.tell(signal(TERM));
    run.pass_to(1200);
    for _ in 0..5 {
        run.tell(signal(TERM));
    }
    run.take();
    run.pass_to(1399);
    assert_eq!(run.deeds(), []);
    run.pass_to(1400);
    assert_eq!(run.deeds(), [Action::KillTree]);
    // The status stays the command's.
    run.tell(Input::LeaderEnded(Ending::Signaled(9), Left::Nothing));
    assert_eq!(run.settle(), (Exit::Signal(9), None));
}

#[test]
fn rule_27_no_number_of_interrupts_kills() {
    for source in [Source::Kernel, Source::Other] {
        let mut run = Run::running(Rules { placing: Placing::Shared, ..rules() });
        for _ in 0..20 {
            run.tell(Input::Signal(INT, source));
        }
        assert!(run.deeds().iter().all(|deed| *deed == Action::Relay(INT)));
    }
}

#[test]
fn rule_24_terminals_interrupt_is_not_relayed_in_a_shared_group() {
    let mut run = Run::running(Rules { placing: Placing::Shared, ..rules() });
    run.tell(Input::Signal(INT, Source::Kernel));
    run.tell(Input::Signal(TERM, Source::Command));
    assert_eq!(run.deeds(), []);
}

#[test]
fn rule_39_death_of_the_parent_is_term_then_kill() {
    let mut run = Run::new(rules());
    run.tell(Input::ParentDied);
    assert_eq!(run.settle(), (Exit::Signal(TERM), None));

    let mut run = Run::running(rules());
    run.tell(validity(60_000));
    run.tell(Input::ParentDied);
    assert_eq!(run.deeds(), [Action::TermTree]);
    run.pass_to(9999);
    assert_eq!(run.deeds(), []);
    run.pass_to(10_000);
    assert_eq!(run.deeds(), [Action::KillTree]);
}

#[test]
fn rule_40_ctrl_z_in_a_shared_group_stops_only_us() {
    let mut run = Run::running(Rules { placing: Placing::Shared, ..rules() });
    run.tell(Input::Signal(TSTP, Source::Kernel));
    assert_eq!(run.deeds(), [Action::StopSelf]);
    run.sleep_to(1000);
    run.tell(signal(CONT));
    assert_eq!(run.deeds(), [Action::Extend, Action::Relay(CONT)]);
}

#[test]
fn rule_42_tstp_in_an_own_group_stops_the_command_first() {
    let mut run = Run::running(rules());
    run.tell(signal(TSTP));
    assert_eq!(run.deeds(), [Action::StopCommand, Action::StopSelf]);
    // Its stop is our doing and does not count.
    run.tell(Input::LeaderStopped(libc::SIGSTOP));
    assert_eq!(run.take(), []);
    run.sleep_to(1000);
    run.tell(signal(CONT));
    assert_eq!(run.deeds(), [Action::Extend, Action::Relay(CONT)]);
}

#[test]
fn rule_41_stop_of_the_terminals_owner_suspends_us_with_it() {
    let handover = || Rules { placing: Placing::Handover, ..rules() };
    let mut run = Run::running(handover());
    run.tell(Input::LeaderStopped(TSTP));
    assert_eq!(run.deeds(), [Action::Suspend]);
    run.sleep_to(1000);
    run.tell(signal(CONT));
    assert_eq!(run.deeds(), [Action::Extend, Action::Resume]);

    let mut run = Run::running(handover());
    run.tell(Input::LeaderStopped(TSTP));
    run.sleep_to(4000);
    run.take();
    run.tell(signal(CONT));
    assert_eq!(run.deeds()[0], Action::KillTree, "the stopped die stopped");
    assert!(!run.take().contains(&Action::Resume));
}

#[test]
fn stop_while_waiting_stops_us_alone() {
    let mut run = Run::new(rules());
    run.tell(signal(TSTP));
    assert_eq!(run.deeds(), [Action::StopSelf]);
}

#[test]
fn rule_22_stopped_command_is_named_and_then_killed() {
    let mut run = Run::running(rules());
    run.tell(validity(600_000));
    run.pass_to(1000);
    run.tell(Input::LeaderStopped(libc::SIGTTIN));
    run.take();
    run.pass_to(3999);
    assert_eq!(run.take(), []);
    run.pass_to(30_999);
    let warning = Notice::Stopped { signal: libc::SIGTTIN, since: ms(3000), kill_in: ms(27_000) };
    assert_eq!(run.take(), [Action::Say(warning)], "once");
    run.pass_to(31_000);
    assert_eq!(run.deeds(), [Action::KillTree]);
    run.tell(Input::LeaderEnded(Ending::Signaled(9), Left::Nothing));
    let reason = Reason::MaxStopped { limit: ms(30_000) };
    assert_eq!(run.settle(), (Exit::Status(137), Some(reason)));
}

#[test]
fn rule_22_command_that_is_continued_in_time_lives() {
    let mut run = Run::running(rules());
    run.tell(validity(600_000));
    run.tell(Input::LeaderStopped(libc::SIGSTOP));
    run.pass_to(2000);
    run.tell(Input::LeaderContinued);
    run.take();
    run.pass_to(100_000);
    assert_eq!(run.take(), []);
}

#[test]
fn rule_44_leftover_is_waited_for_and_named() {
    let mut run = Run::running(rules());
    run.tell(validity(600_000));
    run.take();
    run.tell(Input::LeaderEnded(Ending::Exited(3), Left::Something));
    run.pass_to(999);
    assert_eq!(run.take(), []);
    run.pass_to(200_000);
    // After 1 s, then 30 s later, doubling.
    let named = [1000, 31_000, 91_000].map(|since| Action::NameLeftover(ms(since)));
    assert_eq!(run.take(), named);
    run.tell(Input::TreeEmpty);
    assert_eq!(run.settle(), (Exit::Status(3), None));
}

#[test]
fn rule_44_leftover_is_killed_or_ignored() {
    let mut run = Run::running(Rules { leftover: Leftover::Kill, ..rules() });
    run.tell(Input::LeaderEnded(Ending::Exited(3), Left::Something));
    assert_eq!(run.deeds(), [Action::TermTree]);
    run.pass_to(500);
    assert_eq!(run.deeds(), [Action::KillTree]);
    run.tell(Input::TreeEmpty);
    assert_eq!(run.settle(), (Exit::Status(3), None));

    let mut run = Run::running(Rules { leftover: Leftover::Ignore, ..rules() });
    run.tell(Input::LeaderEnded(Ending::Exited(3), Left::Something));
    assert_eq!(run.deeds(), [Action::StandDown, Action::Finish]);
    assert_eq!(run.settle(), (Exit::Status(3), None));
}

#[test]
fn rule_44_signal_while_waiting_for_leftover_ends_it() {
    for stop in [HUP, INT, TERM] {
        let mut run = Run::running(Rules { placing: Placing::Shared, ..rules() });
        run.tell(Input::LeaderEnded(Ending::Exited(3), Left::Something));
        run.tell(Input::Signal(stop, Source::Kernel));
        assert_eq!(run.deeds(), [Action::TermTree]);
        run.tell(signal(stop));
        assert_eq!(run.deeds(), [], "once");
        run.pass_to(500);
        assert_eq!(run.deeds(), [Action::KillTree]);
        run.tell(Input::TreeEmpty);
        assert_eq!(run.settle(), (Exit::Status(3), None));
    }
}

#[test]
fn rule_30_refusal_is_said_once_and_supervision_goes_on() {
    let sudo = || Input::Refused(vec![Process { pid: 7, name: "sudo".into() }]);
    let mut run =
        Run::running(Rules { max_runtime: Some(ms(1000)), kill_after: Some(ms(100)), ..rules() });
    run.pass_to(1000);
    run.tell(sudo());
    run.pass_to(1100);
    run.tell(sudo());
    run.tell(sudo());
    let said = run.take();
    let refusals = |done: &[Action]| {
        let is = |a: &&Action| matches!(a, Action::Say(Notice::CannotSignal { .. }));
        done.iter().filter(is).count()
    };
    assert_eq!(refusals(&said), 1);
    // While the lock is extended it is kept ...
    run.tell(validity(8000));
    run.pass_to(7999);
    assert!(!run.deeds().contains(&Action::Finish));
    // ... until it is over: nothing is left to keep.
    run.pass_to(8000);
    assert!(run.deeds().contains(&Action::Finish));
    assert_eq!(run.settle().0, LOST);
}
