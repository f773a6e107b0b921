//! Which signals are passed on to the command. The sender decides, not whether standard input is a
//! terminal: one ^C must reach the command once, a `kill` of redlock must reach it too (sudo's
//! rule, simplified; docs/supervision.md rules 23 to 26).

use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

/// Who sent a signal, as far as the rule asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kernel: for the signals of job control that is the terminal's driver, which sends to
    /// the whole foreground group.
    Kernel,
    /// The command, or a member of the group that the command leads.
    Command,
    /// Anybody else, also outside of our pid namespace.
    Other,
}

/// Where the command sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// In a group of its own.
    Own,
    /// In our group.
    Shared,
    /// In a group of its own that owns the terminal.
    Handover,
}

/// What to do with a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it to the command (its group, when it has one).
    Forward,
    /// The command has it already: the terminal gave it to both.
    HasIt,
    /// The command sent it: sending it back would go in circles.
    SentIt,
    /// Not for the command.
    NotForIt,
}

/// Decides about one signal. Nothing here counts: duplicates cannot be told apart, so nothing
/// follows from them.
pub fn relay(signal: i32, source: Source, placing: Placing) -> Verdict {
    if source == Source::Command {
        return Verdict::SentIt;
    }
    let from_terminal = source == Source::Kernel
        && matches!(signal, SIGHUP | SIGINT | SIGQUIT | SIGTERM | SIGTSTP | SIGCONT | SIGWINCH);
    match signal {
        _ if from_terminal && placing == Placing::Shared => Verdict::HasIt,
        SIGWINCH if placing == Placing::Shared => Verdict::NotForIt,
        SIGHUP | SIGINT | SIGQUIT | SIGTERM | SIGUSR1 | SIGUSR2 | SIGALRM | SIGWINCH | SIGCONT
        | SIGTSTP => Verdict::Forward,
        _ => Verdict::NotForIt,
    }
}

/// A signal's name without its SIG, for people.
pub fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal)
        .map_or_else(|| signal.to_string(), |name| name.trim_start_matches("SIG").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELAYED: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
    const PLACINGS: [Placing; 3] = [Placing::Own, Placing::Shared, Placing::Handover];

    /// Rule 23: consul#2489, consul#1210, uutils#10238.
    #[test]
    fn every_relayed_signal_from_outside_reaches_the_command() {
        for signal in RELAYED {
            for placing in PLACINGS {
                assert_eq!(relay(signal, Source::Other, placing), Verdict::Forward);
            }
        }
    }

    /// Rule 24: compose-cli#1151, npm/cli#6684.
    #[test]
    fn terminals_signal_is_dropped_only_where_the_command_got_it_too() {
        for signal in [SIGINT, SIGQUIT, SIGHUP] {
            assert_eq!(relay(signal, Source::Kernel, Placing::Shared), Verdict::HasIt);
            assert_eq!(relay(signal, Source::Kernel, Placing::Own), Verdict::Forward);
        }
    }

    #[test]
    fn commands_own_signal_is_never_sent_back() {
        for signal in RELAYED {
            for placing in PLACINGS {
                assert_eq!(relay(signal, Source::Command, placing), Verdict::SentIt);
            }
        }
    }

    #[test]
    fn timer_of_our_caller_is_no_terminal() {
        assert_eq!(relay(SIGALRM, Source::Kernel, Placing::Shared), Verdict::Forward);
    }

    #[test]
    fn window_changes_are_for_a_group_of_its_own() {
        assert_eq!(relay(SIGWINCH, Source::Other, Placing::Own), Verdict::Forward);
        assert_eq!(relay(SIGWINCH, Source::Other, Placing::Shared), Verdict::NotForIt);
    }

    #[test]
    fn signals_about_ourselves_are_never_relayed() {
        use signal_hook::consts::{SIGCHLD, SIGPIPE, SIGTTIN, SIGTTOU};
        for signal in [SIGCHLD, SIGPIPE, SIGTTIN, SIGTTOU] {
            assert_eq!(relay(signal, Source::Other, Placing::Own), Verdict::NotForIt);
        }
    }

    #[test]
    fn signals_are_named_as_people_name_them() {
        assert_eq!(name(SIGTERM), "TERM");
        assert_eq!(name(64), "64");
    }
}
