//! Talking to the nodes.
mod endpoint;
mod endpoint_error;
mod fleet;

pub use endpoint::{Address, Credentials, Endpoint, Transport};
pub use endpoint_error::{EndpointError, Problem, masked};
pub use fleet::Fleet;
