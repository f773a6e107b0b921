//! The program on a real terminal, over real nodes: `^C`, `^Z` and `fg`, a script's loop, a closed
//! window.

use rustix::process::{Pid, Signal};

use crate::harness::{
    builder::End,
    eventually,
    fixture::child,
    fleet,
    pty::{INTERRUPT, SUSPEND, Terminal},
    servers::{Fleet, Inspect, InspectAll},
    state,
};

use super::{requests, send, wait_dead};

const REDLOCK: &str = env!("CARGO_BIN_EXE_redlock");

/// A terminal whose leader is this program, in an environment that names the nodes and, as `$RL`
/// and `$CHILD`, our two programs.
fn terminal(fleet: &Fleet, words: &[&str]) -> Terminal {
    // Whoever runs the tests may ignore INT (`&` in a script does).
    let words = ["env", "--default-signal"].iter().chain(words);
    Terminal::start(
        words,
        &[
            ("REDLOCK_NODES", &fleet.nodes()),
            ("REDLOCK_RESTART_GUARD", "off"),
            ("REDLOCK_CONFIG", "/dev/null"),
            ("RL", REDLOCK),
            ("CHILD", child().to_str().unwrap()),
            ("PS1", "prompt> "),
        ],
    )
}

/// An interactive shell that has been given this line.
fn shell(fleet: &Fleet, line: &str) -> Terminal {
    let mut terminal = terminal(fleet, &["bash", "--norc", "--noediting", "-i"]);
    types_line(&mut terminal, line);
    terminal
}

/// Types a line at the prompt. What the line echoes is behind us then, so that words in it are not
/// taken for its output.
fn types_line(terminal: &mut Terminal, line: &str) {
    terminal.wait_for("prompt> ").types(&format!("{line}\n")).wait_for("\r\n");
}

/// The next number on the screen that stands between `before` and the end of its line.
fn number_after(terminal: &mut Terminal, before: &str) -> Pid {
    let from = terminal.screen().len();
    terminal.wait_for(before).wait_for("\r\n");
    let screen = terminal.screen();
    // The line may have been there already when this was called.
    let place = screen.rfind(before).unwrap_or(from) + before.len();
    let text: String = screen[place..].chars().take_while(char::is_ascii_digit).collect();
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

/// Rule 24: 20 of 20. A naive relay doubled 17 of them.
#[test]
fn rule_24_each_of_twenty_interrupts_reaches_the_command_once() {
    for group in ["auto", "shared", "handover"] {
        let fleet = fleet(1);
        let mut terminal = terminal(
            &fleet,
            &[
                REDLOCK,
                "run",
                "-n",
                "-k",
                "k",
                "--group",
                group,
                "--",
                "sh",
                "-c",
                "exec $CHILD signals",
            ],
        );
        let redlock = terminal.leader();
        terminal.wait_for("ready");
        for _ in 0..20 {
            terminal.types(INTERRUPT).wait_for("got INT");
            // What redlock would have added to the INT is on its way before this one.
            send(redlock, Signal::USR1);
            terminal.wait_for("got USR1");
        }
        // From outside it is relayed, once, terminal or not (rule 25).
        send(redlock, Signal::INT);
        terminal.wait_for("got INT");
        send(redlock, Signal::TERM);
        terminal.wait_for("got TERM");
        assert_eq!(terminal.finish(), End::Exit(0), "{}", terminal.screen());
        assert_eq!(terminal.screen().matches("got INT").count(), 21, "{group}");
        assert_eq!(fleet.all_keys(), [""; 0]);
    }
}

/// Rule 27: ^C is input for many a command. Five of them end nothing.
#[test]
fn rule_27_interrupts_that_the_command_ignores_end_nothing() {
    let fleet = fleet(3);
    let line = "$RL run -n -k k -- sh -c 'trap \"\" INT; echo pid=$$; exec sleep 60'";
    let mut terminal = shell(&fleet, line);
    let command = number_after(&mut terminal, "pid=");
    for _ in 0..5 {
        terminal.types(INTERRUPT).wait_for("^C");
    }
    // Redlock has seen them when it relays what comes later.
    assert_eq!(fleet.holding("k").len(), 3);
    assert!(crate::harness::alive(command));
    send(command, Signal::TERM);
    terminal.wait_for("prompt> ");
    eventually("the lock is given back", || fleet.all_keys().is_empty());
}

/// Rule 40 and 43: ^Z for longer than the lock lasts. It runs out meanwhile, and fg finds a command
/// without the right to a single further step.
#[test]
fn rules_40_and_43_ctrl_z_beyond_the_validity_loses_the_lock_and_is_79() {
    for guardian in ["", "--no-guardian"] {
        let fleet = fleet(3);
        let line =
            format!("$RL run -n -k k --ttl 500ms {guardian} -- sh -c 'echo pid=$$; exec sleep 60'");
        let mut terminal = shell(&fleet, &line);
        let command = number_after(&mut terminal, "pid=");
        terminal.types(SUSPEND).wait_for("Stopped");
        eventually("the lock runs out", || fleet.all_keys().is_empty());
        types_line(&mut terminal, "fg; echo status=$?");
        terminal.wait_for("'k' has run out").wait_for("status=79");
        wait_dead("the command", &[command]);
    }
}

/// Rule 40: within the validity nothing happened.
#[test]
fn rule_40_ctrl_z_within_the_validity_continues() {
    for group in ["auto", "handover"] {
        let fleet = fleet(3);
        let line = format!(
            "$RL run -n -k k --ttl 30s --group {group} -- sh -c 'echo pid=$$; read x; echo READ=$x'"
        );
        let mut terminal = shell(&fleet, &line);
        let command = number_after(&mut terminal, "pid=");
        for _ in 0..2 {
            terminal.types(SUSPEND).wait_for("Stopped");
            eventually("the stop", || state(command) == Some('T'));
            let before = requests(&fleet);
            types_line(&mut terminal, "fg");
            eventually("the continuation", || state(command) != Some('T'));
            // At once, 10 s before it is due. A ^Z that redlock sees together with this continue
            // would be taken for the older of the two.
            eventually("the extension", || requests(&fleet) > before);
        }
        terminal.types("hello\n").wait_for("READ=hello");
        types_line(&mut terminal, "echo status=$?");
        terminal.wait_for("status=0");
        assert_eq!(fleet.all_keys(), [""; 0], "{group}");
    }
}

/// Rule 21: a terminal that stops whoever writes to it from the background does not stop us, and
/// the message arrives.
#[test]
fn rule_21_tostop_stops_no_message() {
    let run = "$RL run -k k -n --max-runtime 100ms";
    for line in [
        // A job in the background, and one that has given its terminal to the command.
        format!("stty tostop; {run} -- sleep 60 & wait $!; echo status=$?"),
        format!("stty tostop; {run} --group handover -- sleep 60; echo status=$?"),
    ] {
        let fleet = fleet(1);
        let mut terminal = shell(&fleet, &line);
        terminal.wait_for("exit 124").wait_for("status=124");
        assert_eq!(fleet.all_keys(), [""; 0]);
    }
}

/// Rule 48: exit 130 would let the loop go on.
#[test]
fn rule_48_interrupt_ends_the_loop_of_a_script() {
    for group in ["auto", "handover"] {
        let fleet = fleet(1);
        let line = format!(
            "for i in 1 2; do $RL run -n -k k --group {group} -- sh -c 'echo started; exec sleep 60'; \
             echo went on; done"
        );
        let mut terminal = terminal(&fleet, &["bash", "-c", &line]);
        terminal.script(&[("started", INTERRUPT)]);
        assert_eq!(terminal.finish(), End::Signal(2), "{group}: {}", terminal.screen());
        assert!(!terminal.screen().contains("went on"), "{group}: {}", terminal.screen());
        eventually("the lock is given back", || fleet.all_keys().is_empty());
    }
}

/// Rule 50: the window is closed. The command goes, and the lock does long before it would run out,
/// whatever is said into a terminal that is not there.
#[test]
fn rule_50_closed_terminal_leaves_no_command_and_no_lock() {
    for group in ["auto", "handover"] {
        let fleet = fleet(3);
        let line = format!(
            "$RL run -vv -n -k k --ttl 90s --group {group} -- sh -c 'echo pid=$$; exec sleep 60'"
        );
        let mut terminal = shell(&fleet, &line);
        let command = number_after(&mut terminal, "pid=");
        assert!(fleet.servers()[0].exists("k"));
        terminal.close();
        wait_dead("the command", &[command]);
        eventually("the lock is given back", || fleet.all_keys().is_empty());
    }
}

/// Rule 50, found by an attack: where redlock leads the session (`ssh -t host redlock run ...`) the
/// kernel tells it alone that the terminal is gone, whatever group the command is in.
#[test]
fn rule_50_closed_terminal_of_a_session_that_we_lead_ends_the_command() {
    for group in ["auto", "own", "handover"] {
        let fleet = fleet(3);
        let run =
            [env!("CARGO_BIN_EXE_redlock"), "run", "-n", "-k", "k", "--ttl", "90s", "--group"];
        let command = [group, "--", "sh", "-c", "echo pid=$$; exec sleep 60"];
        let words: Vec<&str> = run.into_iter().chain(command).collect();
        let mut terminal = terminal(&fleet, &words);
        let command = number_after(&mut terminal, "pid=");
        terminal.close();
        wait_dead("the command", &[command]);
        eventually("the lock is given back", || fleet.all_keys().is_empty());
    }
}

/// Rule 22; watchexec#874: a job in the background that reads the terminal is stopped by it, and
/// would hold its lock for ever.
#[test]
fn rule_22_background_command_that_reads_the_terminal_is_named_and_killed() {
    for group in ["auto", "own", "shared"] {
        let fleet = fleet(3);
        let line = format!(
            "$RL run -n -k k --ttl 1s --group {group} --max-stopped 2s -- sh -c 'read x; echo never' & \
             wait $!; echo status=$?"
        );
        let mut terminal = shell(&fleet, &line);
        terminal.wait_for("has been stopped by TTIN").wait_for("status=137");
        assert_eq!(fleet.all_keys(), [""; 0], "{group}");
    }
}
