//! Semantic rules: reading of rule bases, and rewriting of queries by them.
//!
//! [`RuleBases`] are the files `rules/NAME.sr` of an application package, parsed and validated once. A
//! [`RuleBase`] rewrites a query tree whose typed text was already parsed: [`RuleBase::rewrite`] returns a
//! [`QueryRewriting`], or `None` if no rule matches.
//!
//! ```
//! use millrace_query::{QueryItem, TermMatch};
//! use millrace_rules::RuleBases;
//! use millrace_schema::PackageFindings;
//!
//! let files = [("rules/example.sr".to_owned(), b"@default\ncolour -> color;".to_vec())].into();
//! let bases = RuleBases::read(&files, &mut PackageFindings::default());
//! let term = |text: &str| QueryItem::Term {
//!     field: "default".to_owned(),
//!     text: text.into(),
//!     matching: TermMatch::Word,
//!     annotations: Default::default(),
//! };
//! let rewriting = bases.default_base().unwrap().rewrite(&term("colour"), &Default::default(), false).unwrap();
//! assert_eq!(rewriting.root, term("color"));
//! ```
//!
//! - **Reading**: `lexer` and `parser` convert a file to statements, `directives` is the table of what begins
//!   with `@`, `base` resolves includes and checks
//!   references.
//! - **Rewriting**: `tree` is an editable query tree, `matching` finds matches of conditions in it,
//!   `rewriting` applies the productions of rules.
//!
//! This crate is independent of requests and of a schema's fields.

mod base;
mod directives;
mod error;
mod lexer;
mod matching;
mod parser;
mod rewriting;
mod syntax;
mod tree;

pub use base::{RuleBase, RuleBases};
pub use directives::{RuleDirective, rule_directives};
pub use error::Error;
pub use rewriting::{QueryRewriting, RewriteStep};
