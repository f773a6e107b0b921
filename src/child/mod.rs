//! The command as the operating system has it: how it is started and placed, how its whole tree is
//! found, signalled and reaped, and the guardian that ends it when redlock cannot. The only unsafe
//! code of the crate; what it offers is safe.
#![expect(
    unsafe_code,
    reason = "fork, exec, shared memory and signal dispositions have no safe form"
)]

pub mod belt;
mod descriptor;
mod die;
mod guardian;
mod inherited;
mod proc;
mod spawn;
mod sys;
mod terminal;
mod tree;

pub use descriptor::take_descriptor;
pub use die::die_of;
pub use guardian::{Guardian, RUN_VARIABLE};
pub use inherited::Inherited;
pub use proc::Stat;
pub use spawn::{Launch, Spawned, spawn};
pub use sys::{Ending, leads_session, raise, signal_group, signal_own_group, signal_process};
pub use terminal::{GroupChoice, Placement, Terminal};
pub use tree::{Left, Tree, TreeEvent, older};
