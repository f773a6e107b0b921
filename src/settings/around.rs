//! What the runs around us say in the environment.

use std::env;

use crate::protocol::Token;

/// The variable that holds the tokens of a run and of those around it, space separated, the
/// innermost last.
pub const HELD: &str = "REDLOCK_HELD";

/// The tokens of the runs around us, the innermost last.
pub(super) fn held() -> Vec<Token> {
    let text = env::var(HELD).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(Token::parse).collect()
}
