//! The deadline: never outlive the validity.

use super::*;

#[test]
fn rule_11_denials_have_their_codes() {
    let rights = NodeView::Refused(Refusal { kind: RefusalKind::Rights, text: "NOPERM".into() });
    let silent = NodeView::Troubled(Trouble::Silent);
    for (verdict, nodes, code) in [
        (Verdict::Held, vec![NodeView::Free; 3], 75),
        (Verdict::Contended, vec![NodeView::Free; 3], 75),
        (Verdict::Unavailable, vec![silent.clone(); 3], 69),
        (Verdict::TooSlow, vec![NodeView::Ours; 3], 69),
        (Verdict::Unavailable, vec![rights.clone(), rights.clone(), silent.clone()], 77),
        (Verdict::Unavailable, vec![rights, silent.clone(), silent], 69),
    ] {
        let mut run = Run::new(rules());
        run.tell(denied(verdict, nodes));
        // The verdict is said at once, the clean-up comes after.
        assert!(run.done.iter().any(|a| matches!(a, Action::Say(Notice::Exit { .. }))));
        run.tell(settled());
        assert_eq!(run.end().0, Exit::Status(code));
    }
    let mut run = Run::new(Rules { conflict: Conflict::Exit(0), ..rules() });
    run.tell(denied(Verdict::Held, Vec::new()));
    assert_eq!(run.settle().0, Exit::Status(0));
}

#[test]
fn rule_33_term_at_t1_and_kill_at_t2() {
    let mut run = Run::running(rules());
    run.pass_to(2267);
    assert_eq!(run.take(), []);
    run.pass_to(2268);
    assert_eq!(run.deeds(), [Action::TermTree]);
    run.pass_to(2767);
    assert_eq!(run.deeds(), []);
    run.pass_to(2768);
    assert_eq!(run.deeds(), [Action::KillTree]);
    run.tell(Input::LeaderEnded(Ending::Signaled(9), Left::Nothing));
    assert_eq!(run.settle(), (LOST, Some(Reason::RanOut)));
}

#[test]
fn rule_33_kill_is_repeated_until_nothing_is_left() {
    let mut run = Run::running(rules());
    run.pass_to(2768);
    run.take();
    run.pass_to(2868);
    assert!(run.deeds().len() > 3);
    run.tell(Input::LeaderEnded(Ending::Signaled(9), Left::Something));
    run.take();
    run.pass_to(3100);
    assert!(run.deeds().contains(&Action::KillTree));
    run.tell(Input::TreeEmpty);
    run.take();
    run.pass_to(3200);
    assert_eq!(run.deeds(), []);
}

#[test]
fn rule_33_extension_moves_the_deadline_but_takes_no_term_back() {
    let mut run = Run::running(rules());
    run.pass_to(1000);
    run.tell(validity(3968));
    run.pass_to(3267);
    assert_eq!(run.deeds(), []);
    run.pass_to(3300);
    assert_eq!(run.deeds(), [Action::TermTree]);
    run.tell(validity(6268));
    run.pass_to(6067);
    assert_eq!(run.deeds(), [], "no second TERM, and KILL moved");
    run.pass_to(6068);
    assert_eq!(run.deeds(), [Action::KillTree]);
}

#[test]
fn rule_33_termed_at_t1_is_79_although_the_command_made_it() {
    let mut run = Run::running(rules());
    run.pass_to(2300);
    run.tell(validity(5300));
    run.leader_exits(0);
    assert_eq!(run.settle(), (LOST, Some(Reason::RanOut)));
}

#[test]
fn validity_that_falls_is_judged_at_once() {
    let mut run = Run::running(rules());
    run.pass_to(1000);
    run.take();
    run.tell(validity(1100));
    assert_eq!(run.deeds(), [Action::KillTree]);
}

#[test]
fn rule_34_definite_loss_kills_at_once() {
    let mut run = Run::running(rules());
    run.pass_to(100);
    run.tell(lost());
    let done = run.take();
    assert!(done.contains(&Action::KillTree));
    assert!(!done.contains(&Action::TermTree));
    assert!(done.contains(&Action::Guard(Some(at(200)))));
    run.tell(Input::LeaderEnded(Ending::Signaled(9), Left::Nothing));
    assert_eq!(run.settle(), (LOST, Some(Reason::Lost)));
}

#[test]
fn rule_34_on_lost_term_gives_the_grace_from_now() {
    let mut run = Run::running(Rules { on_lost: OnLost::Term, ..rules() });
    run.pass_to(100);
    run.tell(lost());
    let done = run.take();
    assert!(done.contains(&Action::TermTree) && !done.contains(&Action::KillTree));
    assert!(done.contains(&Action::Guard(Some(at(700)))), "told to the guardian");
    // Nothing is extended any more, and T1 and T2 of the old validity mean nothing.
    run.tell(validity(9000));
    run.pass_to(599);
    assert_eq!(run.take(), []);
    run.pass_to(600);
    assert_eq!(run.deeds(), [Action::KillTree]);
}

#[test]
fn rule_47_on_lost_continue_runs_on_and_is_79_all_the_same() {
    let mut run = Run::running(Rules { on_lost: OnLost::Continue, ..rules() });
    run.tell(lost());
    let done = run.take();
    assert!(done.contains(&Action::Guard(None)));
    run.pass_to(60_000);
    assert_eq!(run.deeds(), []);
    run.leader_exits(0);
    assert_eq!(run.settle(), (LOST, Some(Reason::Lost)));
}

#[test]
fn rule_35_clock_is_compared_before_anything_else_after_a_stop() {
    for woken_by in [signal(CONT), signal(TERM), validity(9000), Input::Time] {
        let mut run = Run::running(rules());
        run.sleep_to(5000);
        run.tell(woken_by);
        let deeds = run.deeds();
        assert_eq!(deeds[0], Action::KillTree, "{deeds:?}");
        assert!(!deeds.contains(&Action::Relay(CONT)), "no CONT for the dead");
        assert!(!deeds.contains(&Action::Extend));
        run.tell(validity(9000));
        run.tell(Input::LeaderEnded(Ending::Signaled(9), Left::Nothing));
        assert_eq!(run.settle(), (LOST, Some(Reason::RanOut)));
    }
}

#[test]
fn rule_35_stop_within_the_validity_is_followed_by_an_extension() {
    let mut run = Run::running(rules());
    run.sleep_to(1500);
    run.tell(signal(CONT));
    assert_eq!(run.deeds(), [Action::Extend, Action::Relay(CONT)]);
}

#[test]
fn rule_36_guardian_hears_every_validity_and_is_let_go_before_the_release() {
    let mut run = Run::new(rules());
    run.tell(acquired(2968));
    let guards = |run: &mut Run| {
        let mut done = run.take();
        done.retain(|action| matches!(action, Action::Guard(_)));
        done
    };
    // V - margin/2: after our own KILL, before the end.
    assert_eq!(guards(&mut run), [Action::Guard(Some(at(2868)))]);
    run.proceed();
    run.tell(validity(3968));
    assert_eq!(guards(&mut run), [Action::Guard(Some(at(3868)))]);
    run.tell(validity(3500));
    assert_eq!(guards(&mut run), [Action::Guard(Some(at(3400)))]);
    run.leader_exits(0);
    assert_eq!(run.deeds(), [Action::StandDown, Action::Finish]);
    run.tell(Input::GuardianDied);
    assert_eq!(run.take(), []);
}

#[test]
fn rule_36_death_of_the_guardian_is_a_warning() {
    let mut run = Run::running(rules());
    run.tell(Input::GuardianDied);
    assert_eq!(run.take(), [Action::Say(Notice::GuardianDied)]);
    run.leader_exits(3);
    assert_eq!(run.settle(), (Exit::Status(3), None));
}

#[test]
fn lost_connection_to_the_lock_ends_a_wait_but_not_a_command() {
    let mut run = Run::new(rules());
    run.tell(Input::LockGone);
    assert_eq!(run.end().0, Exit::Status(125));

    let mut run = Run::running(rules());
    run.tell(Input::LockGone);
    run.tell(Input::LockGone);
    assert_eq!(run.take(), [Action::Say(Notice::NodesGone)]);
    run.pass_to(2268);
    assert_eq!(run.deeds(), [Action::TermTree]);
    run.leader_exits(0);
    assert_eq!(run.end().0, LOST);
}

#[test]
fn command_that_ends_after_the_validity_is_79() {
    // On the very wake-up that tells of its end: it may have worked without the lock.
    let mut run = Run::running(rules());
    run.sleep_to(3000);
    run.leader_exits(0);
    assert_eq!(run.settle(), (LOST, Some(Reason::RanOut)));
}

proptest::proptest! {
    /// Invariant 2 of the protocol: at any moment at which the machine was asked, a living command
    /// has its validity in the future or KILL is under way.
    #[test]
    fn command_never_outlives_the_validity_unkilled(
        steps in proptest::collection::vec((0_u64..1500, 0_u8..8, 0_u64..6000), 1..40),
        placing in proptest::sample::select(vec![Placing::Own, Placing::Shared, Placing::Handover]),
    ) {
        let mut run = Run::running(Rules { placing, ..rules() });
        let mut end = 2968;
        let mut killed = false;
        for (pause, what, ahead) in steps {
            let next = run.now + pause;
            if what % 2 == 0 { run.pass_to(next) } else { run.sleep_to(next) }
            let input = match what {
                0 | 1 => {
                    // As the lock: past its end it is dead for ever.
                    if end <= run.now { Input::Time } else {
                        end = run.now + ahead;
                        validity(end)
                    }
                }
                2 => signal(TERM),
                3 => signal(CONT),
                4 => signal(TSTP),
                5 => Input::LeaderStopped(TSTP),
                6 => Input::LeaderContinued,
                _ => Input::Time,
            };
            run.tell(input);
            killed |= run.take().contains(&Action::KillTree);
            proptest::prop_assert!(killed || run.now < end);
        }
    }
}
