//! The document selection language, which selects documents for visits, conditions and garbage collection.
//!
//! ```
//! use millrace_selection::DocumentSelection;
//!
//! let selection = DocumentSelection::parse(r#"music and music.year > 1999 and id.group == "me""#).unwrap();
//! assert_eq!(selection.groups().unwrap().len(), 1);
//! assert!(DocumentSelection::parse("music.year >").unwrap_err().to_string().contains("character 13"));
//! ```
//!
//! Logic has three values: a condition on a field that a document lacks is [`SelectionOutcome::Invalid`], and
//! so is every condition that depends on it. A document is selected if the outcome is
//! [`SelectionOutcome::True`]; garbage collection removes it only on [`SelectionOutcome::False`].
//!
//! This crate is independent of the storage of documents.

mod bindings;
mod check;
mod error;
mod evaluate;
mod expression;
mod foreign;
mod glob;
mod groups;
mod operand;
mod parser;
mod within;

pub use error::Error;
pub use evaluate::SelectionOutcome;
pub use expression::DocumentSelection;
