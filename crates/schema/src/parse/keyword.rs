//! Tables of the keywords of each block: the words, their documentation, and the functions that read them.
//!
//! A block is read by its table alone, so that the words in messages and in the reference are those that are
//! read.

use super::cursor::{Name, SchemaCursor};
use crate::Error;

/// A keyword of a schema file as documented.
#[derive(Debug)]
pub struct SchemaKeyword {
    /// The word, then others with the same meaning.
    pub names: &'static [&'static str],
    /// An example of its use.
    pub usage: &'static str,
    /// Description of its effect.
    pub doc: &'static str,
    /// False for words that are read, but that messages do not suggest.
    pub(super) is_suggested: bool,
}

/// The keywords of one block of schema files.
#[derive(Debug)]
pub struct SchemaBlock {
    /// Name of the block, such as `field`.
    pub name: &'static str,
    /// Its keywords, in the order of messages.
    pub keywords: Vec<&'static SchemaKeyword>,
}

/// Function that reads the text after a keyword into the declaration of its block.
type KeywordReader<T> = fn(&mut SchemaCursor<'_>, Name, &mut T) -> Result<(), Error>;

/// A keyword and its reader.
pub(super) struct KeywordRow<T> {
    pub keyword: SchemaKeyword,
    pub read: KeywordReader<T>,
}

/// The keywords of a block, which is read into a `T`.
pub(super) struct KeywordTable<T: 'static> {
    /// Name of the block in the reference.
    pub block: &'static str,
    /// Kind of its keywords in messages, such as "element of a field".
    pub kind: &'static str,
    pub rows: &'static [KeywordRow<T>],
}

impl<T> KeywordTable<T> {
    /// Reads the text after `word` into `decl`; an unknown word is an error, which lists the known ones.
    pub(super) fn read(&self, cursor: &mut SchemaCursor<'_>, word: Name, decl: &mut T) -> Result<(), Error> {
        match self.find(&word) {
            Some(row) => (row.read)(cursor, word, decl),
            None => self.unknown(cursor, &word),
        }
    }

    /// The row of a word.
    pub(super) fn find(&self, word: &Name) -> Option<&'static KeywordRow<T>> {
        self.rows.iter().find(|row| row.keyword.names.contains(&word.value.as_str()))
    }

    /// The error for a word that the table lacks.
    pub(super) fn unknown<R>(&self, cursor: &SchemaCursor<'_>, word: &Name) -> Result<R, Error> {
        let suggested = self.rows.iter().filter(|row| row.keyword.is_suggested);
        let names: Vec<&str> = suggested.filter_map(|row| row.keyword.names.first().copied()).collect();
        cursor.unknown(self.kind, word, &names)
    }

    /// The block as documented.
    pub(super) fn documented(&self) -> SchemaBlock {
        SchemaBlock { name: self.block, keywords: self.rows.iter().map(|row| &row.keyword).collect() }
    }
}

/// The rows of a [`KeywordTable`]: the word and others with the same meaning, an example, a description, and
/// the reader. Words after `unlisted` are read, but messages do not suggest them.
macro_rules! keywords {
    (@row $suggested:literal, $usage:literal, $doc:literal, $read:expr, $($name:literal)+) => {
        $crate::parse::keyword::KeywordRow {
            keyword: $crate::parse::keyword::SchemaKeyword {
                names: &[$($name),+],
                usage: $usage,
                doc: $doc,
                is_suggested: $suggested,
            },
            read: $read,
        }
    };
    ($($($name:literal)|+, $usage:literal, $doc:literal, $read:expr;)*
     $(unlisted: $($($quiet:literal)|+, $quiet_usage:literal, $quiet_doc:literal, $quiet_read:expr;)+)?) => {
        &[
            $($crate::parse::keyword::keywords!(@row true, $usage, $doc, $read, $($name)+),)*
            $($($crate::parse::keyword::keywords!(@row false, $quiet_usage, $quiet_doc, $quiet_read, $($quiet)+),)+)?
        ]
    };
}

pub(super) use keywords;
