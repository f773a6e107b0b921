//! Texts that make a client, and texts that do not.
