/// What is wrong with a document selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not in the language.
    #[error("selection '{selection}': {reason} (character {character}); write for example music.year > 1999")]
    Syntax {
        /// The text as given.
        selection: String,
        /// What was expected and found.
        reason: String,
        /// Where, from 1.
        character: usize,
    },
    /// The text asks for what no document can have.
    #[error("selection '{selection}': {reason}")]
    Schema {
        /// The text as given.
        selection: String,
        /// What there is not, and what there is.
        reason: String,
    },
}
