//! Colour, for what people look at: three hues on a terminal, none elsewhere.

use std::{borrow::Cow, env};

/// When there is colour (`--color`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// On a terminal that knows colours, unless `NO_COLOR` says otherwise.
    #[default]
    Auto,
    /// Also in a pipe.
    Always,
    /// Not at all.
    Never,
}

/// Whether there is colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// There is none.
    #[default]
    Plain,
    /// There is.
    Coloured,
}

/// What a word means to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hue {
    /// As it should be.
    Good,
    /// It works, and somebody should look at it.
    Warning,
    /// It does not work.
    Bad,
}

impl Palette {
    /// Whether there is to be colour on standard output.
    pub fn of_stdout(color: Color) -> Self {
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        let coloured = match color {
            Color::Auto => super::stdout_is_terminal() && !is_set("NO_COLOR") && !is_dumb,
            Color::Always => true,
            Color::Never => false,
        };
        if coloured { Self::Coloured } else { Self::Plain }
    }

    /// `text`, which must be clean already, in that colour.
    pub fn paint(self, hue: Option<Hue>, text: &str) -> Cow<'_, str> {
        let code = match (self, hue) {
            (Self::Plain, _) | (_, None) => return Cow::Borrowed(text),
            (Self::Coloured, Some(Hue::Good)) => 32,
            (Self::Coloured, Some(Hue::Warning)) => 33,
            (Self::Coloured, Some(Hue::Bad)) => 31,
        };
        Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m"))
    }
}
