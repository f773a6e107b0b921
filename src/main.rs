//! The program: the only place that ends the process.

use redlock::{child, exit::Exit, run_command_line};

fn main() {
    let code = match run_command_line(std::env::args_os()) {
        Exit::Status(code) => code,
        Exit::Signal(signal) => child::die_of(signal),
    };
    std::process::exit(code.into());
}
