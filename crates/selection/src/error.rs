/// Error in a document selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text does not follow the syntax.
    #[error("selection '{selection}': {reason} (character {character}); write for example music.year > 1999")]
    Syntax {
        /// The text as given.
        selection: String,
        /// Expected and actual text.
        reason: String,
        /// Position in characters, from 1.
        character: usize,
    },
    /// The selection refers to something that does not exist in documents.
    #[error("selection '{selection}': {reason}")]
    Schema {
        /// The text as given.
        selection: String,
        /// The missing name, and the existing ones.
        reason: String,
    },
}
