//! Snippets: the parts of a text that best show its match. The rules are those of Vespa's summaries.
//!
//! 1. A short text is returned whole.
//! 2. Of the matches of the query in the text ([`candidates`]) the best are chosen that do not overlap: as
//!    many as the settings say, and more while they are too short together.
//! 3. The words of these matches get a context on both sides: `surround_max`, or less if the snippets would
//!    be longer than `length` together. Contexts that nearly meet are joined.
//! 4. Contexts begin and end at words, and include the whole of the query's words that they touch.
//! 5. A separator marks omitted text. Without any match, the start of the text is returned, or nothing.

pub(super) mod candidates;

use std::ops::Range;

use self::candidates::{SnippetMatch, SnippetQuery};
use super::highlight::{HighlightStyle, TextMarks, bolded};

/// The shortest gap between two contexts that is left out.
const GAP_MIN: usize = 8;

/// Bytes by which a text with matches may be longer than the target length and is still returned whole: to
/// cut so little off is worth nothing.
const WHOLE_SLACK: usize = 4 * GAP_MIN - 1;

/// The shortest context on each side of a word.
const CONTEXT_MIN: usize = 10;

/// Bytes of a word after which it may be cut.
const WORD_MAX: usize = 64;

/// Estimated length of a word of the query.
const WORD_ESTIMATE: usize = 5;

/// A token of a text that is a word of the query.
#[derive(Debug, Clone)]
pub(crate) struct WordOccurrence {
    pub(crate) range: Range<usize>,
    /// The number of the token in the text.
    pub(crate) token: usize,
    /// Numbers of the query's terms that end with it. Their other words are the tokens before it.
    pub(crate) terms: Vec<usize>,
}

/// A part of the text that is shown: a word of the query, or its context.
#[derive(Debug, Clone)]
struct SnippetPiece {
    range: Range<usize>,
    is_word: bool,
}

/// Stands around words that are a part of a token while snippets are chosen, as in Vespa: what is around
/// them are words of their own. No word contains it, and it is never shown.
const PART: char = '\u{1f}';

/// Snippets of a text, with markup around its matches.
pub(crate) fn snippet(text: &str, query: &SnippetQuery, found: &TextMarks, style: &HighlightStyle) -> String {
    if found.parts.is_empty() {
        return chosen_snippet(text, query, found, style);
    }
    let (text, found) = separated(text, found);
    chosen_snippet(&text, query, &found, style).replace(PART, "")
}

/// The text with [`PART`] around words that are a part of a token.
fn separated(text: &str, found: &TextMarks) -> (String, TextMarks) {
    let mut cuts: Vec<usize> = found.parts.iter().flat_map(|part| [part.start, part.end]).collect();
    cuts.sort_unstable();
    let mut out = String::with_capacity(text.len() + cuts.len());
    let mut end = 0;
    for cut in &cuts {
        out.push_str(&text[end..*cut]);
        out.push(PART);
        end = *cut;
    }
    out.push_str(&text[end..]);
    let moved = |range: &Range<usize>| {
        let start = range.start + cuts.partition_point(|cut| *cut <= range.start);
        start..range.end + cuts.partition_point(|cut| *cut < range.end)
    };
    let words = found.words.iter().map(|word| WordOccurrence { range: moved(&word.range), ..word.clone() });
    let found = TextMarks {
        marks: found.marks.iter().map(moved).collect(),
        words: words.collect(),
        parts: Vec::new(),
        tokens: found.tokens,
    };
    (out, found)
}

/// Snippets of a text in which words of the query are tokens.
fn chosen_snippet(text: &str, query: &SnippetQuery, found: &TextMarks, style: &HighlightStyle) -> String {
    let mut out = String::with_capacity(style.length + 64);
    let marks = &found.marks;
    if marks.is_empty() && !style.prefix {
        return out;
    }
    let slack = if marks.is_empty() { 0 } else { WHOLE_SLACK };
    if text.len() <= style.length + slack {
        bolded(text, 0..text.len(), marks, style, &mut out);
        return out;
    }
    let mut windows = Vec::new();
    if !marks.is_empty() {
        let chosen = choose(query.matches(&found.words, style), &found.words, style);
        windows = join(text, with_whole_words(contexts(text, &chosen, style), marks));
    }
    if windows.is_empty() {
        windows.push(0..cut_down(text, style.length));
    }
    for (index, window) in windows.iter().enumerate() {
        if index > 0 || window.start > 0 {
            out.push_str(&style.separator);
        }
        bolded(text, window.clone(), marks, style, &mut out);
    }
    if windows.last().is_some_and(|last| last.end < text.len()) {
        out.push_str(&style.separator);
    }
    out
}

/// Matches to show, in text order, and an estimate of the length of the snippets.
struct ChosenMatches {
    matches: Vec<SnippetMatch>,
    /// The words of each match, in order.
    words: Vec<Range<usize>>,
    /// Number of the words or conditions in them.
    elements: usize,
    estimate: isize,
}

/// Chooses of the matches, the best of which come first, as many as the settings say.
fn choose(
    matches: Vec<SnippetMatch>,
    occurrences: &[WordOccurrence],
    style: &HighlightStyle,
) -> ChosenMatches {
    let surround = signed(style.surround_max.max(CONTEXT_MIN));
    let mut chosen = ChosenMatches { matches: Vec::new(), words: Vec::new(), elements: 0, estimate: 0 };
    let (mut length, mut missing) = (0, 0);
    for found in matches {
        // Ends in bytes are compared with starts in tokens, as Vespa does: of two matches the second has to
        // be much further on in the text than the first.
        let overlaps = |other: &SnippetMatch| {
            let (first, second) =
                if other.tokens.start < found.tokens.start { (other, &found) } else { (&found, other) };
            first.bytes.end > second.tokens.start
        };
        if chosen.matches.iter().any(overlaps) {
            continue;
        }
        missing += (surround - signed(found.tokens.start)).max(0);
        length += signed(found.bytes.len());
        chosen.elements += found.found;
        chosen.matches.push(found);
        let count = chosen.matches.len();
        chosen.estimate = length - missing + (2 * surround + signed(GAP_MIN)) * signed(count);
        if chosen.estimate >= signed(style.min_length) && count >= style.max_matches {
            break;
        }
    }
    chosen.matches.sort_by_key(|found| found.tokens.start);
    chosen.words = chosen.matches.iter().flat_map(|found| found.words(occurrences)).collect();
    chosen
}

/// The words of these matches and their contexts.
fn contexts(text: &str, chosen: &ChosenMatches, style: &HighlightStyle) -> Vec<SnippetPiece> {
    let mut pieces: Vec<SnippetPiece> = Vec::new();
    if chosen.matches.is_empty() {
        return pieces;
    }
    let context = context_length(text, chosen, style);
    let mut add = |range: Range<usize>, is_word: bool| {
        if !range.is_empty() {
            pieces.push(SnippetPiece { range, is_word });
        }
    };
    let mut end = 0;
    for word in &chosen.words {
        let Some(between) = word.start.checked_sub(end) else { continue };
        if end == 0 {
            add(word.start.saturating_sub(context)..word.start, false);
        } else if between <= 2 * context + GAP_MIN {
            add(end..word.start, false);
        } else {
            add(end..end + context, false);
            add(word.start - context..word.start, false);
        }
        add(word.clone(), true);
        end = word.end;
    }
    add(end..(end + context).min(text.len()), false);
    pieces
}

/// The length of the context on each side of a word.
fn context_length(text: &str, chosen: &ChosenMatches, style: &HighlightStyle) -> usize {
    let surround = style.surround_max.max(CONTEXT_MIN);
    let (length, least) = (signed(style.length), signed(CONTEXT_MIN));
    if chosen.estimate <= length {
        return surround;
    }
    let share = |words: isize| ((length - words) / (2 * signed(chosen.elements.max(1)))).max(least);
    let context = share(signed(WORD_ESTIMATE * chosen.elements));
    // The length with this context, and the number of contexts that would be longer if they could.
    let (mut estimate, mut words, mut cut) = (0, 0, 0);
    let mut end = 0;
    let mut is_first = true;
    for word in &chosen.words {
        let between = signed(word.start) - end;
        if between <= 0 {
            continue;
        }
        words += signed(word.len());
        let room = if is_first { context } else { 2 * context };
        estimate += if room >= between {
            between
        } else if is_first {
            cut += 1;
            context
        } else {
            cut += 2;
            2 * context + signed(GAP_MIN)
        };
        is_first = false;
        end = signed(word.end);
    }
    let rest = signed(text.len()) - chosen.matches.last().map_or(0, |last| signed(last.bytes.end));
    if rest >= context {
        cut += 1;
    }
    estimate += rest.min(context);
    let mut context = share(words);
    if cut > 0 && length > estimate + least {
        context = (context + (length - words - (estimate + least)) / cut).max(least);
    }
    context.unsigned_abs()
}

fn signed(length: usize) -> isize {
    isize::try_from(length).unwrap_or(isize::MAX)
}

/// The pieces with all words of the query in them as pieces of their own, also those that they cut.
fn with_whole_words(pieces: Vec<SnippetPiece>, marks: &[Range<usize>]) -> Vec<SnippetPiece> {
    let mut whole: Vec<SnippetPiece> = Vec::with_capacity(pieces.len());
    let mut marks = marks.iter().cloned().peekable();
    for SnippetPiece { mut range, is_word } in pieces {
        if is_word {
            whole.push(SnippetPiece { range, is_word });
            continue;
        }
        while marks.next_if(|mark| mark.end <= range.start).is_some() {}
        if let Some(mark) = marks.peek()
            && mark.start < range.start
        {
            range.start = mark.start;
        }
        while let Some(mark) = marks.next_if(|mark| mark.start < range.end) {
            if range.start < mark.start {
                whole.push(SnippetPiece { range: range.start..mark.start, is_word: false });
            }
            range.start = mark.end;
            whole.push(SnippetPiece { range: mark, is_word: true });
        }
        if range.start < range.end {
            whole.push(SnippetPiece { range, is_word: false });
        }
    }
    whole
}

/// Joins pieces that meet, and lets the others begin and end at words.
fn join(text: &str, pieces: Vec<SnippetPiece>) -> Vec<Range<usize>> {
    let mut windows: Vec<Range<usize>> = Vec::new();
    let mut pieces = pieces.into_iter().peekable();
    let mut end = 0;
    while let Some(SnippetPiece { mut range, is_word }) = pieces.next() {
        range.start = range.start.max(end);
        let next = pieces.peek().map_or(text.len(), |next| next.range.start);
        if range.is_empty() {
            continue;
        }
        if !is_word {
            if end < range.start {
                range.start = word_start(text, range.start).max(end);
            }
            if range.end < next {
                range.end = word_end(text, range.end, next);
            }
        }
        if range.end <= range.start {
            continue;
        }
        end = range.end;
        match windows.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => windows.push(range),
        }
    }
    windows
}

/// The start of the word that `at` is in, or of the next one.
fn word_start(text: &str, at: usize) -> usize {
    let at = boundary_down(text, at);
    if !text[at..].starts_with(is_of_word) {
        return step_while(text, at, |character| !is_of_word(character));
    }
    back_while(text, at, is_of_word)
}

/// The end of the word that is around `at`, or of the last one before it; at most `limit`.
fn word_end(text: &str, at: usize, limit: usize) -> usize {
    let at = boundary_down(text, at);
    if text[..at].ends_with(is_of_word) && text[at..].starts_with(is_of_word) {
        return step_while(text, at, is_of_word).min(boundary_down(text, limit));
    }
    back_while(text, at, |character| !is_of_word(character))
}

/// Goes on over such characters, by [`WORD_MAX`] bytes at most.
fn step_while(text: &str, at: usize, of_kind: impl Fn(char) -> bool) -> usize {
    let mut end = at;
    for character in text[at..].chars().take_while(|character| of_kind(*character)) {
        if end - at >= WORD_MAX {
            break;
        }
        end += character.len_utf8();
    }
    end
}

/// Goes back over such characters, by [`WORD_MAX`] bytes at most.
fn back_while(text: &str, at: usize, of_kind: impl Fn(char) -> bool) -> usize {
    let mut start = at;
    for character in text[..at].chars().rev().take_while(|character| of_kind(*character)) {
        if at - start >= WORD_MAX {
            break;
        }
        start -= character.len_utf8();
    }
    start
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric()
}

/// Length of the longest prefix of at most `length` bytes that ends with a word.
fn cut_down(text: &str, length: usize) -> usize {
    let at = boundary_down(text, length.min(text.len()));
    let words = if text[..at].ends_with(is_of_word) && text[at..].starts_with(is_of_word) {
        text[..at].trim_end_matches(is_of_word)
    } else {
        &text[..at]
    };
    match words.trim_end_matches(|character| !is_of_word(character)).len() {
        0 => at,
        end => end,
    }
}

fn boundary_down(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
