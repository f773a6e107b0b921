//! The commands besides `run`. Each is thin: what it decides lies in `protocol`, what it touches
//! in `node`, `child` and `signal`.

pub mod sandbox;
