//! Analyzers by their names: those that all indexes have, and those that the settings of an index define.
//!
//! An analyzer that has parts which there are not here is the nearest one: templates of shippers name them,
//! and none is refused for that. The differences are noted, and shown to clients.

mod characters;
mod filters;
mod parts;
mod steps;
mod stop_words;
mod synonyms;
mod tokenizers;
mod word_steps;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{LazyLock, OnceLock};

use serde_json::{Map, Value};

use self::characters::CharacterStep;
use self::filters::language_of;
use self::parts::{AnalysisPart, PartGroup, REGEX_BYTES_MAX};
use self::steps::AnalyzerSteps;
pub(crate) use self::steps::SharedSteps;
use self::tokenizers::TextSplitter;
use self::word_steps::{WordChange, WordStep};
use crate::Error;
use crate::mapping::all_fields;
use crate::text_division::TextDivision;

/// Parameters of fields that name analyzers.
pub(crate) const ANALYZER_PARAMETERS: [&str; 3] = ["analyzer", "search_analyzer", "search_quote_analyzer"];

/// Analyzers that the settings of an index define, at most: making one can take milliseconds.
const ANALYZERS_MAX: usize = 200;

/// Filters of one analyzer, at most.
const FILTERS_MAX: usize = 50;

/// Bytes that the analyzers of an index take, about, and at most.
const BYTES_MAX: usize = 32 << 20;

/// Name of the analyzer of texts whose field names none, if settings define it.
const DEFAULT: &str = "default";

/// Analyzers of languages.
const LANGUAGES: [&str; 37] = [
    "arabic",
    "armenian",
    "basque",
    "bengali",
    "brazilian",
    "bulgarian",
    "catalan",
    "cjk",
    "czech",
    "danish",
    "dutch",
    "english",
    "estonian",
    "finnish",
    "french",
    "galician",
    "german",
    "greek",
    "hindi",
    "hungarian",
    "indonesian",
    "irish",
    "italian",
    "latvian",
    "lithuanian",
    "norwegian",
    "persian",
    "portuguese",
    "romanian",
    "russian",
    "serbian",
    "snowball",
    "sorani",
    "spanish",
    "swedish",
    "thai",
    "turkish",
];

/// Analyzers of plugins, which divide texts as the one of all texts here.
const OF_PLUGINS: [&str; 6] = ["icu_analyzer", "kuromoji", "nori", "polish", "smartcn", "ukrainian"];

/// Analyzers that there are without a definition, and need steps.
static BUILT_IN: LazyLock<BTreeMap<&'static str, TextDivision>> = LazyLock::new(|| {
    let names = ["stop", "pattern", "fingerprint"].into_iter().chain(LANGUAGES).chain(OF_PLUGINS);
    let made = names.filter_map(|name| {
        let part = AnalysisPart::built_in(PartGroup::Analyzer, name);
        Some((name, division_of(&part, &BTreeMap::new(), &mut Vec::new()).ok()?))
    });
    made.collect()
});

/// The analyzer of a name that needs no definition.
fn built_in(name: &str) -> Option<TextDivision> {
    match name {
        "standard" | DEFAULT => Some(TextDivision::Words),
        "simple" => Some(TextDivision::Letters),
        "whitespace" => Some(TextDivision::Blanks),
        "keyword" => Some(TextDivision::Whole),
        other => BUILT_IN.get(other).cloned(),
    }
}

/// Analyzers of an index.
#[derive(Debug, Default)]
pub(crate) struct IndexAnalyzers {
    /// Settings of the index that define analyzers and their parts.
    settings: BTreeMap<String, Value>,
    /// Defined analyzers, made when one is first needed.
    made: OnceLock<BTreeMap<String, TextDivision>>,
}

impl IndexAnalyzers {
    /// Analyzers of an index with settings.
    pub(crate) fn of(settings: &BTreeMap<String, Value>) -> Self {
        let own = settings.iter().filter(|(name, _)| name.starts_with("index.analysis."));
        let settings = own.map(|(name, value)| (name.clone(), value.clone())).collect();
        IndexAnalyzers { settings, made: OnceLock::new() }
    }

    fn defined(&self) -> &BTreeMap<String, TextDivision> {
        self.made.get_or_init(|| {
            let names = PartGroup::Analyzer.defined(&self.settings).into_iter().take(ANALYZERS_MAX);
            let mut bytes = 0;
            // One that cannot be made is left out, as are those after too many: an earlier version took them.
            let made = names.map_while(|name| {
                let division = made(&name, &self.settings, &mut Vec::new()).ok();
                bytes += division.as_ref().map_or(0, bytes_of);
                (bytes <= BYTES_MAX).then_some(division.map(|division| (name, division)))
            });
            made.flatten().collect()
        })
    }

    /// Division by the name of an analyzer; `None` if there is no such analyzer.
    pub(crate) fn named(&self, name: &str) -> Option<TextDivision> {
        self.defined().get(name).cloned().or_else(|| built_in(name))
    }

    /// Division by the name of an analyzer that a request has.
    ///
    /// # Errors
    /// There is no such analyzer.
    pub(crate) fn of_request(&self, name: &str) -> Result<TextDivision, Error> {
        self.named(name).ok_or_else(|| {
            Error::IllegalArgument(format!(
                "analyzer [{name}] not found: the settings do not define it, and it is not one that all indexes have"
            ))
        })
    }

    /// Division of texts by the first analyzer that there is, of a field's or of defined ones.
    fn first<'n>(&self, names: impl IntoIterator<Item = Option<&'n str>>) -> TextDivision {
        names.into_iter().flatten().find_map(|name| self.named(name)).unwrap_or_default()
    }

    /// Name of a defined analyzer.
    fn if_defined<'n>(&self, name: &'n str) -> Option<&'n str> {
        self.defined().contains_key(name).then_some(name)
    }

    /// Division of the texts of a field.
    pub(crate) fn of_field(&self, definition: &Map<String, Value>) -> TextDivision {
        self.first([text(definition, "analyzer"), Some(DEFAULT)])
    }

    /// Division of the texts that a field is searched for.
    pub(crate) fn of_search(&self, definition: &Map<String, Value>) -> TextDivision {
        let own = [text(definition, "search_analyzer"), text(definition, "analyzer")];
        self.first(own.into_iter().chain([self.if_defined("default_search"), Some(DEFAULT)]))
    }

    /// Division of the phrases that a field is searched for.
    pub(crate) fn of_phrases(&self, definition: &Map<String, Value>) -> TextDivision {
        let own = ANALYZER_PARAMETERS.into_iter().rev().map(|name| text(definition, name));
        let defined = [self.if_defined("default_search_quoted"), self.if_defined("default_search")];
        self.first(own.chain(defined).chain([Some(DEFAULT)]))
    }
}

/// Bytes that an analyzer takes, about, and at most.
fn bytes_of(division: &TextDivision) -> usize {
    match division {
        TextDivision::Steps(steps) => steps.bytes(),
        TextDivision::Words | TextDivision::Letters | TextDivision::Blanks | TextDivision::Whole => 0,
    }
}

/// Checks what the analyzers of an index, or the steps of one, take.
fn check_bytes(bytes: usize) -> Result<(), Error> {
    match bytes > BYTES_MAX {
        true => Err(Error::IllegalArgument(format!(
            "[index.analysis] has analyzers that take {bytes} bytes, and may have {BYTES_MAX}: each expression counts \
             {REGEX_BYTES_MAX}, and each list of words once for each analyzer that has it; leave out those that no field names"
        ))),
        false => Ok(()),
    }
}

/// A member of the definition of a field.
fn text<'d>(definition: &'d Map<String, Value>, member: &str) -> Option<&'d str> {
    definition.get(member).and_then(Value::as_str)
}

/// Checks the analyzers that settings define, by all settings of their index.
///
/// # Errors
/// The definition of one is malformed, or names a part that there is not; there are too many.
pub(crate) fn check(
    given: &BTreeMap<String, Value>,
    settings: &BTreeMap<String, Value>,
) -> Result<(), Error> {
    let (names, all) = (PartGroup::Analyzer.defined(given), PartGroup::Analyzer.defined(settings));
    if names.is_empty() {
        return Ok(());
    }
    if all.len() > ANALYZERS_MAX {
        return Err(Error::IllegalArgument(format!(
            "[index.analysis] defines {} analyzers, and may define {ANALYZERS_MAX}; leave out those that no field names",
            all.len()
        )));
    }
    let mut bytes = 0;
    for name in all {
        let Some(part) = AnalysisPart::defined(PartGroup::Analyzer, &name, settings) else { continue };
        match division_of(&part, settings, &mut Vec::new()) {
            Ok(division) => bytes += bytes_of(&division),
            Err(error) if names.contains(&name) => return Err(error),
            // An earlier version took it.
            Err(_) => {}
        }
        check_bytes(bytes)?;
    }
    Ok(())
}

/// Checks that there is an analyzer.
///
/// # Errors
/// There is none of the name, or its definition is malformed.
pub(crate) fn check_name(name: &str, settings: &BTreeMap<String, Value>) -> Result<(), Error> {
    made(name, settings, &mut Vec::new()).map(drop)
}

/// Differences of the analyzers that settings define, and that the fields of a mapping name, from those of
/// Elasticsearch.
pub(crate) fn notes(settings: &BTreeMap<String, Value>, mappings: &Map<String, Value>) -> Vec<String> {
    let defined = PartGroup::Analyzer.defined(settings).into_iter().take(ANALYZERS_MAX);
    let mut names: BTreeSet<String> = defined.collect();
    for (_, field) in all_fields(mappings) {
        names.extend(ANALYZER_PARAMETERS.iter().filter_map(|member| text(field, member)).map(str::to_owned));
    }
    let mut notes = Vec::new();
    for name in names {
        let mut own = Vec::new();
        if made(&name, settings, &mut own).is_ok() {
            let of_analyzer = |note: String| match note.starts_with("the analyzer") {
                true => note,
                false => format!("in the analyzer [{name}], {note}"),
            };
            notes.extend(own.into_iter().map(of_analyzer));
        }
    }
    notes
}

/// The division of a request for the words of a text that names its parts.
///
/// # Errors
/// There is none of a name, or a definition is malformed.
pub(crate) fn of_parts(
    body: &Map<String, Value>,
    settings: &BTreeMap<String, Value>,
) -> Result<TextDivision, Error> {
    let listed = |member: &str| match body.get(member) {
        None => Vec::new(),
        Some(Value::Array(parts)) => parts.clone(),
        Some(part) => vec![part.clone()],
    };
    let part = |group: PartGroup, value: &Value| {
        AnalysisPart::of_value(group, value, settings)
            .ok_or_else(|| Error::IllegalArgument(format!("[{value}] is neither a name nor a definition")))
    };
    // Without a tokenizer the text is one word.
    let tokenizer = body.get("tokenizer").cloned().unwrap_or_else(|| "keyword".into());
    let filters = |group, member: &str| {
        listed(member).iter().map(|value| part(group, value)).collect::<Result<Vec<_>, Error>>()
    };
    let parts = PartsOfAnalyzer {
        characters: filters(PartGroup::CharacterFilter, "char_filter")?,
        tokenizer: part(PartGroup::Tokenizer, &tokenizer)?,
        words: filters(PartGroup::WordFilter, "filter")?,
    };
    parts.division(&mut Vec::new())
}

/// The analyzer of a name by the settings of its index.
fn made(
    name: &str,
    settings: &BTreeMap<String, Value>,
    notes: &mut Vec<String>,
) -> Result<TextDivision, Error> {
    match AnalysisPart::defined(PartGroup::Analyzer, name, settings) {
        Some(part) => division_of(&part, settings, notes),
        None if name == DEFAULT => Ok(TextDivision::Words),
        None => division_of(&AnalysisPart::built_in(PartGroup::Analyzer, name), settings, notes),
    }
}

/// The analyzer of a definition.
fn division_of(
    part: &AnalysisPart,
    settings: &BTreeMap<String, Value>,
    notes: &mut Vec<String>,
) -> Result<TextDivision, Error> {
    let lower = || WordStep::Change(WordChange::Lower);
    let mut steps = AnalyzerSteps::of(TextSplitter::simple(TextDivision::Words));
    steps.list_bytes = part.list_bytes();
    check_bytes(steps.list_bytes)?;
    let mut without = "_none_";
    match part.kind() {
        "" | "custom" => return custom(part, settings, notes),
        "simple" => return Ok(TextDivision::Letters),
        "whitespace" => return Ok(TextDivision::Blanks),
        "keyword" => return Ok(TextDivision::Whole),
        "standard" => {
            if let longest @ 1.. = part.number("max_token_length", 255)?
                && longest != 255
            {
                steps.splitter = TextSplitter::Simple { division: TextDivision::Words, longest };
            }
            steps.words.push(lower());
        }
        "stop" => {
            steps.splitter = TextSplitter::simple(TextDivision::Letters);
            steps.words.push(lower());
            without = "_english_";
        }
        "pattern" => {
            if let Some(separators) = part.regex("pattern", r"\W+", notes) {
                steps.splitter = TextSplitter::Separated(separators);
            }
            if part.flag("lowercase", true) {
                steps.words.push(lower());
            }
        }
        "fingerprint" => steps.words.extend([lower(), WordStep::Change(WordChange::Ascii)]),
        kind if LANGUAGES.contains(&kind) => {
            if kind == "english" {
                steps.words.push(WordStep::Change(WordChange::Possessive { has_dots: false }));
                without = "_english_";
            } else {
                without = stop_words::list_of(kind);
            }
            steps.words.push(lower());
        }
        kind if OF_PLUGINS.contains(&kind) => {
            part.note("divides texts as [standard]", notes);
            return Ok(TextDivision::Words);
        }
        _ => return Err(part.unknown()),
    }
    let words = part.stop_words(without, notes);
    if !words.is_empty() {
        steps.words.push(WordStep::Stop { words, ignores_case: false, keeps: false });
    }
    match part.kind() {
        "fingerprint" => {
            let separator = part.text("separator").unwrap_or_else(|| " ".to_owned());
            let most = part.number("max_output_size", 255)?;
            steps.words.push(WordStep::Fingerprint { separator, most });
        }
        kind if LANGUAGES.contains(&kind) => add_stems(part, &mut steps, notes),
        _ => {}
    }
    Ok(steps.division())
}

/// Adds the stems of the analyzer of a language.
fn add_stems(part: &AnalysisPart, steps: &mut AnalyzerSteps, notes: &mut Vec<String>) {
    let own = part.text("language").unwrap_or_else(|| "english".to_owned());
    let language = if part.kind() == "snowball" { own.as_str() } else { part.kind() };
    let protected: HashSet<String> = part.words("stem_exclusion").into_iter().collect();
    if !protected.is_empty() {
        steps.words.push(WordStep::Protect { words: protected, pattern: None, ignores_case: false });
    }
    match language_of(language) {
        Some(stems) => steps.words.push(WordStep::Stem(stems)),
        None => return part.note("has neither stems nor stop words", notes),
    }
    part.note(
        match language {
            "english" => "has the stems of Snowball",
            _ if stop_words::list_of(part.kind()) != "_none_" => "has the stems of Snowball",
            _ => "has the stems of Snowball, and no stop words of its own",
        },
        notes,
    );
}

/// The analyzer of a definition that names its parts.
fn custom(
    part: &AnalysisPart,
    settings: &BTreeMap<String, Value>,
    notes: &mut Vec<String>,
) -> Result<TextDivision, Error> {
    let Some(tokenizer) = part.text("tokenizer") else {
        return Err(part.refusal("must specify either an analyzer type, or a tokenizer"));
    };
    let filters = |group, member: &str| -> Vec<AnalysisPart> {
        part.texts(member).iter().map(|name| AnalysisPart::named(group, name, settings)).collect()
    };
    let parts = PartsOfAnalyzer {
        characters: filters(PartGroup::CharacterFilter, "char_filter"),
        tokenizer: AnalysisPart::named(PartGroup::Tokenizer, &tokenizer, settings),
        words: filters(PartGroup::WordFilter, "filter"),
    };
    parts.division(notes)
}

/// Parts of an analyzer, in the order in which they are applied.
struct PartsOfAnalyzer {
    characters: Vec<AnalysisPart>,
    tokenizer: AnalysisPart,
    words: Vec<AnalysisPart>,
}

impl PartsOfAnalyzer {
    fn division(self, notes: &mut Vec<String>) -> Result<TextDivision, Error> {
        if self.characters.len() + self.words.len() > FILTERS_MAX {
            return Err(Error::IllegalArgument(format!("an analyzer may have {FILTERS_MAX} filters")));
        }
        let (splitter, is_lower) = TextSplitter::of(&self.tokenizer, notes)?;
        let mut steps = AnalyzerSteps::of(splitter);
        let parts = self.characters.iter().chain([&self.tokenizer]).chain(&self.words);
        steps.list_bytes = parts.map(AnalysisPart::list_bytes).sum();
        check_bytes(steps.bytes())?;
        for filter in &self.characters {
            steps.characters.extend(CharacterStep::of(filter, notes)?);
        }
        if is_lower {
            steps.words.push(WordStep::Change(WordChange::Lower));
        }
        for filter in &self.words {
            filters::add(filter, &mut steps, notes)?;
            check_bytes(steps.bytes())?;
        }
        Ok(steps.division())
    }
}
