//! How redlock ends: one table of exit codes that feeds `--help`, the manual, the README and tests.

/// How the process is to end. Only `main` acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Exit with this status: the command's own, or one of [`Code`].
    Status(u8),
    /// Die of this signal, as the command (or a waiting redlock) did, so that a shell sees 128+n.
    Signal(i32),
}

impl From<Code> for Exit {
    fn from(code: Code) -> Self {
        Self::Status(code.number())
    }
}

/// The exit codes that are redlock's own (sysexits.h, timeout(1), env(1); 79 is free there).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// Everything went well.
    Success = 0,
    /// `doctor --strict` found a warning.
    Warning = 1,
    /// The command line is wrong.
    Usage = 64,
    /// No quorum of nodes could be had.
    Unavailable = 69,
    /// The lock is held by somebody else.
    Busy = 75,
    /// The nodes refuse our credentials or rights.
    Refused = 77,
    /// The configuration cannot work.
    Config = 78,
    /// The lock was lost, or a token does not hold it.
    Lost = 79,
    /// `--max-runtime` ended the command by TERM.
    TimedOut = 124,
    /// redlock itself failed.
    Failure = 125,
    /// The command was found and cannot be executed.
    NotExecutable = 126,
    /// The command was not found.
    NotFound = 127,
    /// `--max-runtime` or `--max-stopped` needed KILL.
    Killed = 137,
}

impl Code {
    /// The number that the caller sees.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// One row of the table of exit codes.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The code.
    pub code: Code,
    /// What it means, as the manual says it.
    pub meaning: &'static str,
}

/// Every exit code of our own, in ascending order. Any other status is the command's.
pub const TABLE: &[Row] = &[
    Row { code: Code::Success, meaning: "success" },
    Row { code: Code::Warning, meaning: "doctor --strict found a warning" },
    Row { code: Code::Usage, meaning: "usage: the command line is wrong" },
    Row {
        code: Code::Unavailable,
        meaning: "no quorum of nodes could be had (unreachable, loading, read-only, restart guard, ...)",
    },
    Row { code: Code::Busy, meaning: "held by somebody else, or the wait ran out (-E changes it)" },
    Row {
        code: Code::Refused,
        meaning: "NOAUTH, WRONGPASS or NOPERM on so many nodes that no quorum is possible",
    },
    Row {
        code: Code::Config,
        meaning: "configuration: node list, config file, impossible durations, waiting for ourselves",
    },
    Row {
        code: Code::Lost,
        meaning: "the lock was lost while the command ran, or a token does not hold it",
    },
    Row { code: Code::TimedOut, meaning: "--max-runtime: the command was ended by TERM" },
    Row { code: Code::Failure, meaning: "redlock itself failed" },
    Row { code: Code::NotExecutable, meaning: "the command cannot be executed" },
    Row { code: Code::NotFound, meaning: "the command was not found" },
    Row { code: Code::Killed, meaning: "--max-runtime or --max-stopped: the command needed KILL" },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_without_duplicates() {
        assert!(TABLE.windows(2).all(|pair| pair[0].code.number() < pair[1].code.number()));
    }

    #[test]
    fn claps_default_code_is_never_ours() {
        assert!(TABLE.iter().all(|row| row.code.number() != 2));
    }
}
