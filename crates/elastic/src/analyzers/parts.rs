//! Definitions of analyzers and of their parts, as settings and requests give them.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::stop_words::{self, ENGLISH};
use crate::Error;
use crate::fields::names_of;
use crate::query::text_of;

/// Memory of a compiled expression of a definition.
pub(super) const REGEX_BYTES_MAX: usize = 256 << 10;

/// Bytes that a word of a list takes beside its letters, about.
const WORD_BYTES: usize = 64;

/// Kind of what settings define by names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartGroup {
    Analyzer,
    Tokenizer,
    WordFilter,
    CharacterFilter,
}

impl PartGroup {
    /// Name of the group in settings.
    fn member(self) -> &'static str {
        match self {
            PartGroup::Analyzer => "analyzer",
            PartGroup::Tokenizer => "tokenizer",
            PartGroup::WordFilter => "filter",
            PartGroup::CharacterFilter => "char_filter",
        }
    }

    /// Name of one of the group in messages.
    fn noun(self) -> &'static str {
        match self {
            PartGroup::Analyzer => "analyzer",
            PartGroup::Tokenizer => "tokenizer",
            PartGroup::WordFilter => "token filter",
            PartGroup::CharacterFilter => "character filter",
        }
    }

    /// Beginning of the settings of all parts of the group.
    fn prefix(self) -> String {
        format!("index.analysis.{}.", self.member())
    }

    /// Names that settings define.
    pub(super) fn defined(self, settings: &BTreeMap<String, Value>) -> Vec<String> {
        let prefix = self.prefix();
        let names = settings.keys().filter_map(|name| name.strip_prefix(&prefix)?.split('.').next());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.dedup();
        names
    }
}

/// Definition of an analyzer or of a part of one: its type with the members.
#[derive(Debug)]
pub(super) struct AnalysisPart {
    group: PartGroup,
    name: String,
    kind: String,
    members: BTreeMap<String, Value>,
}

impl AnalysisPart {
    /// Part that there is without a definition.
    pub(super) fn built_in(group: PartGroup, name: &str) -> Self {
        AnalysisPart { group, name: name.to_owned(), kind: name.to_owned(), members: BTreeMap::new() }
    }

    /// Part that settings define.
    pub(super) fn defined(group: PartGroup, name: &str, settings: &BTreeMap<String, Value>) -> Option<Self> {
        let prefix = format!("{}{name}.", group.prefix());
        let own = settings.range(prefix.clone()..).take_while(|(setting, _)| setting.starts_with(&prefix));
        // A setting that is null is given to be removed.
        let own = own.filter(|(_, value)| !value.is_null());
        let members: BTreeMap<String, Value> =
            own.map(|(setting, value)| (setting[prefix.len()..].to_owned(), value.clone())).collect();
        (!members.is_empty()).then(|| Self::of_members(group, name, members))
    }

    /// Part by its name, or by its definition where it is used.
    pub(super) fn of_value(
        group: PartGroup,
        value: &Value,
        settings: &BTreeMap<String, Value>,
    ) -> Option<Self> {
        match value {
            Value::String(name) => Some(Self::named(group, name, settings)),
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), value.clone()));
                Some(Self::of_members(group, "_anonymous_", members.collect()))
            }
            _ => None,
        }
    }

    /// Part of a name: one that settings define, or else one that there is without.
    pub(super) fn named(group: PartGroup, name: &str, settings: &BTreeMap<String, Value>) -> Self {
        Self::defined(group, name, settings).unwrap_or_else(|| Self::built_in(group, name))
    }

    fn of_members(group: PartGroup, name: &str, members: BTreeMap<String, Value>) -> Self {
        let kind = members.get("type").map(text_of).unwrap_or_default();
        AnalysisPart { group, name: name.to_owned(), kind, members }
    }

    /// Bytes that the lists of words in it take once it is made, about.
    pub(super) fn list_bytes(&self) -> usize {
        let lists = self.members.values().map(|value| {
            let text = text_of(value);
            let words = 1 + text.bytes().filter(|byte| *byte == b',').count();
            2 * text.len() + words * WORD_BYTES
        });
        lists.sum()
    }

    /// Its type; empty if the definition has none.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// A member as text.
    pub(super) fn text(&self, member: &str) -> Option<String> {
        self.members.get(member).map(text_of)
    }

    /// True if a member is there.
    pub(super) fn has(&self, member: &str) -> bool {
        self.members.contains_key(member)
    }

    /// Texts of a member: those of an array, or one.
    pub(super) fn texts(&self, member: &str) -> Vec<String> {
        self.members.get(member).map(names_of).unwrap_or_default()
    }

    /// Words of a member: those of an array, or of a text with commas between.
    pub(super) fn words(&self, member: &str) -> Vec<String> {
        match self.members.get(member) {
            Some(Value::String(text)) => text.split(',').map(|word| word.trim().to_owned()).collect(),
            Some(other) => names_of(other),
            None => Vec::new(),
        }
    }

    /// Words that are left out, by a member with words or the names of lists.
    pub(super) fn stop_words(&self, otherwise: &str, notes: &mut Vec<String>) -> HashSet<String> {
        let is_in_file = self.has("stopwords_path");
        let named = match self.has("stopwords") {
            true => self.words("stopwords"),
            false if is_in_file => Vec::new(),
            false => vec![otherwise.to_owned()],
        };
        if is_in_file {
            self.note("has stop words in a file, which are not left out", notes);
        }
        let mut words = HashSet::new();
        for word in named {
            match word.as_str() {
                "_none_" | "" => {}
                "_english_" => words.extend(ENGLISH.iter().map(|word| (*word).to_owned())),
                list if list.starts_with('_') && list.ends_with('_') && list.len() > 2 => {
                    match stop_words::words_of(list) {
                        Some(of_list) => words.extend(of_list.map(str::to_owned)),
                        None => {
                            self.note(&format!("has the stop words [{list}], which are not left out"), notes);
                        }
                    }
                }
                _ => _ = words.insert(word),
            }
        }
        words
    }

    /// A member that is true or false.
    pub(super) fn flag(&self, member: &str, otherwise: bool) -> bool {
        self.text(member).map_or(otherwise, |flag| flag == "true")
    }

    /// A number.
    ///
    /// # Errors
    /// The member is another text.
    pub(super) fn number(&self, member: &str, otherwise: usize) -> Result<usize, Error> {
        let Some(text) = self.text(member) else { return Ok(otherwise) };
        text.parse().map_err(|_| self.refusal(&format!("[{member}] is [{text}], and has to be a number")))
    }

    /// One character; `None` if the member is missing.
    ///
    /// # Errors
    /// The member has none, or several.
    pub(super) fn letter(&self, member: &str) -> Result<Option<char>, Error> {
        let Some(text) = self.text(member) else { return Ok(None) };
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => Ok(Some(letter)),
            _ => Err(self.refusal(&format!("[{member}] is [{text}], and has to be one character"))),
        }
    }

    /// Lengths between the members `min_gram` and `max_gram`, as far as grams may have them.
    ///
    /// # Errors
    /// One is not a number, or they are in the wrong order.
    pub(super) fn gram_lengths(
        &self,
        longest: usize,
        notes: &mut Vec<String>,
    ) -> Result<RangeInclusive<usize>, Error> {
        let (least, most) = (self.number("min_gram", 1)?, self.number("max_gram", 2)?);
        if least == 0 || least > most {
            let reason = format!("[min_gram] is [{least}], and has to be from 1 to [max_gram] [{most}]");
            return Err(self.refusal(&reason));
        }
        if most > longest {
            self.note(&format!("makes grams of up to {longest} letters"), notes);
        }
        Ok(least.min(longest)..=most.min(longest))
    }

    /// Expression in a member; `None` if it has what expressions here do not have, which is noted.
    pub(super) fn regex(&self, member: &str, otherwise: &str, notes: &mut Vec<String>) -> Option<Regex> {
        let pattern = self.text(member).unwrap_or_else(|| otherwise.to_owned());
        let regex = self.expression(&pattern);
        if regex.is_none() {
            self.note("has an expression that is not understood here, and is passed over", notes);
        }
        regex
    }

    /// An expression with the flags of the part; `None` if it has what expressions here do not have.
    pub(super) fn expression(&self, pattern: &str) -> Option<Regex> {
        regex_of(pattern, &self.text("flags").unwrap_or_default())
    }

    /// Notes a difference from what the part does in Elasticsearch.
    pub(super) fn note(&self, difference: &str, notes: &mut Vec<String>) {
        notes.push(format!("the {} {difference}", self.label()));
    }

    /// Error of a malformed definition.
    pub(super) fn refusal(&self, reason: &str) -> Error {
        Error::IllegalArgument(format!("the {}: {reason}", self.label()))
    }

    /// Error of a name or a type that does not exist.
    pub(super) fn unknown(&self) -> Error {
        let AnalysisPart { group, name, kind, .. } = self;
        let noun = group.noun();
        Error::IllegalArgument(match name == kind {
            true => format!(
                "failed to find global {noun} under [{name}]; docs/elastic.md lists those that there are"
            ),
            false => format!(
                "Unknown {noun} type [{kind}] for [{name}]; docs/elastic.md lists those that there are"
            ),
        })
    }

    fn label(&self) -> String {
        let AnalysisPart { group, name, kind, .. } = self;
        match name == kind || kind.is_empty() {
            true => format!("{} [{name}]", group.noun()),
            false => format!("{} [{name}] of type [{kind}]", group.noun()),
        }
    }
}

/// Compiles an expression of Java with its flags; `None` if it has what expressions here do not have.
fn regex_of(pattern: &str, flags: &str) -> Option<Regex> {
    let mut written = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            written.push(letter);
            continue;
        }
        // There they are about ASCII.
        match letters.next()? {
            'w' => written.push_str("[A-Za-z0-9_]"),
            'W' => written.push_str("[^A-Za-z0-9_]"),
            'd' => written.push_str("[0-9]"),
            'D' => written.push_str("[^0-9]"),
            's' => written.push_str(r"[ \t\n\x0B\f\r]"),
            'S' => written.push_str(r"[^ \t\n\x0B\f\r]"),
            other => written.extend(['\\', other]),
        }
    }
    let has = |flag: &str| flags.split('|').any(|one| one.trim() == flag);
    RegexBuilder::new(&written)
        .case_insensitive(has("CASE_INSENSITIVE"))
        .multi_line(has("MULTILINE"))
        .dot_matches_new_line(has("DOTALL"))
        .ignore_whitespace(has("COMMENTS"))
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
        .ok()
}

/// Bytes that a step may add to a text or a word, at most.
pub(super) const GROWTH_MAX: usize = 1 << 20;

/// Bytes of a replacement, and groups in it, at most.
const REPLACEMENT_BYTES_MAX: usize = 1_000;
const GROUPS_MAX: usize = 8;

impl AnalysisPart {
    /// Expression and replacement of a part; `None` if the expression has what there is not here.
    ///
    /// # Errors
    /// The expression is missing, or the replacement is too long.
    pub(super) fn replacement(&self, notes: &mut Vec<String>) -> Result<Option<(Regex, String)>, Error> {
        let replacement = replacement_of(&self.text("replacement").unwrap_or_default());
        if !self.has("pattern") {
            return Err(self.refusal("[pattern] is missing"));
        }
        if replacement.len() > REPLACEMENT_BYTES_MAX || replacement.matches('$').count() > GROUPS_MAX {
            let reason =
                format!("[replacement] has more than {REPLACEMENT_BYTES_MAX} bytes or {GROUPS_MAX} groups");
            return Err(self.refusal(&reason));
        }
        Ok(self.regex("pattern", "", notes).map(|pattern| (pattern, replacement)))
    }
}

/// A replacement in the form of expressions here.
fn replacement_of(java: &str) -> String {
    let mut written = String::new();
    let mut letters = java.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('$') => written.push_str("$$"),
                other => written.extend(other),
            },
            '$' if letters.peek() == Some(&'{') => written.push('$'),
            '$' => {
                let mut group = String::new();
                while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                    group.push(digit);
                }
                match group.is_empty() {
                    true => written.push_str("$$"),
                    false => written.push_str(&format!("${{{group}}}")),
                }
            }
            other => written.push(other),
        }
    }
    written
}
