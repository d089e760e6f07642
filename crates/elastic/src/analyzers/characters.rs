//! Character filters: parts of a text that are replaced before it is split.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::parts::{AnalysisPart, GROWTH_MAX, REGEX_BYTES_MAX};
use crate::Error;

/// Bytes of a side of a mapping, at most.
const SIDE_BYTES_MAX: usize = 1_000;

/// Memory of the compiled expression of the keys of a mapping.
const KEYS_BYTES_MAX: usize = 4 * REGEX_BYTES_MAX;

/// Parts of a text that are known after all steps, at most. Each replacement makes two.
const PARTS_MAX: usize = 1_000_000;

/// Elements in whose place there is nothing; in that of others there is an end of the line.
const INLINE: [&str; 33] = [
    "a", "abbr", "acronym", "b", "basefont", "bdo", "big", "cite", "code", "dfn", "em", "font", "i", "img",
    "input", "kbd", "label", "q", "s", "samp", "select", "small", "span", "strike", "strong", "sub", "sup",
    "textarea", "tt", "u", "var", "ins", "del",
];

/// Entities by their names.
const ENTITIES: [(&str, &str); 12] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("copy", "\u{a9}"),
    ("reg", "\u{ae}"),
    ("euro", "\u{20ac}"),
    ("hellip", "\u{2026}"),
    ("ndash", "\u{2013}"),
    ("mdash", "\u{2014}"),
];

/// Elements, comments and entities of HTML.
static HTML: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?is)<!--.*?-->|<(?:script|style)\b.*?</(?:script|style)\s*>|<[!?][^>]*>|</?([a-z][a-z0-9:-]*)[^>]*>|&(#x[0-9a-f]{1,6}|#[0-9]{1,7}|[a-z]+);",
    )
    .expect("the expression is a constant")
});

/// A replacement of characters.
#[derive(Debug)]
pub(super) enum CharacterStep {
    /// Elements of HTML are left out, but those with these names, and entities become their characters.
    Html { kept: Vec<String> },
    /// Texts become others.
    Mapped { keys: Regex, by: HashMap<String, String> },
    /// Replacement of matches of an expression by a text.
    Replaced { pattern: Regex, replacement: String },
}

impl CharacterStep {
    /// The step of a character filter; `None` if it is passed over, which is noted.
    ///
    /// # Errors
    /// There is no such filter, or its definition is malformed.
    pub(super) fn of(part: &AnalysisPart, notes: &mut Vec<String>) -> Result<Option<Self>, Error> {
        match part.kind() {
            "html_strip" => Ok(Some(CharacterStep::Html { kept: part.texts("escaped_tags") })),
            "mapping" => {
                if part.has("mappings_path") {
                    part.note("has its mappings in a file, and is passed over", notes);
                    return Ok(None);
                }
                mapped(part)
            }
            "pattern_replace" => {
                let made = part.replacement(notes)?;
                Ok(made.map(|(pattern, replacement)| CharacterStep::Replaced { pattern, replacement }))
            }
            "icu_normalizer" | "kuromoji_iteration_mark" => {
                part.note("is passed over", notes);
                Ok(None)
            }
            _ => Err(part.unknown()),
        }
    }

    /// Number of its own compiled expressions; one of many keys counts for several.
    pub(super) fn expressions(&self) -> usize {
        match self {
            CharacterStep::Html { .. } => 0,
            CharacterStep::Mapped { .. } => KEYS_BYTES_MAX / REGEX_BYTES_MAX,
            CharacterStep::Replaced { .. } => 1,
        }
    }

    /// Places of a text, in their order, with what comes there instead.
    fn replacements<'t>(&'t self, text: &'t str) -> Box<dyn Iterator<Item = (Range<usize>, String)> + 't> {
        match self {
            CharacterStep::Html { kept } => {
                Box::new(HTML.captures_iter(text).filter_map(move |found| html(&found, kept)))
            }
            CharacterStep::Mapped { keys, by } => {
                let found = keys.find_iter(text);
                Box::new(
                    found.map(move |key| (key.range(), by.get(key.as_str()).cloned().unwrap_or_default())),
                )
            }
            CharacterStep::Replaced { pattern, replacement } => {
                let one = move |found: Captures<'_>| {
                    let mut written = String::new();
                    found.expand(replacement, &mut written);
                    Some((found.get(0)?.range(), written))
                };
                Box::new(pattern.captures_iter(text).filter_map(one))
            }
        }
    }
}

/// The step of a mapping of texts to others.
fn mapped(part: &AnalysisPart) -> Result<Option<CharacterStep>, Error> {
    let mut by = HashMap::new();
    for rule in part.texts("mappings") {
        let Some((key, value)) = rule.split_once("=>") else {
            return Err(part.refusal(&format!("Invalid Mapping Rule : [{rule}], a rule is [text => other]")));
        };
        let (key, value) = (unescaped(key.trim()), unescaped(value.trim()));
        if key.is_empty() || value.len() > SIDE_BYTES_MAX {
            let reason = format!("Invalid Mapping Rule : [{rule}], a side is empty or has over 1,000 bytes");
            return Err(part.refusal(&reason));
        }
        by.insert(key, value);
    }
    if by.is_empty() {
        return Err(part.refusal("mapping requires either `mappings` or `mappings_path` to be configured"));
    }
    // Of several keys at one place the longest counts.
    let mut keys: Vec<&String> = by.keys().collect();
    keys.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
    let keys: Vec<String> = keys.into_iter().map(|key| regex::escape(key)).collect();
    let mut builder = regex::RegexBuilder::new(&keys.join("|"));
    match builder.size_limit(KEYS_BYTES_MAX).dfa_size_limit(KEYS_BYTES_MAX).build() {
        Ok(keys) => Ok(Some(CharacterStep::Mapped { keys, by })),
        Err(_) => Err(part.refusal("[mappings] are too many or too long")),
    }
}

/// A side of a mapping, in which `\u0041` is a letter and `\x` the letter itself.
fn unescaped(text: &str) -> String {
    let (mut written, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('\\') {
        written.push_str(before);
        let code = after.strip_prefix('u').and_then(|hex| hex.get(..4));
        let letter = code.and_then(|hex| char::from_u32(u32::from_str_radix(hex, 16).ok()?));
        rest = match (letter, after.chars().next()) {
            (Some(letter), _) => {
                written.push(letter);
                &after[5..]
            }
            (None, Some(letter)) => {
                let named = match letter {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                };
                written.push(named);
                &after[letter.len_utf8()..]
            }
            (None, None) => "",
        };
    }
    written + rest
}

/// Place of an element or an entity of HTML, with what comes there instead.
fn html(found: &Captures<'_>, kept: &[String]) -> Option<(Range<usize>, String)> {
    let place = found.get(0)?.range();
    if let Some(entity) = found.get(2) {
        let name = entity.as_str();
        let code = match name.strip_prefix('#') {
            Some(code) => match code.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => code.parse().ok(),
            },
            None => {
                let known = ENTITIES.iter().find(|(known, _)| *known == name);
                return known.map(|(_, letter)| (place, (*letter).to_owned()));
            }
        };
        return code.and_then(char::from_u32).map(|letter| (place, letter.to_string()));
    }
    let element = found.get(1).map(|name| name.as_str().to_ascii_lowercase());
    match element {
        Some(name) if kept.contains(&name) => None,
        Some(name) if INLINE.contains(&name.as_str()) => Some((place, String::new())),
        _ => Some((place, "\n".to_owned())),
    }
}

/// A text whose characters were replaced, with the places of its parts in the text as it was.
pub(super) struct ReplacedText {
    pub(super) text: String,
    /// Parts after each step, with their places before it.
    steps: Vec<Vec<TextPart>>,
}

/// Part of a text after a step.
struct TextPart {
    new: Range<usize>,
    old: Range<usize>,
    is_same: bool,
}

impl ReplacedText {
    /// A text as it is.
    pub(super) fn of(text: &str) -> Self {
        ReplacedText { text: text.to_owned(), steps: Vec::new() }
    }

    /// Replaces characters.
    pub(super) fn apply(&mut self, step: &CharacterStep) {
        let (mut text, mut parts, mut from) = (String::with_capacity(self.text.len()), Vec::new(), 0);
        let mut left = PARTS_MAX.saturating_sub(self.steps.iter().map(Vec::len).sum()) / 2;
        let mut add = |text: &mut String, old: Range<usize>, written: &str, is_same: bool| {
            let start = text.len();
            text.push_str(written);
            parts.push(TextPart { new: start..text.len(), old, is_same });
        };
        for (place, written) in step.replacements(&self.text) {
            // The rest stays as it is.
            if left == 0 || text.len() > self.text.len() + GROWTH_MAX {
                break;
            }
            left -= 1;
            add(&mut text, from..place.start, &self.text[from..place.start], true);
            from = place.end;
            add(&mut text, place, &written, false);
        }
        add(&mut text, from..self.text.len(), &self.text[from..], true);
        self.steps.push(parts);
        self.text = text;
    }

    /// Place in the text as it was of one in the text as it is.
    pub(super) fn span(&self, span: Range<usize>) -> Range<usize> {
        self.steps.iter().rev().fold(span, |span, parts| {
            let start = parts.partition_point(|part| part.new.end <= span.start);
            let start = parts.get(start).map_or(span.start, |part| match part.is_same {
                true => part.old.start + (span.start - part.new.start),
                false => part.old.start,
            });
            let end = parts.partition_point(|part| part.new.end < span.end);
            let end = parts.get(end).map_or(span.end, |part| match part.is_same {
                true => part.old.start + (span.end - part.new.start),
                false => part.old.end,
            });
            start..end.max(start)
        })
    }
}
