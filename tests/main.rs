//! The integration tests: one target, one module per topic.

mod sim;
