//! Text to words, for documents and queries alike.
//!
//! An [`Analyzer`] does what a field's `match`, `stemming` and `normalizing` settings say: it splits text into [`Token`]s, folds
//! and stems them. The words of a field's documents and those of a query go through the same analyzer, so both sides agree.
//!
//! ```
//! use millrace_linguistics::{Analyzer, Language};
//!
//! let analyzer = Analyzer::text(Language::from_tag("en"));
//! let mut words = Vec::new();
//! analyzer.tokens("The Cafés' 2 owners", |token| words.push(token.text.to_owned()));
//! assert_eq!(words, ["the", "cafe", "2", "owner"]);
//! ```
//!
//! - **Split.** Words are those of the Unicode standard (UAX #29), split further at whatever is not a letter, digit or mark:
//!   `example.com` is two words. Scripts that are written without spaces give a token a character.
//! - **Fold.** Compatibility forms are replaced (NFKD), combining accents dropped, and upper case is made lower.
//! - **Stem.** Snowball, by language. Where the language is not known, and for words in another script than its own, by the script of the
//!   word, Latin being taken for English: then the same word has the same stem wherever it stands.
//!
//! What people search in scripts without spaces is taken apart into words by [`segments`].
//!
//! A [`Chunker`] cuts a long text into pieces that are embedded each by itself.
//!
//! This crate does not know documents, columns or queries, and guesses no text's language: a guess about three words is wrong too often,
//! and documents and queries that were guessed to be of two languages do not meet.

mod analyzer;
mod chunk;
mod fold;
mod language;
mod segment;
mod split;
mod stem;

pub use analyzer::{Analyzer, Token};
pub use chunk::Chunker;
pub use language::Language;
pub use segment::segments;
