//! What the README promises first.

use std::process::{Command, Stdio};

#[test]
fn demo_shows_the_main_job() {
    let root = env!("CARGO_MANIFEST_DIR");
    let output = Command::new(format!("{root}/scripts/demo"))
        .arg(env!("CARGO_BIN_EXE_redlock"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for text in ["on 5 of 5 nodes", "exit status: 75", "it works"] {
        assert!(stdout.contains(text), "no {text:?}: {stdout}\n{stderr}");
    }
    assert!(!stdout.contains("never printed\nexit"), "{stdout}");
    assert!(stderr.contains("5 of 5") || stderr.contains("5/5"), "{stderr}");
    assert!(stderr.contains("redlock: exit 75: "), "{stderr}");
}
