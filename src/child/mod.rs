//! Processes that we start and must not leave behind. The only module that may use `unsafe`.
#![expect(
    unsafe_code,
    reason = "what runs between fork and exec, and a few system calls, have no safe form"
)]

pub mod belt;
