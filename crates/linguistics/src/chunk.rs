use unicode_segmentation::UnicodeSegmentation;

/// Method of cutting a text into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextChunker {
    /// At the ends of sentences.
    Sentence,
    /// Into chunks of approximately this many characters.
    FixedLength(usize),
}

/// Fault of a chunker's name or arguments, with its cure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChunkerFault {
    /// The length is not a number above 0.
    #[error("'{0}' is not a number of characters: write it as in chunk fixed-length 500")]
    Length(String),
    /// More arguments than `fixed-length` has.
    #[error("the chunker 'fixed-length' has one argument: write it as in chunk fixed-length 500")]
    Lengths,
    /// Arguments of a chunker that has none.
    #[error("the chunker 'sentence' has no arguments")]
    Arguments,
    /// No such chunker.
    #[error("no chunker '{0}': write chunk sentence, or chunk fixed-length 500")]
    Unknown(String),
}

impl TextChunker {
    /// The chunker with this name and its arguments: `sentence`, `fixed-length 500`. Without an argument,
    /// `fixed-length` has Vespa's default of 1,000 characters.
    ///
    /// # Errors
    /// The chunker does not exist or has other arguments; the text gives the existing ones with their
    /// arguments.
    pub fn named(name: &str, arguments: &[String]) -> Result<Self, ChunkerFault> {
        match (name, arguments) {
            ("sentence", []) => Ok(TextChunker::Sentence),
            ("fixed-length", [length]) => match length.parse() {
                Ok(length) if length > 0 => Ok(TextChunker::FixedLength(length)),
                _ => Err(ChunkerFault::Length(length.clone())),
            },
            ("fixed-length", []) => Ok(TextChunker::FixedLength(1_000)),
            ("sentence", _) => Err(ChunkerFault::Arguments),
            ("fixed-length", _) => Err(ChunkerFault::Lengths),
            _ => Err(ChunkerFault::Unknown(name.to_owned())),
        }
    }

    /// Chunks of a text, without surrounding white space; none is empty.
    pub fn chunks(self, text: &str) -> Vec<&str> {
        let pieces = match self {
            TextChunker::Sentence => text.split_sentence_bounds().collect(),
            TextChunker::FixedLength(length) => of_length(text, length),
        };
        pieces.into_iter().map(str::trim).filter(|chunk| !chunk.is_empty()).collect()
    }
}

/// Splits a text into the fewest pieces of similar length that are at most an eighth longer or shorter than
/// `length`, cut at the end of a sentence or else of a word.
fn of_length(text: &str, length: usize) -> Vec<&str> {
    let mut rest = text.trim();
    let mut pieces = Vec::new();
    let mut left = rest.chars().count();
    while left > length.saturating_add(length / 8) {
        let target = left.div_ceil(left.div_ceil(length));
        let (end, characters) = cut(rest, target);
        pieces.push(&rest[..end]);
        rest = &rest[end..];
        left -= characters;
    }
    pieces.push(rest);
    pieces
}

/// Place to cut near `target` characters: the byte offset, and the number of characters before it.
fn cut(text: &str, target: usize) -> (usize, usize) {
    let (before_target, after_target) = (target.div_ceil(4), target / 8);
    let (mut sentence, mut word, mut plain) = (None, None, (text.len(), 0));
    let mut before = ' ';
    for (count, (at, c)) in text.char_indices().enumerate().take(target.saturating_add(after_target) + 1) {
        let near = count + before_target >= target && count > 0;
        if near && c.is_whitespace() {
            let boundary = (at, count);
            if matches!(before, '.' | '!' | '?' | '\n') {
                sentence = nearer(sentence, boundary, target);
            }
            word = nearer(word, boundary, target);
        }
        if count <= target.max(1) {
            plain = (at, count);
        }
        before = c;
    }
    sentence.or(word).unwrap_or(plain)
}

fn nearer(known: Option<(usize, usize)>, boundary: (usize, usize), target: usize) -> Option<(usize, usize)> {
    known.filter(|known| known.1.abs_diff(target) <= boundary.1.abs_diff(target)).or(Some(boundary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_chunks() {
        let check = |text: &str, expected: &[&str]| assert_eq!(TextChunker::Sentence.chunks(text), expected);
        check("", &[]);
        check("  \n ", &[]);
        check("One sentence", &["One sentence"]);
        check(
            "The mill runs.  Does it? It does!\nGood.",
            &["The mill runs.", "Does it?", "It does!", "Good."],
        );
        check("It costs 3.50 a day. Über Ärger.", &["It costs 3.50 a day.", "Über Ärger."]);
    }

    #[test]
    fn chunks_of_a_length_are_alike_and_end_where_words_do() {
        let chunker = TextChunker::FixedLength(20);
        assert_eq!(chunker.chunks("short"), ["short"]);
        assert_eq!(
            chunker.chunks("the mill runs slowly and the wheel turns fast today"),
            ["the mill runs", "slowly and the wheel", "turns fast today"]
        );
        assert_eq!(
            chunker.chunks("It ran all day. Then the water fell."),
            ["It ran all day.", "Then the water fell."]
        );
        assert_eq!(chunker.chunks(&"x".repeat(50)), ["x".repeat(17), "x".repeat(17), "x".repeat(16)]);
        assert_eq!(TextChunker::FixedLength(1).chunks("äöü"), ["ä", "ö", "ü"]);
    }

    #[test]
    fn nothing_but_white_space_is_lost_and_no_chunk_is_much_longer() {
        let text = "Wörter und words, mixed. ".repeat(40) + &"longwordwithoutend".repeat(9);
        let kept: String = text.split_whitespace().collect();
        for length in 1..60 {
            let chunks = TextChunker::FixedLength(length).chunks(&text);
            assert_eq!(chunks.concat().split_whitespace().collect::<String>(), kept, "{length}");
            let longest = chunks.iter().map(|chunk| chunk.chars().count()).max().unwrap_or(0);
            assert!(longest <= length + length / 8 + 1, "{length}: {longest}");
        }
    }

    #[test]
    fn chunkers_have_names_and_arguments() {
        let named = |name: &str, arguments: &[&str]| {
            TextChunker::named(
                name,
                &arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(named("sentence", &[]), Ok(TextChunker::Sentence));
        assert_eq!(named("fixed-length", &["500"]), Ok(TextChunker::FixedLength(500)));
        assert_eq!(named("fixed-length", &[]), Ok(TextChunker::FixedLength(1_000)));
        for (name, arguments) in
            [("fixed-length", &["1", "2"][..]), ("fixed-length", &["0"]), ("sentence", &["3"]), ("page", &[])]
        {
            assert!(named(name, arguments).is_err(), "{name} {arguments:?}");
        }
    }
}
