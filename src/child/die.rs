//! The last act: die as the command died, so that whoever started us sees what it would have seen
//! without us. A shell's loop goes on after exit(130); after a death by SIGINT it stops.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use super::sys::{self, Disposition, Mask};

/// Dies of `signal`, without a core file that would overwrite the command's own. Returns only
/// where that is impossible (as process 1 of a pid namespace): the status to exit with instead.
pub fn die_of(signal: i32) -> u8 {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    sys::set_disposition(signal, Disposition::Default);
    Mask::empty().set();
    sys::raise(signal);
    // 128 + n is what shells report of a death by signal n.
    128_u8.saturating_add(u8::try_from(signal).unwrap_or(127))
}
