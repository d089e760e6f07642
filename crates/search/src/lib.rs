//! x
mod error;
mod sort_key;
mod sorting;
pub use error::Error;
pub use sorting::{SortedHit, Sorting};
