//! Options that are put together only when their command was asked for: a run needs its own, and the
//! others would cost every start a third of a millisecond.

use std::ops::{Deref, DerefMut};

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, builder::Resettable};

/// The options `T` of a command.
#[derive(Debug)]
pub struct Later<T>(pub Box<T>);

impl<T: Args> Args for Later<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(options::<T>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Adds the options; what the command is about was said where it is listed.
fn options<T: Args>(command: Command) -> Command {
    let about = command.get_about().cloned();
    let long = command.get_long_about().cloned();
    T::augment_args(command).about(Resettable::from(about)).long_about(Resettable::from(long))
}

impl<T: FromArgMatches> FromArgMatches for Later<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|options| Self(Box::new(options)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T> Deref for Later<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Later<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
