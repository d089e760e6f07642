//! The document selection language: which documents a visit, a condition or garbage collection means.
//!
//! ```
//! use millrace_selection::Selection;
//!
//! let selection = Selection::parse(r#"music and music.year > 1999 and id.group == "me""#).unwrap();
//! assert_eq!(selection.groups().unwrap().len(), 1);
//! assert!(Selection::parse("music.year >").unwrap_err().to_string().contains("character 13"));
//! ```
//!
//! Logic has three values: what is asked of a field that a document lacks is [`Outcome::Invalid`], and so is whatever depends
//! on it. A document is selected when the outcome is [`Outcome::True`]; garbage collection removes it only on
//! [`Outcome::False`].
//!
//! This crate does not know where documents are stored.

mod check;
mod error;
mod evaluate;
mod expression;
mod glob;
mod groups;
mod operand;
mod parser;

pub use error::Error;
pub use evaluate::Outcome;
pub use expression::Selection;
