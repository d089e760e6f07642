//! Parsers of this crate under fuzzing. Each takes the text of an input, and panics where a property does not
//! hold.

pub use crate::access_log::fuzz as client_addresses;
pub use crate::edge::fuzz::{hosts, origins};
