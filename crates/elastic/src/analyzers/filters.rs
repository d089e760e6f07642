//! Token filters: the steps that settings ask for by names.

use std::collections::HashMap;

use millrace_linguistics::TextLanguage;

use super::parts::AnalysisPart;
use super::steps::AnalyzerSteps;
use super::stop_words::FRENCH_ARTICLES;
use super::synonyms::SynonymRules;
use super::tokenizers::GRAM_MAX;
use super::word_steps::{WordChange, WordStep};
use crate::Error;

/// Words of a shingle, at most.
const SHINGLE_MAX: usize = 8;

/// Expressions of a filter whose groups are words, at most.
const PATTERNS_MAX: usize = 10;

/// Languages with stems, by their names in filters.
const LANGUAGES: [(&str, &str); 25] = [
    ("arabic", "ar"),
    ("brazilian", "pt"),
    ("danish", "da"),
    ("dutch", "nl"),
    ("dutch_kp", "nl"),
    ("english", "en"),
    ("finnish", "fi"),
    ("french", "fr"),
    ("german", "de"),
    ("german2", "de"),
    ("greek", "el"),
    ("hungarian", "hu"),
    ("italian", "it"),
    ("kp", "nl"),
    ("lovins", "en"),
    ("norwegian", "no"),
    ("nynorsk", "no"),
    ("porter", "en"),
    ("porter2", "en"),
    ("portuguese", "pt"),
    ("romanian", "ro"),
    ("russian", "ru"),
    ("spanish", "es"),
    ("swedish", "sv"),
    ("turkish", "tr"),
];

/// Names of stemmers that are those of here.
const EXACT_STEMMERS: [&str; 15] = [
    "porter2",
    "danish",
    "dutch",
    "finnish",
    "french",
    "german",
    "hungarian",
    "italian",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "spanish",
    "swedish",
    "turkish",
];

/// Filters that are passed over: words are compared as they are without them.
const PASSED: [&str; 31] = [
    "arabic_normalization",
    "bengali_normalization",
    "cjk_bigram",
    "common_grams",
    "condition",
    "dictionary_decompounder",
    "flatten_graph",
    "hindi_normalization",
    "hunspell",
    "hyphenation_decompounder",
    "icu_collation",
    "icu_transform",
    "indic_normalization",
    "ja_stop",
    "kuromoji_baseform",
    "kuromoji_number",
    "kuromoji_part_of_speech",
    "kuromoji_readingform",
    "kuromoji_stemmer",
    "min_hash",
    "multiplexer",
    "nori_number",
    "nori_part_of_speech",
    "nori_readingform",
    "persian_normalization",
    "persian_stem",
    "phonetic",
    "predicate_token_filter",
    "serbian_normalization",
    "sorani_normalization",
    "telugu_normalization",
];

/// Stem of the words of a language; `None` if it has none here.
pub(super) fn language_of(name: &str) -> Option<TextLanguage> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("light_").or_else(|| name.strip_prefix("minimal_")).unwrap_or(&name);
    let name = name.strip_suffix("_rslp").or_else(|| name.strip_suffix("_plural")).unwrap_or(name);
    let found = LANGUAGES.iter().find(|(known, _)| *known == name);
    found.map(|(_, tag)| TextLanguage::from_tag(tag))
}

/// Adds the steps of a token filter.
///
/// # Errors
/// There is no such filter, or its definition is malformed.
pub(super) fn add(
    part: &AnalysisPart,
    steps: &mut AnalyzerSteps,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    if matches!(part.kind(), "synonym" | "synonym_graph") {
        let rules = SynonymRules::read(part, steps, notes)?;
        steps.list_bytes += rules.bytes();
        steps.words.push(WordStep::Synonyms(rules));
    } else if let Some(changes) = changes_of(part, notes)? {
        steps.words.extend(changes.into_iter().map(WordStep::Change));
    } else {
        steps.words.extend(step_of(part, notes)?);
    }
    Ok(())
}

/// Changes of a filter that changes each word by itself, none if it is passed over; `None` for another
/// filter.
fn changes_of(part: &AnalysisPart, notes: &mut Vec<String>) -> Result<Option<Vec<WordChange>>, Error> {
    let change = match part.kind() {
        "lowercase" => {
            if let Some(language) = part.text("language") {
                part.note(&format!("has no rules of the language [{language}]"), notes);
            }
            WordChange::Lower
        }
        "uppercase" => WordChange::Upper,
        "asciifolding" => {
            if part.flag("preserve_original", false) {
                part.note("does not keep the original words", notes);
            }
            WordChange::Ascii
        }
        "icu_folding" => {
            part.note("is [lowercase] with [asciifolding]", notes);
            return Ok(Some(vec![WordChange::Lower, WordChange::Ascii]));
        }
        "icu_normalizer" => {
            part.note("is [lowercase]", notes);
            WordChange::Lower
        }
        "german_normalization" | "scandinavian_folding" | "scandinavian_normalization" => {
            part.note("is [asciifolding]", notes);
            WordChange::Ascii
        }
        "trim" => WordChange::Trim,
        "reverse" => WordChange::Reversed,
        "apostrophe" => WordChange::Apostrophe,
        "classic" => {
            part.note("drops the dots of all words", notes);
            WordChange::Possessive { has_dots: true }
        }
        "decimal_digit" => WordChange::Digits,
        "cjk_width" => WordChange::Width,
        "truncate" => WordChange::Cut(part.number("length", 10)?),
        "delimited_payload" | "delimited_payload_filter" => {
            WordChange::CutAt(part.text("delimiter").unwrap_or_else(|| "|".to_owned()))
        }
        "elision" => {
            if part.has("articles_path") {
                part.note("has its articles in a file, and is passed over", notes);
                return Ok(Some(Vec::new()));
            }
            let articles = match part.has("articles") {
                true => part.words("articles").into_iter().collect(),
                false => FRENCH_ARTICLES.iter().map(|article| (*article).to_owned()).collect(),
            };
            let ignores_case = part.flag("articles_case", !part.has("articles"));
            WordChange::Elision { articles, ignores_case }
        }
        "pattern_replace" => {
            let is_first = !part.flag("all", true);
            let replaced = part.replacement(notes)?.map(|(pattern, replacement)| WordChange::Replaced {
                pattern,
                replacement,
                is_first,
            });
            return Ok(Some(replaced.into_iter().collect()));
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![change]))
}

/// Step of a filter that chooses, divides or adds words; `None` if it is passed over.
fn step_of(part: &AnalysisPart, notes: &mut Vec<String>) -> Result<Option<WordStep>, Error> {
    Ok(Some(match part.kind() {
        "stop" => {
            let words = part.stop_words("_english_", notes);
            WordStep::Stop { words, ignores_case: part.flag("ignore_case", false), keeps: false }
        }
        "keep" => {
            if part.has("keep_words_path") {
                part.note("has its words in a file, and is passed over", notes);
                return Ok(None);
            }
            let words = part.words("keep_words").into_iter().collect();
            WordStep::Stop { words, ignores_case: part.flag("keep_words_case", false), keeps: true }
        }
        "keep_types" => {
            let keeps = part.text("mode").is_none_or(|mode| mode == "include");
            WordStep::Kinds { kinds: part.words("types").into_iter().collect(), keeps }
        }
        "length" => WordStep::Length(part.number("min", 0)?..=part.number("max", i32::MAX as usize)?),
        "limit" => WordStep::Limit(part.number("max_token_count", 1)?),
        "unique" => WordStep::Unique { is_by_position: part.flag("only_on_same_position", false) },
        "remove_duplicates" => WordStep::Unique { is_by_position: true },
        "edge_ngram" | "edgeNGram" | "ngram" | "nGram" => {
            let is_from_edge = part.kind().starts_with("edge");
            if part.text("side").is_some_and(|side| side != "front") {
                part.note("takes grams at the beginning of words", notes);
            }
            let keeps_whole = part.flag("preserve_original", false);
            WordStep::Grams { lengths: part.gram_lengths(GRAM_MAX, notes)?, keeps_whole, is_from_edge }
        }
        "keyword_marker" => {
            if part.has("keywords_path") {
                part.note("has words in a file, which get stems", notes);
            }
            let pattern = match part.has("keywords_pattern") {
                true => part.regex("keywords_pattern", "", notes),
                false => None,
            };
            let words = part.words("keywords").into_iter().collect();
            WordStep::Protect { words, pattern, ignores_case: part.flag("ignore_case", false) }
        }
        "keyword_repeat" => WordStep::Repeated,
        "stemmer_override" => {
            if part.has("rules_path") {
                part.note("has its rules in a file, and is passed over", notes);
                return Ok(None);
            }
            WordStep::Override(overrides(part)?)
        }
        "pattern_capture" => captures(part, notes)?,
        "word_delimiter" | "word_delimiter_graph" => divided(part, notes),
        "shingle" => shingles(part)?,
        "fingerprint" => {
            let separator = part.text("separator").unwrap_or_else(|| " ".to_owned());
            WordStep::Fingerprint { separator, most: part.number("max_output_size", 255)? }
        }
        "snowball" | "stemmer" | "kstem" | "porter_stem" => return Ok(stemmer(part, notes)),
        kind => return stem_of(kind, part, notes),
    }))
}

/// Step of a filter that is named after the language of its stems; `None` for a filter that is passed over.
fn stem_of(kind: &str, part: &AnalysisPart, notes: &mut Vec<String>) -> Result<Option<WordStep>, Error> {
    if PASSED.contains(&kind) {
        // Without words at several positions it does nothing there, too.
        if kind != "flatten_graph" {
            part.note("is passed over", notes);
        }
        return Ok(None);
    }
    match kind.strip_suffix("_stem").map(language_of) {
        Some(Some(language)) => {
            part.note("has the stems of Snowball", notes);
            Ok(Some(WordStep::Stem(language)))
        }
        Some(None) if kind == "czech_stem" => {
            part.note("is passed over", notes);
            Ok(None)
        }
        _ => Err(part.unknown()),
    }
}

/// Step of a filter whose words are the groups of expressions.
fn captures(part: &AnalysisPart, notes: &mut Vec<String>) -> Result<WordStep, Error> {
    let named = part.texts("patterns");
    if named.len() > PATTERNS_MAX {
        return Err(part.refusal(&format!("[patterns] are more than {PATTERNS_MAX}")));
    }
    let patterns: Vec<_> = named.iter().filter_map(|pattern| part.expression(pattern)).collect();
    if patterns.len() < named.len() {
        part.note("has expressions that are not understood here, and are passed over", notes);
    }
    Ok(WordStep::Captures { patterns, keeps_whole: part.flag("preserve_original", true) })
}

/// Step of a filter that divides words inside.
fn divided(part: &AnalysisPart, notes: &mut Vec<String>) -> WordStep {
    if part.has("type_table") || part.has("protected_words") || part.has("type_table_path") {
        part.note("has no tables of letters and no protected words", notes);
    }
    let flag = |member: &str| part.flag(member, false);
    WordStep::Divided {
        at_case: part.flag("split_on_case_change", true),
        at_digits: part.flag("split_on_numerics", true),
        has_possessive: part.flag("stem_english_possessive", true),
        keeps_whole: flag("preserve_original"),
        joins: flag("catenate_all") || flag("catenate_words") || flag("catenate_numbers"),
    }
}

/// Step of a filter that joins words to shingles.
fn shingles(part: &AnalysisPart) -> Result<WordStep, Error> {
    let (least, most) = (part.number("min_shingle_size", 2)?, part.number("max_shingle_size", 2)?);
    if least < 2 || least > most || most > SHINGLE_MAX {
        let reason = format!("sizes are from 2 to {SHINGLE_MAX}, and not from [{least}] to [{most}]");
        return Err(part.refusal(&reason));
    }
    let keeps_single = part.flag("output_unigrams", true);
    let separator = part.text("token_separator").unwrap_or_else(|| " ".to_owned());
    Ok(WordStep::Shingles { lengths: least..=most, keeps_single, separator })
}

/// Step of a stemmer; `None` for a language without stems.
fn stemmer(part: &AnalysisPart, notes: &mut Vec<String>) -> Option<WordStep> {
    let named = part.text("language").or_else(|| part.text("name"));
    let language = named.unwrap_or_else(|| "english".to_owned()).to_ascii_lowercase();
    if language == "possessive_english" {
        return Some(WordStep::Change(WordChange::Possessive { has_dots: false }));
    }
    // The stemmer of English has this name in the one filter, and that of an older one in the other.
    let is_exact = match part.kind() {
        "snowball" => language == "english" || EXACT_STEMMERS.contains(&language.as_str()),
        "stemmer" => EXACT_STEMMERS.contains(&language.as_str()),
        _ => false,
    };
    match language_of(&language) {
        Some(stems) => {
            if !is_exact {
                part.note(&format!("has the stems of Snowball for [{language}]"), notes);
            }
            Some(WordStep::Stem(stems))
        }
        None => {
            part.note(&format!("has no stems of the language [{language}]"), notes);
            None
        }
    }
}

/// Words with others in their place, by rules.
fn overrides(part: &AnalysisPart) -> Result<HashMap<String, String>, Error> {
    let mut others = HashMap::new();
    for rule in part.texts("rules") {
        let Some((words, other)) = rule.split_once("=>") else {
            return Err(part.refusal(&format!("Invalid Keyword override Rule:{rule}")));
        };
        others.extend(words.split(',').map(|word| (word.trim().to_owned(), other.trim().to_owned())));
    }
    Ok(others)
}
