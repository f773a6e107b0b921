//! `rediss://`: real servers, real certificates, good and bad ones.

/// Ends a test where the servers cannot speak TLS.
macro_rules! needs_tls {
    () => {
        if !$crate::harness::tls::is_spoken() {
            $crate::skip!("this server was built without TLS");
        }
    };
}

mod certificates;
mod doctor;
mod ports;
mod runs;
mod settings;

use std::ffi::OsStr;

use crate::harness::{Redlock, builder::Outcome};

/// A single try on one node that gets no lock for the reason `why`, which may have stars.
#[track_caller]
fn refused(node: impl AsRef<OsStr>, adjust: impl FnOnce(Redlock) -> Redlock, why: &str) -> Outcome {
    let run = adjust(Redlock::run(node).args(["-n"])).command(["echo", "never"]);
    run.fails(69, &format!("no quorum for 'k' (1 of 1 nodes needed): {why}")).check()
}

/// The command runs and nothing is said.
#[track_caller]
fn works(nodes: impl AsRef<OsStr>, adjust: impl FnOnce(Redlock) -> Redlock) {
    adjust(Redlock::run(nodes).args(["-n"])).command(["echo", "ran"]).stdout("ran\n").check();
}
