//! Tokenizers: a text is split into words.

use std::ops::{Range, RangeInclusive};

use regex::Regex;

use super::parts::AnalysisPart;
use super::steps::StepWord;
use crate::Error;
use crate::text_division::{STEPS_WORDS_MAX, TextDivision};

/// Letters of a gram, at most.
pub(super) const GRAM_MAX: usize = 32;

/// Grams of one text or word, at most.
const GRAMS_MAX: usize = 100_000;

/// Bytes of a part of a path that is a word, at most; the whole path is one.
const PATH_BYTES_MAX: usize = 1_024;

/// Classes of letters by their names, as members of a class of an expression.
const CLASSES: [(&str, &str); 8] = [
    ("letter", r"\p{L}"),
    ("digit", r"\p{Nd}"),
    ("whitespace", r"\s"),
    ("punctuation", r"\p{P}"),
    ("symbol", r"\p{S}"),
    ("cr", r"\r"),
    ("lf", r"\n"),
    ("tab", r"\t"),
];

/// Division of a text into words, which the later steps change.
#[derive(Debug)]
pub(super) enum TextSplitter {
    /// One of those that need no definition, whose longer words are cut.
    Simple { division: TextDivision, longest: usize },
    /// Words between what matches an expression.
    Separated(Regex),
    /// Words that match an expression, or one of its groups.
    Matched { pattern: Regex, group: usize },
    /// A path, and the paths that lead to it.
    Path { delimiter: char, replacement: String, skipped: usize, is_reverse: bool },
    /// All parts of a text, or of its runs of some letters, that have a length.
    Grams { runs: Option<Regex>, lengths: RangeInclusive<usize>, is_from_edge: bool },
}

impl TextSplitter {
    /// Division that words are not cut by.
    pub(super) fn simple(division: TextDivision) -> Self {
        TextSplitter::Simple { division, longest: usize::MAX }
    }

    /// Number of its compiled expressions.
    pub(super) fn expressions(&self) -> usize {
        match self {
            TextSplitter::Simple { .. }
            | TextSplitter::Path { .. }
            | TextSplitter::Grams { runs: None, .. } => 0,
            TextSplitter::Separated(_)
            | TextSplitter::Matched { .. }
            | TextSplitter::Grams { runs: Some(_), .. } => 1,
        }
    }

    /// The division of a tokenizer, and true if its words are in small letters.
    ///
    /// # Errors
    /// There is no such tokenizer, or its definition is malformed.
    pub(super) fn of(part: &AnalysisPart, notes: &mut Vec<String>) -> Result<(Self, bool), Error> {
        let kind = part.kind();
        let splitter = match kind {
            "standard" => {
                let longest = match part.number("max_token_length", 255)? {
                    0 => return Err(part.refusal("[max_token_length] has to be at least 1")),
                    255 => usize::MAX,
                    longest => longest,
                };
                TextSplitter::Simple { division: TextDivision::Words, longest }
            }
            "letter" | "lowercase" => TextSplitter::simple(TextDivision::Letters),
            "whitespace" => TextSplitter::simple(TextDivision::Blanks),
            "keyword" => TextSplitter::simple(TextDivision::Whole),
            "classic" | "uax_url_email" | "thai" | "icu_tokenizer" | "kuromoji_tokenizer"
            | "nori_tokenizer" | "smartcn_tokenizer" => {
                part.note("splits as [standard]", notes);
                TextSplitter::simple(TextDivision::Words)
            }
            "pattern" | "simple_pattern" | "simple_pattern_split" => by_pattern(part, notes)?,
            "char_group" => match class_of(&part.texts("tokenize_on_chars")) {
                Some(separators) => TextSplitter::Separated(separators),
                None => return Err(part.refusal("[tokenize_on_chars] has no characters")),
            },
            "path_hierarchy" | "PathHierarchy" => {
                let delimiter = part.letter("delimiter")?.unwrap_or('/');
                TextSplitter::Path {
                    delimiter,
                    replacement: part.letter("replacement")?.unwrap_or(delimiter).to_string(),
                    skipped: part.number("skip", 0)?,
                    is_reverse: part.flag("reverse", false),
                }
            }
            "ngram" | "nGram" | "edge_ngram" | "edgeNGram" => TextSplitter::Grams {
                runs: runs_of(part)?,
                lengths: part.gram_lengths(GRAM_MAX, notes)?,
                is_from_edge: kind.starts_with("edge"),
            },
            _ => return Err(part.unknown()),
        };
        Ok((splitter, kind == "lowercase"))
    }

    /// Words of a text, each at a position of its own, but for those of paths.
    pub(super) fn words(&self, text: &str) -> Vec<StepWord> {
        match self {
            TextSplitter::Simple { division, longest } => {
                let spans = division.spans(text).into_iter().flat_map(|span| cut(text, span, *longest));
                let words = numbered(text, spans);
                words.map(|word| StepWord { kind: division.kind_of_word(&word.text), ..word }).collect()
            }
            TextSplitter::Separated(separators) => {
                let (mut spans, mut from) = (Vec::new(), 0);
                for found in separators.find_iter(text) {
                    spans.push(from..found.start());
                    from = found.end();
                }
                spans.push(from..text.len());
                numbered(text, spans.into_iter()).collect()
            }
            TextSplitter::Matched { pattern, group } => {
                let found = pattern.captures_iter(text).filter_map(|found| Some(found.get(*group)?.range()));
                numbered(text, found).collect()
            }
            TextSplitter::Path { delimiter, replacement, skipped, is_reverse } => {
                let spans = match is_reverse {
                    true => ends_of_path(text, *delimiter, *skipped),
                    false => beginnings_of_path(text, *delimiter, *skipped),
                };
                let written = |word: StepWord| StepWord {
                    text: word.text.replace(*delimiter, replacement),
                    position: 0,
                    ..word
                };
                numbered(text, spans.into_iter()).map(written).collect()
            }
            TextSplitter::Grams { runs, lengths, is_from_edge } => {
                let runs: Vec<Range<usize>> = match runs {
                    Some(runs) => runs.find_iter(text).map(|run| run.range()).collect(),
                    None => std::iter::once(0..text.len()).collect(),
                };
                let mut spans = Vec::new();
                for run in runs {
                    let grams = grams(&text[run.clone()], lengths, *is_from_edge).into_iter();
                    spans.extend(grams.map(|gram| run.start + gram.start..run.start + gram.end));
                    if spans.len() >= GRAMS_MAX {
                        break;
                    }
                }
                numbered(text, spans.into_iter()).collect()
            }
        }
    }
}

/// Words at places of a text, each at the next position. Empty ones are left out, as are those after too
/// many.
fn numbered(text: &str, spans: impl Iterator<Item = Range<usize>>) -> impl Iterator<Item = StepWord> {
    let spans = spans.filter(|span| !span.is_empty()).take(STEPS_WORDS_MAX).enumerate();
    spans.map(move |(position, span)| StepWord {
        text: text[span.clone()].to_owned(),
        span,
        position,
        kind: "word",
        is_protected: false,
    })
}

/// A place in parts of at most so many letters.
fn cut(text: &str, span: Range<usize>, longest: usize) -> Vec<Range<usize>> {
    if span.len() <= longest {
        return vec![span];
    }
    let starts: Vec<usize> =
        text[span.clone()].char_indices().step_by(longest).map(|(at, _)| span.start + at).collect();
    let ends = starts.iter().skip(1).copied().chain([span.end]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

/// Places of the parts of a text that have a length in letters; from its beginning, or from all of its
/// letters.
pub(super) fn grams(text: &str, lengths: &RangeInclusive<usize>, is_from_edge: bool) -> Vec<Range<usize>> {
    let letters = text.char_indices().map(|(at, _)| at);
    let bounds: Vec<usize> = letters.chain([text.len()]).take(GRAMS_MAX).collect();
    let starts = if is_from_edge { 1 } else { bounds.len() };
    let mut grams = Vec::new();
    for start in 0..starts {
        let ends = lengths.clone().filter_map(|length| bounds.get(start + length));
        grams.extend(ends.map(|end| bounds[start]..*end));
        if grams.len() >= GRAMS_MAX {
            break;
        }
    }
    grams
}

/// Expression of one letter of some classes or some letters; `None` if there are none.
fn class_of(names: &[String]) -> Option<Regex> {
    let letters = names.iter().map(|name| match CLASSES.iter().find(|(known, _)| known == name) {
        Some((_, class)) => (*class).to_owned(),
        None => match name.as_str() {
            r"\n" => r"\n".to_owned(),
            r"\r" => r"\r".to_owned(),
            r"\t" => r"\t".to_owned(),
            other => regex::escape(other),
        },
    });
    let letters: String = letters.collect();
    if letters.is_empty() { None } else { Regex::new(&format!("[{letters}]")).ok() }
}

/// Expression of the runs of letters of which grams are made; `None` for those of the whole text.
fn runs_of(part: &AnalysisPart) -> Result<Option<Regex>, Error> {
    let mut classes = part.words("token_chars");
    let is_custom = classes.iter().any(|class| class == "custom");
    classes.retain(|class| class != "custom" && !class.is_empty());
    if let Some(unknown) = classes.iter().find(|class| CLASSES[..5].iter().all(|(known, _)| known != class)) {
        return Err(
            part.refusal(&format!("Unknown token type: '{unknown}', must be one of [letter, digit, ...]"))
        );
    }
    if is_custom {
        let custom = part.text("custom_token_chars").unwrap_or_default();
        classes.extend(custom.chars().map(String::from));
    }
    match class_of(&classes) {
        None => Ok(None),
        Some(class) => match Regex::new(&format!("{class}+")) {
            Ok(runs) => Ok(Some(runs)),
            Err(_) => Err(part.refusal("[token_chars] cannot be read")),
        },
    }
}

/// The division of a tokenizer with an expression.
fn by_pattern(part: &AnalysisPart, notes: &mut Vec<String>) -> Result<TextSplitter, Error> {
    if part.kind() != "pattern" && !part.has("pattern") {
        return Ok(TextSplitter::simple(TextDivision::Whole));
    }
    let Some(pattern) = part.regex("pattern", r"\W+", notes) else {
        return Ok(TextSplitter::simple(TextDivision::Words));
    };
    let group = part.text("group").filter(|group| group != "-1");
    Ok(match (part.kind(), group) {
        ("simple_pattern", _) => TextSplitter::Matched { pattern, group: 0 },
        ("pattern", Some(group)) => match group.parse() {
            Ok(group) => TextSplitter::Matched { pattern, group },
            Err(_) => return Err(part.refusal(&format!("[group] is [{group}], and has to be a number"))),
        },
        _ => TextSplitter::Separated(pattern),
    })
}

/// Places of the beginnings of a path that end before a delimiter, and of the whole one, without its first
/// parts.
fn beginnings_of_path(text: &str, delimiter: char, skipped: usize) -> Vec<Range<usize>> {
    let mut ends: Vec<usize> = text.match_indices(delimiter).map(|(at, _)| at).filter(|at| *at > 0).collect();
    ends.push(text.len());
    let start = skipped.checked_sub(1).map_or(Some(0), |last| ends.get(last).copied());
    let Some(start) = start else { return Vec::new() };
    let ends = ends.into_iter().skip(skipped);
    ends.filter(|end| end - start <= PATH_BYTES_MAX || *end == text.len()).map(|end| start..end).collect()
}

/// Places of the ends of a path that begin after a delimiter, and of the whole one, without its last parts.
fn ends_of_path(text: &str, delimiter: char, skipped: usize) -> Vec<Range<usize>> {
    let after = text.match_indices(delimiter).map(|(at, _)| at + delimiter.len_utf8());
    let starts: Vec<usize> = [0].into_iter().chain(after.filter(|at| *at < text.len())).collect();
    let end = match skipped {
        0 => text.len(),
        skipped => starts.len().checked_sub(skipped).map_or(0, |at| starts[at]),
    };
    let starts = starts.into_iter().filter(|start| *start < end);
    starts.filter(|start| end - start <= PATH_BYTES_MAX || *start == 0).map(|start| start..end).collect()
}
