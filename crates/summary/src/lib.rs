//! Hits to document summaries: which fields are shown, and how.
//!
//! A [`Filler`] is made once for a plan and one of its schema's document summaries; it reads each column once for all hits
//! of a chunk.
//!
//! - A field is shown whole, as snippets around the query's words (`dynamic`), with those words bolded (`bolding: on`), as
//!   its matched elements only, or as its tokens.
//! - `sddocname` and `documentid` are fields that every document has.
//!
//! This crate does not know scores: summary features and match features are added by whoever ranks.

mod error;
mod fill;
mod highlight;
mod snippet;

pub use error::Error;
pub use fill::{Fields, Filler, Place, fill, shows};
pub use highlight::Style;
