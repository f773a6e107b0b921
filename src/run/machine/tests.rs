//! The decisions of a run, in virtual time. Numbers are rules of the supervision contract.

use std::time::Duration;

use super::*;
use crate::{
    child::Left,
    protocol::{
        Denial, Event, Limits, NodeIndex, NodeView, Refusal, RefusalKind, Timing, Token, Trouble,
        Ttl, Verdict,
    },
    settings::{Conflict, Leftover},
    signal::{Placing, Source},
    ui::{EndedBy, OnLost, Process},
};

const HUP: i32 = libc::SIGHUP;
const INT: i32 = libc::SIGINT;
const TERM: i32 = libc::SIGTERM;
const CONT: i32 = libc::SIGCONT;
const TSTP: i32 = libc::SIGTSTP;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A ttl of 3 s: drift 32, grace 500, margin 200 ms. Acquired at 0: V 2968, T1 2268, T2 2768.
fn rules() -> Rules {
    let ttl = Ttl::new(ms(3000), Ttl::DEFAULT_MAX).unwrap();
    Rules {
        timing: Timing::new(ttl, &Limits::default()).unwrap(),
        placing: Placing::Own,
        on_lost: OnLost::Kill,
        leftover: Leftover::Wait,
        max_runtime: None,
        kill_after: None,
        max_stopped: ms(30_000),
        heartbeat: Some(ms(30_000)),
        conflict: Conflict::Exit(75),
    }
}

/// A machine, its clock (ms since the start), and what it did since anybody asked.
struct Run {
    machine: Machine,
    now: u64,
    done: Vec<Action>,
}

impl Run {
    fn new(rules: Rules) -> Self {
        Self { machine: Machine::new(rules), now: 0, done: Vec::new() }
    }

    /// A command that runs since 0 under a lock acquired at 0.
    fn running(rules: Rules) -> Self {
        let mut run = Self::new(rules);
        run.tell(acquired(2968));
        assert!(run.machine.is_ready());
        run.proceed();
        assert!(run.take().contains(&Action::Spawn));
        run
    }

    fn tick(&self) -> Tick {
        at(self.now)
    }

    fn tell(&mut self, input: Input) {
        self.machine.handle(input, self.tick());
        self.done.extend(self.machine.actions());
    }

    fn proceed(&mut self) {
        self.machine.proceed(at(self.now));
        self.done.extend(self.machine.actions());
    }

    /// Lets time pass as the shell does: waking at each deadline.
    fn pass_to(&mut self, end: u64) {
        while let Some(due) = self.machine.deadline().filter(|due| *due <= at(end)) {
            let due = u64::try_from(due.since(at(0)).as_micros().div_ceil(1000)).unwrap();
            self.now = self.now.max(due);
            self.tell(Input::Time);
        }
        self.now = end;
        self.tell(Input::Time);
    }

    /// Time passes without our noticing: we were stopped.
    fn sleep_to(&mut self, end: u64) {
        self.now = end;
    }

    fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.done)
    }

    /// What was done, without words.
    fn deeds(&mut self) -> Vec<Action> {
        let mut deeds = self.take();
        deeds.retain(|action| !matches!(action, Action::Say(_) | Action::Guard(_)));
        deeds
    }

    fn leader_exits(&mut self, status: u8) {
        self.tell(Input::LeaderEnded(Ending::Exited(status), Left::Nothing));
    }

    /// The lock is given back: how it ended, and the last line.
    fn settle(&mut self) -> (Exit, Option<Reason>) {
        self.tell(settled());
        self.end()
    }

    fn end(&mut self) -> (Exit, Option<Reason>) {
        let done = self.take();
        let exits: Vec<_> = done
            .iter()
            .filter_map(|action| match action {
                Action::End(exit) => Some(*exit),
                _ => None,
            })
            .collect();
        assert_eq!(exits.len(), 1, "{done:?}");
        let mut reasons = done.into_iter().filter_map(|action| match action {
            Action::Say(Notice::Exit { code, reason }) => {
                assert_eq!(exits[0], Exit::Status(code));
                Some(reason)
            }
            _ => None,
        });
        let reason = reasons.next();
        assert_eq!(reasons.next(), None, "one last line");
        (exits[0], reason)
    }
}

fn at(ms: u64) -> Tick {
    // Far from the zero at which arithmetic saturates.
    Tick::from_boot(Duration::from_secs(1_000_000) + Duration::from_millis(ms))
}

fn acquired(validity: u64) -> Input {
    Input::Lock(Event::Acquired {
        token: Token::from_random(1),
        validity: at(validity),
        nodes: 3,
        waited: Duration::ZERO,
    })
}

fn validity(end: u64) -> Input {
    Input::Lock(Event::Validity(at(end)))
}

fn lost() -> Input {
    Input::Lock(Event::Lost(vec![NodeView::Free; 2]))
}

fn settled() -> Input {
    Input::Lock(Event::Settled { untold: Vec::new(), at_most: Duration::ZERO })
}

fn denied(verdict: Verdict, nodes: Vec<NodeView>) -> Input {
    Input::Lock(Event::Denied(Denial { verdict, nodes, waited: Duration::ZERO }))
}

fn signal(signal: i32) -> Input {
    Input::Signal(signal, Source::Other)
}

const LOST: Exit = Exit::Status(79);

#[test]
fn rule_48_49_status_of_the_command_passes_through() {
    for status in [0, 1, 7, 75, 79, 255] {
        let mut run = Run::running(rules());
        run.leader_exits(status);
        assert_eq!(run.deeds(), [Action::StandDown, Action::Release]);
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
    assert_eq!(run.deeds(), [Action::StandDown, Action::Release]);
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
fn loss_beats_overtime_which_beats_the_status() {
    let mut run = Run::running(Rules { max_runtime: Some(ms(1000)), ..rules() });
    run.pass_to(1100);
    run.tell(lost());
    run.leader_exits(3);
    assert_eq!(run.settle(), (LOST, Some(Reason::Lost)));
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
    assert_eq!(run.deeds(), [Action::StandDown, Action::Release]);
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
    assert_eq!(run.take(), [Action::Say(unreleased), end], "status unchanged");
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
    assert_eq!(run.take(), [untold, Action::End(Exit::Status(0))]);
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
    assert!(!run.deeds().contains(&Action::Release));
    // ... until it is over: nothing is left to keep.
    run.pass_to(8000);
    assert!(run.deeds().contains(&Action::Release));
    assert_eq!(run.settle().0, LOST);
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
