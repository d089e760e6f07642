//! Conversion of hits to document summaries.
//!
//! A [`SummaryFiller`] is created once for a plan and one of its schema's document summaries. It reads each
//! column once for all hits of a chunk.
//!
//! - A field is returned whole, as snippets around the query's words (`dynamic`), with those words in bold
//!   (`bolding: on`), reduced to its matched elements, or as its tokens.
//! - A field with several sources, or with members of structs as its source, has their texts in one.
//! - `sddocname` and `documentid` are fields of every document.
//!
//! Nothing here depends on scores: the caller adds summary features and match features.

mod composed;
mod error;
mod fill;
mod highlight;
mod nearness;
mod outcomes;
mod snippet;
mod terms;

pub use error::SummaryError;
pub use fill::{HitPosition, SummaryFields, SummaryFiller, fill, shows};
pub use highlight::{HighlightStyle, HighlightStyles};
