//! Changes of the words of a text, one step of an analyzer each.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use millrace_linguistics::{TextLanguage, stem_word};
use regex::Regex;
use unicode_normalization::UnicodeNormalization;

use super::parts::GROWTH_MAX;
use super::steps::StepWord;
use super::synonyms::SynonymRules;
use super::tokenizers::grams;
use crate::normalizer::ascii;

/// Words of a text beside others at their positions, and their bytes, at most, if it did not have more.
const BESIDE_MAX: usize = 200_000;
const BESIDE_BYTES_MAX: usize = 16 << 20;

/// Letters of a word that others are joined to, at most.
const JOINED_LETTERS_MAX: usize = 10_000;

/// A change of each word by itself.
#[derive(Debug)]
pub(super) enum WordChange {
    Lower,
    Upper,
    /// Letters with accents, and others that are written with those of ASCII, become these.
    Ascii,
    Trim,
    Reversed,
    /// Removal of an apostrophe and of what follows it.
    Apostrophe,
    /// `'s` at the end is dropped, and with `has_dots` the dots of an acronym.
    Possessive {
        has_dots: bool,
    },
    /// Digits of all scripts become those of ASCII.
    Digits,
    /// Letters of full and half width become the usual ones.
    Width,
    /// Letters after a number of them are dropped.
    Cut(usize),
    /// Removal of a text in a word, and of the letters after it.
    CutAt(String),
    /// An article before an apostrophe is dropped.
    Elision {
        articles: HashSet<String>,
        ignores_case: bool,
    },
    Replaced {
        pattern: Regex,
        replacement: String,
        is_first: bool,
    },
}

impl WordChange {
    /// True if it is about the way in which letters are written.
    pub(super) fn is_of_writing(&self) -> bool {
        use WordChange::{Ascii, Digits, Lower, Upper, Width};
        matches!(self, Lower | Upper | Ascii | Digits | Width)
    }

    /// The changed word.
    pub(super) fn apply(&self, word: &str) -> String {
        match self {
            WordChange::Lower => word.to_lowercase(),
            WordChange::Upper => word.to_uppercase(),
            WordChange::Ascii => ascii(word),
            WordChange::Trim => word.trim().to_owned(),
            WordChange::Reversed => word.chars().rev().collect(),
            WordChange::Apostrophe => word.split(['\'', '\u{2019}']).next().unwrap_or_default().to_owned(),
            WordChange::Possessive { has_dots } => {
                let letters = word.strip_suffix(['s', 'S']);
                let bare = letters.and_then(|word| word.strip_suffix(['\'', '\u{2019}', '\u{ff07}']));
                let bare = bare.unwrap_or(word);
                if *has_dots { bare.replace('.', "") } else { bare.to_owned() }
            }
            WordChange::Digits => word.chars().map(ascii_digit).collect(),
            WordChange::Width => {
                let one = |letter: char| match letter {
                    '\u{ff00}'..='\u{ffef}' => std::iter::once(letter).nfkc().collect::<String>(),
                    letter => String::from(letter),
                };
                word.chars().map(one).collect()
            }
            WordChange::Cut(length) => word.chars().take(*length).collect(),
            WordChange::CutAt(mark) => {
                word.split_once(mark.as_str()).map_or(word, |(before, _)| before).to_owned()
            }
            WordChange::Elision { articles, ignores_case } => {
                let Some((article, rest)) = word.split_once(['\'', '\u{2019}']) else {
                    return word.to_owned();
                };
                let is_article = articles.contains(article)
                    || *ignores_case && articles.contains(article.to_lowercase().as_str());
                if is_article { rest.to_owned() } else { word.to_owned() }
            }
            WordChange::Replaced { pattern, replacement, is_first } => {
                let most = if *is_first { 1 } else { usize::MAX };
                let (mut written, mut from) = (String::new(), 0);
                for found in pattern.captures_iter(word).take(most) {
                    let Some(place) = found.get(0) else { continue };
                    written.push_str(&word[from..place.start()]);
                    found.expand(replacement, &mut written);
                    from = place.end();
                    // A word that would become too long stays as it is.
                    if written.len() > word.len() + GROWTH_MAX {
                        return word.to_owned();
                    }
                }
                written.push_str(&word[from..]);
                written
            }
        }
    }
}

/// A digit of any script as one of ASCII: the digits of a script follow each other from zero on.
fn ascii_digit(letter: char) -> char {
    /// Zeros of scripts.
    const ZEROS: [u32; 24] = [
        0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50,
        0xed0, 0xf20, 0x1040, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1b50, 0xa620, 0xff10,
    ];
    let code = u32::from(letter);
    let digit = ZEROS.iter().find_map(|zero| code.checked_sub(*zero).filter(|digit| *digit < 10));
    digit.and_then(|digit| char::from_digit(digit, 10)).unwrap_or(letter)
}

/// A change of the words of a text.
#[derive(Debug)]
pub(super) enum WordStep {
    Change(WordChange),
    /// Words become their stems.
    Stem(TextLanguage),
    /// Words that get no stem.
    Protect {
        words: HashSet<String>,
        pattern: Option<Regex>,
        ignores_case: bool,
    },
    /// Words with others in their place, which get no stem.
    Override(HashMap<String, String>),
    /// Words that are left out, or with `keeps` all others.
    Stop {
        words: HashSet<String>,
        ignores_case: bool,
        keeps: bool,
    },
    /// Words of some types that are left out, or with `keeps` all others.
    Kinds {
        kinds: HashSet<String>,
        keeps: bool,
    },
    /// Words of other lengths are left out.
    Length(RangeInclusive<usize>),
    /// Words after a number of them are left out.
    Limit(usize),
    /// Words that were there before are left out, or with `is_by_position` those at the same position.
    Unique {
        is_by_position: bool,
    },
    /// Parts of words stand in their place.
    Grams {
        lengths: RangeInclusive<usize>,
        keeps_whole: bool,
        is_from_edge: bool,
    },
    /// Other words stand in the place of one or several.
    Synonyms(SynonymRules),
    /// Parts of a word that groups of expressions find, beside it or in its place.
    Captures {
        patterns: Vec<Regex>,
        keeps_whole: bool,
    },
    /// Each word stands there a second time, which gets no stem.
    Repeated,
    /// A word is divided at other letters, between small and capital ones, and between letters and digits.
    Divided {
        at_case: bool,
        at_digits: bool,
        has_possessive: bool,
        keeps_whole: bool,
        joins: bool,
    },
    /// Words that follow each other stand beside the first of them as one, or in its place.
    Shingles {
        lengths: RangeInclusive<usize>,
        keeps_single: bool,
        separator: String,
    },
    /// All words, sorted, are one.
    Fingerprint {
        separator: String,
        most: usize,
    },
}

impl WordStep {
    /// Number of its compiled expressions.
    pub(super) fn expressions(&self) -> usize {
        match self {
            WordStep::Change(WordChange::Replaced { .. }) | WordStep::Protect { pattern: Some(_), .. } => 1,
            WordStep::Captures { patterns, .. } => patterns.len(),
            _ => 0,
        }
    }

    /// The changed words, which stay in the order of their positions.
    pub(super) fn apply(&self, mut words: Vec<StepWord>) -> Vec<StepWord> {
        match self {
            WordStep::Change(change @ WordChange::Replaced { .. }) => {
                return each_longer(words, |word| word.text = change.apply(&word.text));
            }
            WordStep::Change(change) => {
                words.iter_mut().for_each(|word| word.text = change.apply(&word.text));
            }
            WordStep::Stem(language) => {
                words.iter_mut().filter(|word| !word.is_protected).for_each(|word| {
                    stem_word(&mut word.text, *language);
                });
            }
            WordStep::Protect { words: protected, pattern, ignores_case } => {
                for word in &mut words {
                    let is_meant = has(protected, &word.text, *ignores_case)
                        || pattern.as_ref().is_some_and(|pattern| pattern.is_match(&word.text));
                    word.is_protected |= is_meant;
                }
            }
            WordStep::Override(others) => {
                return each_longer(words, |word| {
                    if let Some(other) = others.get(&word.text) {
                        (word.text, word.is_protected) = (other.clone(), true);
                    }
                });
            }
            WordStep::Stop { words: listed, ignores_case, keeps } => {
                words.retain(|word| has(listed, &word.text, *ignores_case) == *keeps);
            }
            WordStep::Kinds { kinds, keeps } => words.retain(|word| kinds.contains(word.kind) == *keeps),
            WordStep::Length(lengths) => words.retain(|word| lengths.contains(&word.text.chars().count())),
            WordStep::Limit(most) => words.truncate(*most),
            WordStep::Unique { is_by_position } => {
                let mut seen = HashSet::new();
                words.retain(|word| {
                    let position = if *is_by_position { word.position } else { 0 };
                    seen.insert((position, word.text.clone()))
                });
            }
            WordStep::Grams { lengths, keeps_whole, is_from_edge } => {
                return beside(words, |word, beside| {
                    let all = grams(&word.text, lengths, *is_from_edge);
                    let has_whole = all.iter().any(|gram| gram.len() == word.text.len());
                    beside.extend(all.into_iter().map(|gram| word.text[gram].to_owned()));
                    if *keeps_whole && !has_whole {
                        beside.push(word.text.clone());
                    }
                });
            }
            WordStep::Synonyms(rules) => return rules.apply(words),
            WordStep::Captures { patterns, keeps_whole } => {
                return beside(words, |word, beside| {
                    let found = patterns.iter().flat_map(|pattern| pattern.captures_iter(&word.text));
                    let mut bytes = 0;
                    for found in found {
                        let groups = found.iter().skip(1).flatten().filter(|group| !group.is_empty());
                        // Groups of one word in each other may have all of its letters.
                        let few = groups.take_while(|group| {
                            bytes += group.len();
                            bytes <= word.text.len() + GROWTH_MAX
                        });
                        beside.extend(few.map(|group| group.as_str().to_owned()));
                        if bytes > word.text.len() + GROWTH_MAX {
                            break;
                        }
                    }
                    if *keeps_whole && !beside.contains(&word.text) || beside.is_empty() {
                        beside.insert(0, word.text.clone());
                    }
                });
            }
            WordStep::Repeated => {
                let mut all =
                    beside(words, |word, beside| beside.extend([word.text.clone(), word.text.clone()]));
                // The first of each two gets no stem.
                all.iter_mut().step_by(2).for_each(|word| word.is_protected = true);
                return all;
            }
            WordStep::Divided { .. } => return self.divided(words),
            WordStep::Shingles { lengths, keeps_single, separator } => {
                return shingles(&words, lengths, *keeps_single, separator);
            }
            WordStep::Fingerprint { separator, most } => return fingerprint(words, separator, *most),
        }
        words
    }

    /// Words with their parts at positions of their own.
    fn divided(&self, words: Vec<StepWord>) -> Vec<StepWord> {
        let (mut all, most) = (Vec::with_capacity(words.len()), words.len().max(BESIDE_MAX));
        // Positions that earlier words have taken in addition to their own.
        let (mut shift, mut added, mut last) = (0, 0, None);
        for word in words {
            if last.replace(word.position) != Some(word.position) {
                shift += std::mem::take(&mut added);
            }
            let position = word.position + shift;
            let parts = if word.is_protected { Vec::new() } else { self.parts(&word.text) };
            let (keeps, joins) = match self {
                WordStep::Divided { keeps_whole, joins, .. } => (*keeps_whole, *joins),
                _ => (true, false),
            };
            let joined = parts.concat();
            let has_joined = joins && parts.len() > 1;
            added = added.max(parts.len().saturating_sub(1));
            if word.is_protected || keeps && parts.first() != Some(&word.text) {
                all.push(StepWord { position, ..word.clone() });
            }
            if has_joined && !(keeps && joined == word.text) {
                all.push(StepWord { position, ..word.with_text(joined) });
            }
            let parts = parts.into_iter().enumerate();
            all.extend(parts.map(|(at, text)| StepWord { position: position + at, ..word.with_text(text) }));
            if all.len() >= most {
                break;
            }
        }
        all.sort_by_key(|word| word.position);
        all
    }

    /// Parts of a word between other letters, and where the kind of letters changes.
    fn parts(&self, word: &str) -> Vec<String> {
        let WordStep::Divided { at_case, at_digits, has_possessive, .. } = self else { return Vec::new() };
        let mut parts: Vec<String> = Vec::new();
        for run in word.split(|letter: char| !letter.is_alphanumeric()).filter(|run| !run.is_empty()) {
            let is_possessive = *has_possessive && matches!(run, "s" | "S") && {
                let start = run.as_ptr() as usize - word.as_ptr() as usize;
                word[..start].ends_with(['\'', '\u{2019}'])
            };
            if is_possessive {
                continue;
            }
            let mut part = String::new();
            let mut before: Option<char> = None;
            for letter in run.chars() {
                let is_other = before.is_some_and(|before| {
                    *at_digits && before.is_numeric() != letter.is_numeric()
                        || *at_case && before.is_lowercase() && letter.is_uppercase()
                });
                if is_other {
                    parts.push(std::mem::take(&mut part));
                }
                part.push(letter);
                before = Some(letter);
            }
            parts.push(part);
        }
        parts
    }
}

/// True if a list has a word.
fn has(words: &HashSet<String>, word: &str, ignores_case: bool) -> bool {
    words.contains(word) || ignores_case && words.contains(word.to_lowercase().as_str())
}

/// Words that are changed one by one, and may become longer. Those after too many bytes are left out.
fn each_longer(mut words: Vec<StepWord>, mut change: impl FnMut(&mut StepWord)) -> Vec<StepWord> {
    let mut left: usize = words.iter().map(|word| word.text.len()).sum::<usize>().max(BESIDE_BYTES_MAX);
    let mut count = 0;
    while let Some(word) = words.get_mut(count) {
        change(word);
        count += 1;
        match left.checked_sub(word.text.len()) {
            Some(rest) => left = rest,
            None => break,
        }
    }
    words.truncate(count);
    words
}

/// Words with others at the positions of each. Those after too many are left out.
pub(super) fn beside(words: Vec<StepWord>, of_word: impl Fn(&StepWord, &mut Vec<String>)) -> Vec<StepWord> {
    let own_bytes: usize = words.iter().map(|word| word.text.len()).sum();
    let (most, bytes_most) = (words.len().max(BESIDE_MAX), own_bytes.max(BESIDE_BYTES_MAX));
    let (mut all, mut beside, mut bytes) = (Vec::with_capacity(words.len()), Vec::new(), 0);
    for word in words {
        of_word(&word, &mut beside);
        bytes += beside.iter().map(String::len).sum::<usize>();
        all.extend(beside.drain(..).map(|text| word.with_text(text)));
        if all.len() >= most || bytes >= bytes_most {
            break;
        }
    }
    all
}

/// Words with the runs that begin with each of them, of some lengths. Those after too many are left out.
fn shingles(
    words: &[StepWord],
    lengths: &RangeInclusive<usize>,
    keeps_single: bool,
    separator: &str,
) -> Vec<StepWord> {
    let own_bytes: usize = words.iter().map(|word| word.text.len()).sum();
    let (most, bytes_most) = (words.len().max(BESIDE_MAX), own_bytes.max(BESIDE_BYTES_MAX));
    let (mut all, mut bytes) = (Vec::with_capacity(words.len()), 0);
    for (at, word) in words.iter().enumerate() {
        if keeps_single {
            all.push(word.clone());
        }
        for run in lengths.clone().filter_map(|length| words.get(at..at + length)) {
            let texts: Vec<&str> = run.iter().map(|word| word.text.as_str()).collect();
            let joined = word.with_text(texts.join(separator));
            bytes += joined.text.len();
            let end = run.last().map_or(word.span.end, |last| last.span.end);
            all.push(StepWord { span: word.span.start..end.max(word.span.start), kind: "shingle", ..joined });
        }
        if all.len() >= most || bytes >= bytes_most {
            break;
        }
    }
    all
}

/// All words, sorted and each once, as one; none if it is too long.
fn fingerprint(words: Vec<StepWord>, separator: &str, most: usize) -> Vec<StepWord> {
    let Some((start, end)) =
        words.first().zip(words.last()).map(|(one, other)| (one.span.start, other.span.end))
    else {
        return words;
    };
    let mut texts: Vec<String> = words.into_iter().map(|word| word.text).collect();
    texts.sort_unstable();
    texts.dedup();
    let most = most.min(JOINED_LETTERS_MAX);
    let between = separator.len().saturating_mul(texts.len() - 1);
    let bytes = texts.iter().map(String::len).sum::<usize>().saturating_add(between);
    // A letter has four bytes at most.
    if bytes > 4 * most {
        return Vec::new();
    }
    let text = texts.join(separator);
    if text.chars().count() > most {
        return Vec::new();
    }
    vec![StepWord { text, span: start..end, position: 0, kind: "fingerprint", is_protected: false }]
}
