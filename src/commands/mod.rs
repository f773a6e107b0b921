//! The commands besides `run`. Each is thin: what it decides lies in `protocol`, what it touches
//! in `node`, `child` and `signal`.

pub mod acquire;
pub mod doctor;
pub mod extend;
pub mod release;
pub mod sandbox;
pub mod status;
mod talk;
