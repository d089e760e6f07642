//! The inner loops, each beside a plain twin that says what it means. The only place with unsafe code.

mod brain;
mod scan;

pub(crate) use brain::BrainQuery;
pub(crate) use scan::{RANGES, find_narrow, find_wide};
