//! Talking to the nodes.
mod endpoint;
mod endpoint_error;
mod fleet;
mod wire;

#[cfg(test)]
mod testing;

pub use endpoint::{Address, Credentials, Endpoint, Transport};
pub use endpoint_error::{EndpointError, Problem, masked};
pub use fleet::Fleet;
