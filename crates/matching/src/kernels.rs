//! Inner loops, each with a plain implementation that defines its result. This is the only module with unsafe
//! code.

mod anchors;
mod bfloat16;
mod few;
mod scan;

pub(crate) use anchors::{NeedleAnchors, begins_wide};
pub(crate) use bfloat16::Bfloat16Query;
pub(crate) use few::FewNumbers;
pub(crate) use scan::{RANGES, find_in_table, find_in_wide_table, find_narrow, find_wide};
