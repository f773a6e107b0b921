//! On a real terminal: ^C, ^Z and fg in a shared group and handed over.

use super::support::{Lock, Terminal, alive, stopped, wait_for};

#[test]
fn rule_24_one_interrupt_reaches_the_command_once() {
    let lock = Lock::new();
    let mut terminal = Terminal::new(&lock);
    for round in 0..20 {
        terminal.line(
            "rm -f $D/end; $RUN $D -- $SIGCOUNT $D/end | (trap '' INT; exec tee $D/out); echo over",
        );
        terminal.wait_for("ready");
        terminal.write("\x03");
        terminal.wait_for("got INT from kernel");
        // Whatever a relay would add comes before a signal that is sent now.
        let out = lock.path("out");
        lock.make("end");
        terminal.wait_for("over");
        let text = std::fs::read_to_string(out).unwrap();
        assert_eq!(text.matches("got INT").count(), 1, "round {round}: {text}");
    }
}

#[test]
fn rule_25_interrupt_by_kill_is_relayed_on_a_terminal_too() {
    let lock = Lock::new();
    let mut terminal = Terminal::new(&lock);
    terminal.line("sh -c 'echo $$ >$D/run; exec $RUN $D -- $SIGCOUNT $D/end'");
    terminal.wait_for("ready");
    let run = lock.number("run");
    super::support::send(run, rustix::process::Signal::INT);
    terminal.wait_for(&format!("got INT from {run}"));
    lock.make("end");
}

#[test]
fn rule_27_five_interrupts_do_not_end_a_command_that_ignores_them() {
    let lock = Lock::new();
    let mut terminal = Terminal::new(&lock);
    terminal.line("$RUN $D -- $SIGCOUNT $D/end; echo status $?");
    terminal.wait_for("ready");
    for _ in 0..5 {
        terminal.write("\x03");
        terminal.wait_for("got INT");
    }
    assert!(lock.held());
    lock.make("end");
    terminal.wait_for("status 0");
}

#[test]
fn rule_19_reader_at_the_end_of_a_pipe_is_not_stopped() {
    let lock = Lock::new();
    let mut terminal = Terminal::new(&lock);
    terminal.line("$RUN $D -- sleep .5 | sh -c 'echo asking; read x </dev/tty; echo READ=$x'");
    terminal.wait_for("asking");
    terminal.write("hello\n");
    terminal.wait_for("READ=hello");
}

#[test]
fn rule_19_command_in_the_foreground_reads_the_terminal() {
    for group in ["auto", "handover"] {
        let lock = Lock::new();
        let mut terminal = Terminal::new(&lock);
        terminal.line(&format!(
            "$RUN $D group={group} -- sh -c 'echo asking; read x; echo READ=$x'; echo status $?"
        ));
        terminal.wait_for("asking");
        terminal.write("hello\n");
        terminal.wait_for("READ=hello");
        terminal.wait_for("status 0");
        // The shell has its terminal back.
        terminal.line("echo again");
        terminal.wait_for("again");
    }
}

#[test]
fn rule_21_tostop_does_not_stop_us() {
    let lock = Lock::new();
    let mut terminal = Terminal::new(&lock);
    terminal.line("stty tostop; $RUN $D group=own -- sh -c 'exec 2>/dev/null; sleep .2; exit 9'; echo status $?");
    terminal.wait_for("status 9");
}

#[test]
fn rule_40_ctrl_z_and_fg_within_the_validity() {
    let lock = Lock::new();
    let mut terminal = Terminal::new(&lock);
    terminal.line("$RUN $D ttl=30s -- sh -c 'echo $$ >$D/pid; exec $SIGCOUNT $D/end'");
    terminal.wait_for("ready");
    let command = lock.number("pid");
    terminal.write("\x1a");
    terminal.wait_for("Stopped");
    wait_for("the stop", || stopped(command).then_some(()));
    terminal.line("fg; echo status $?");
    terminal.wait_for("got CONT");
    lock.make("end");
    terminal.wait_for("status 0");
}

#[test]
fn rule_40_ctrl_z_beyond_the_validity_is_79() {
    for (group, guardian) in
        [("auto", "on"), ("auto", "off"), ("handover", "on"), ("handover", "off")]
    {
        let lock = Lock::new();
        let mut terminal = Terminal::new(&lock);
        terminal.line(&format!(
            "$RUN $D ttl=500ms group={group} guardian={guardian} -- sh -c 'echo $$ >$D/pid; exec $SIGCOUNT $D/end $D/ticks'"
        ));
        terminal.wait_for("ready");
        let command = lock.number("pid");
        terminal.write("\x1a");
        terminal.wait_for("Stopped");
        wait_for("the stop", || (stopped(command) || !alive(command)).then_some(()));
        std::thread::sleep(std::time::Duration::from_millis(700));
        let before = lock.read("ticks").len();
        terminal.line("fg; echo status $?");
        terminal.wait_for("status 79");
        let after = lock.read("ticks").len();
        // A tick is a millisecond: next to nothing may run after the continue.
        assert!(after - before <= 3, "{group} {guardian}: {before} {after}");
        assert!(!alive(command));
    }
}

#[test]
fn rule_41_ctrl_z_and_fg_in_a_handed_over_terminal() {
    let lock = Lock::new();
    let mut terminal = Terminal::new(&lock);
    terminal.line("$RUN $D ttl=30s group=handover -- sh -c 'echo $$ >$D/pid; echo started; read x; echo READ=$x; exit 4'");
    terminal.wait_for("started");
    let command = lock.number("pid");
    for _ in 0..2 {
        terminal.write("\x1a");
        terminal.wait_for("Stopped");
        wait_for("the stop", || stopped(command).then_some(()));
        terminal.line("fg; echo status $?");
        terminal.wait_for("\n");
        wait_for("the continuation", || (!stopped(command)).then_some(()));
    }
    terminal.write("hello\n");
    terminal.wait_for("READ=hello");
    terminal.wait_for("status 4");
}

#[test]
fn rule_48_interrupt_stops_the_calling_script_too() {
    for group in ["auto", "handover"] {
        let lock = Lock::new();
        let script = format!(
            "for i in 1 2; do $RUN $D group={group} -- sh -c 'echo started; exec sleep 60'; echo go on; done"
        );
        let mut terminal = Terminal::with(&lock, &["bash", "-c", &script]);
        terminal.wait_for("started");
        terminal.write("\x03");
        let status = terminal.finish();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(2),
            "{group}: {status:?}"
        );
    }
}

#[test]
fn rule_50_closed_terminal_leaves_no_command_and_no_lock() {
    for group in ["auto", "handover"] {
        let lock = Lock::new();
        let mut terminal = Terminal::new(&lock);
        terminal.line(&format!(
            "$RUN $D group={group} -- sh -c 'echo $$ >$D/pid; echo started; exec sleep 60'"
        ));
        terminal.wait_for("started");
        let command = lock.number("pid");
        drop(terminal);
        wait_for("the end of the command", || (!alive(command)).then_some(()));
        lock.wait_for_file("released");
    }
}

/// An interactive shell takes its terminal back by itself; a script does not.
#[test]
fn rule_41_script_has_the_terminal_again_afterwards() {
    for command in ["true", "/no/such"] {
        let lock = Lock::new();
        let script = format!("$RUN $D group=handover -- {command}; read x; echo GOT=$x");
        let mut terminal = Terminal::with(&lock, &["bash", "-c", &script]);
        lock.wait_for_file("released");
        terminal.write("hello\n");
        terminal.wait_for("GOT=hello");
    }
}
