//! The bash completion in a real bash: somebody at a terminal types a part and presses TAB.

use std::path::Path;

use crate::harness::{builder::End, pty::Terminal};

const TAB: &str = "\t";
/// `^U`: bash drops what was typed.
const DROP: &str = "\x15";

#[test]
fn bash_completes_commands_options_and_choices() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions/redlock.bash");
    let load = format!("PS1='ready '; source '{}'; echo load''ed\n", script.display());
    let mut bash = Terminal::start(["bash", "--norc", "--noprofile", "-i"], &[]);
    bash.types("bind 'set bell-style none'; bind 'set enable-bracketed-paste off'\n");
    bash.types(&load).wait_for("loaded").wait_for("ready ");
    for (typed, shown) in [
        ("redlock sta", "redlock status "),
        ("redlock run --no-w", "redlock run --no-wait "),
        ("redlock run -k K --on-lost ki", "redlock run -k K --on-lost kill "),
        ("redlock acquire --token-f", "redlock acquire --token-file "),
        ("redlock unlock --for", "redlock unlock --force "),
        ("redlock run --strategy seq", "redlock run --strategy sequential "),
        ("redlock doctor --stri", "redlock doctor --strict "),
        ("redlock sandbox --cou", "redlock sandbox --count "),
    ] {
        bash.types(typed).wait_for(typed).types(TAB).wait_for(&shown[typed.len()..]).types(DROP);
    }
    assert_eq!(bash.types("exit\n").finish(), End::Exit(0));
}
