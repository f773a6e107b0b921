//! The variables that stand for options. clap reads them; here is what it has no word for: one
//! that is set and empty says nothing, and a wrong value is the variable's fault.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
};

use clap::{Arg, Command, builder::Resettable, error::Error};

/// Variables whose empty value means something: no prefix, whatever the configuration file says.
const MAY_BE_EMPTY: [&str; 1] = ["REDLOCK_PREFIX"];

/// The command line without those variables that are set and say nothing.
pub fn without_empty(command: Command) -> Command {
    let is_empty = |name: &OsStr| {
        !MAY_BE_EMPTY.iter().any(|may| name == *may)
            && env::var_os(name).is_some_and(|value| value.is_empty())
    };
    // Nearly always there is none, and looking at every option takes its time.
    if env::vars_os().any(|(name, _)| name.as_bytes().starts_with(b"REDLOCK_") && is_empty(&name)) {
        without(command, |arg| arg.get_env().is_some_and(is_empty))
    } else {
        command
    }
}

fn without(mut command: Command, unwanted: impl Fn(&Arg) -> bool + Copy) -> Command {
    // Options that come later have to be there.
    command.build();
    command.mut_subcommands(|sub| {
        sub.mut_args(|arg| if unwanted(&arg) { arg.env(Resettable::Reset) } else { arg })
    })
}

/// The variable without which there would be another error, or none.
pub fn culprit(mut command: Command, args: &[OsString], error: &Error) -> Option<String> {
    command.build();
    let mut names: Vec<String> = command
        .get_subcommands()
        .flat_map(Command::get_arguments)
        .filter_map(|arg| Some(arg.get_env()?.to_str()?.to_owned()))
        .filter(|name| env::var_os(name).is_some())
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().find(|name| {
        let rest = without(command.clone(), |arg| arg.get_env().is_some_and(|env| env == &**name));
        let other = rest.try_get_matches_from(args).err();
        other.is_none_or(|other| other.to_string() != error.to_string())
    })
}
