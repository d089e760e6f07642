//! Semantic rules: rule bases read, and queries rewritten by them.
//!
//! [`RuleBases`] are the files `rules/NAME.sr` of an application package, parsed and checked once. A [`RuleBase`] turns a query tree, whose
//! typed text was taken apart, into another: [`RuleBase::rewrite`] gives a [`Rewriting`], or nothing where no rule matches.
//!
//! ```
//! use millrace_query::{Item, Match};
//! use millrace_rules::RuleBases;
//! use millrace_schema::Findings;
//!
//! let files = [("rules/example.sr".to_owned(), b"@default\ncolour -> color;".to_vec())].into();
//! let bases = RuleBases::read(&files, &mut Findings::default());
//! let term = |text: &str| Item::Term {
//!     field: "default".to_owned(),
//!     text: text.into(),
//!     matching: Match::Word,
//!     annotations: Default::default(),
//! };
//! let rewriting = bases.default_base().unwrap().rewrite(&term("colour"), &Default::default(), false).unwrap();
//! assert_eq!(rewriting.root, term("color"));
//! ```
//!
//! - **Read**: `lexer` and `parser` make statements of a file, `base` puts in what is included and checks what is referred to.
//! - **Rewritten**: `tree` is a query tree that can be edited, `matching` finds where a condition holds in it, `rewriting` carries out what
//!   the rules produce.
//!
//! This crate knows nothing of requests, nor of what a schema's fields are.

mod base;
mod error;
mod lexer;
mod matching;
mod parser;
mod rewriting;
mod syntax;
mod tree;

pub use base::{RuleBase, RuleBases};
pub use error::Error;
pub use rewriting::{Rewriting, Step};
