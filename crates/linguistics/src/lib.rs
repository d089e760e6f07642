//! Conversion of text to words, for documents and queries alike.
//!
//! A [`FieldAnalyzer`] implements a field's `match`, `stemming` and `normalizing` settings: it splits text
//! into [`TextToken`]s, folds and stems them. A field's documents and queries use the same analyzer, so both
//! sides agree.
//!
//! ```
//! use millrace_linguistics::{FieldAnalyzer, TextLanguage};
//!
//! let analyzer = FieldAnalyzer::text(TextLanguage::from_tag("en"));
//! let mut words = Vec::new();
//! analyzer.tokens("The Cafés' 2 owners", |token| words.push(token.text.to_owned()));
//! assert_eq!(words, ["the", "cafe", "2", "owner"]);
//! ```
//!
//! - **Split.** Words are those of the Unicode standard (UAX #29), split further at every character that is
//!   not a letter, digit or mark: `example.com` is two words. Scripts without spaces between words give one
//!   token per character.
//! - **Fold.** Compatibility forms are replaced (NFKD), combining accents are removed, and upper case is
//!   converted to lower case.
//! - **Stem.** Snowball, by language. If the language is unknown, and for words in a script other than its
//!   own, the script of the word determines the stemmer, with English for Latin: the same word then has the
//!   same stem in any context.
//!
//! [`segments`] splits query text in scripts without spaces into words.
//!
//! [`SpecialTokens`] are texts of queries that are one word, whatever their characters are.
//!
//! [`did_you_mean`] names the known word nearest to an unknown one.
//!
//! A [`TextChunker`] cuts a long text into pieces that are embedded separately.
//!
//! This crate is independent of documents, columns, schemas and queries. It does not guess the language of a
//! text: a guess about three words is wrong too often, and a document does not match a query whose language
//! was guessed differently.

mod analyzer;
mod beginnings;
mod chunk;
mod fold;
mod language;
mod matching;
mod segment;
mod special_tokens;
mod split;
mod stem;
mod suggest;
mod uri;

pub use analyzer::{FieldAnalyzer, TextToken, WordBuffers, WrittenToken};
pub use beginnings::WordBeginnings;
pub use chunk::{ChunkerFault, TextChunker};
pub use language::TextLanguage;
pub use matching::{DefaultTerm, FieldMatching, FieldStemming, MatchMode};
pub use segment::segments;
pub use special_tokens::{SpecialTokenMatch, SpecialTokens};
pub use stem::stem_word;
pub use suggest::did_you_mean;
pub use uri::UriPart;
