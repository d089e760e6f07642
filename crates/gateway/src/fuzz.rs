//! Parsers of this crate under fuzzing. Each takes an input, or the text of one, and panics where a property
//! does not hold.

pub use crate::access_log::fuzz as client_addresses;
pub use crate::edge::fuzz::{hosts, origins};

/// Messages of other nodes over HTTP.
pub fn messages(bytes: &[u8]) {
    crate::forwarding::fuzz(bytes);
}
