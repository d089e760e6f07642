//! What a text that is typed does not say itself: the fields of its words, their operator, their options.

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::Error;
use crate::dates::zone_of;
use crate::fields::names_of;
use crate::minimum_match::MinimumMatch;
use crate::query::{MatchOptions, SearchQuery, text_of};
use crate::query_terms::{FuzzyTerms, check_name};

/// A field with the factor of its scores, as in `title^2`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BoostedField {
    pub(crate) name: String,
    pub(crate) boost: f64,
}

impl BoostedField {
    /// Parses the text of a field.
    ///
    /// # Errors
    /// No number after `^`, or a negative one; the name is too long.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        check_name(text)?;
        let Some((name, boost)) = text.split_once('^') else {
            return Ok(BoostedField { name: text.to_owned(), boost: 1.0 });
        };
        match boost.parse::<f64>() {
            Ok(boost) if boost.is_finite() && boost >= 0.0 => {
                Ok(BoostedField { name: name.to_owned(), boost })
            }
            _ => Err(Error::IllegalArgument(format!(
                "the boost of the field [{text}] is not a number of at least 0"
            ))),
        }
    }
}

/// A query with another boost.
pub(super) fn boosted(query: SearchQuery, boost: f64) -> SearchQuery {
    SearchQuery::Named { query: Box::new(query), boost, name: None }
}

/// Search for the words of a text in several fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldsKind {
    /// The best field counts.
    #[default]
    Best,
    /// All fields count.
    Most,
    /// Each word may be in another field.
    Cross,
    Phrase,
    PhrasePrefix,
    /// The last word may go on.
    BoolPrefix,
}

impl FieldsKind {
    /// Parses `type`.
    ///
    /// # Errors
    /// There is no such type.
    pub(crate) fn parse(name: &str) -> Result<Self, Error> {
        Ok(match name {
            "best_fields" => FieldsKind::Best,
            "most_fields" => FieldsKind::Most,
            "cross_fields" => FieldsKind::Cross,
            "phrase" => FieldsKind::Phrase,
            "phrase_prefix" => FieldsKind::PhrasePrefix,
            "bool_prefix" => FieldsKind::BoolPrefix,
            other => {
                return Err(Error::Parsing(format!(
                    "failed to parse [multi_match] query type [{other}]. unknown type."
                )));
            }
        })
    }

    /// Share of the scores of other fields that is added to the best one, unless a query says otherwise.
    pub(crate) fn tie_breaker(self) -> f64 {
        if matches!(self, FieldsKind::Most | FieldsKind::BoolPrefix) { 1.0 } else { 0.0 }
    }

    pub(crate) fn is_phrase(self) -> bool {
        matches!(self, FieldsKind::Phrase | FieldsKind::PhrasePrefix)
    }

    pub(crate) fn is_prefix(self) -> bool {
        matches!(self, FieldsKind::BoolPrefix | FieldsKind::PhrasePrefix)
    }
}

/// Defaults of words without a field or an operator.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextDefaults {
    /// Fields of words; none for all.
    pub(crate) fields: Vec<BoostedField>,
    pub(crate) needs_all: bool,
    /// True if words that do not fit the type of a field match nothing, instead of being an error.
    pub(crate) is_lenient: bool,
    /// Name of the analyzer of words and phrases, in the place of that of their fields.
    pub(crate) analyzer: Option<String>,
    /// Name of the analyzer of phrases, in the place of `analyzer`.
    pub(crate) quote_analyzer: Option<String>,
    /// Places by which the words of a phrase are moved that names no number.
    pub(crate) phrase_slop: usize,
    /// Zone of the dates of ranges.
    pub(crate) zone: Option<TimeZone>,
    /// Terms near to a word that names no number of edits; by its length if it is not given.
    pub(crate) fuzziness: Option<FuzzyTerms>,
    /// Prefix and swaps of all words with edits.
    pub(crate) near: Option<(usize, bool)>,
    /// Number of the clauses, or of the words in one field, that must match.
    pub(crate) minimum: Option<MinimumMatch>,
    pub(crate) kind: FieldsKind,
    pub(crate) tie_breaker: Option<f64>,
    pub(crate) refuses_leading_wildcard: bool,
}

impl TextDefaults {
    /// Parses the members of a query beside its text.
    ///
    /// # Errors
    /// One has a value that it cannot have.
    pub(super) fn of_members(members: &Map<String, Value>) -> Result<Self, Error> {
        let fields = members.get("default_field").or_else(|| members.get("fields"));
        let fields = fields.map(names_of).unwrap_or_default();
        let text = |name: &str| members.get(name).map(text_of);
        let count = |name: &str| match text(name).map(|text| text.parse::<usize>()) {
            None => Ok(None),
            Some(Ok(count)) => Ok(Some(count)),
            Some(Err(_)) => {
                Err(Error::IllegalArgument(format!("[{name}] must be a number that is not negative")))
            }
        };
        let analyzer = |name: &str| -> Result<Option<String>, Error> {
            let named = text(name);
            named.as_deref().map_or(Ok(()), check_name)?;
            Ok(named)
        };
        let is = |name: &str, value: bool| members.get(name) == Some(&Value::Bool(value));
        let zone = |name: String| {
            zone_of(&name).ok_or_else(|| Error::IllegalArgument(format!("Unknown time-zone ID: {name}")))
        };
        let prefix_length = count("fuzzy_prefix_length")?;
        let has_swaps = !is("fuzzy_transpositions", false);
        let tie_breaker = members.get("tie_breaker").map(|value| {
            value.as_f64().ok_or_else(|| Error::Parsing("[tie_breaker] must be a number".to_owned()))
        });
        Ok(TextDefaults {
            fields: fields.iter().map(|field| BoostedField::parse(field)).collect::<Result<_, _>>()?,
            needs_all: text("default_operator").is_some_and(|name| name.eq_ignore_ascii_case("and")),
            is_lenient: is("lenient", true),
            analyzer: analyzer("analyzer")?,
            quote_analyzer: analyzer("quote_analyzer")?,
            phrase_slop: count("phrase_slop")?.unwrap_or(0),
            zone: text("time_zone").map(zone).transpose()?,
            fuzziness: members.get("fuzziness").map(|value| FuzzyTerms::parse(Some(value))).transpose()?,
            near: Some((prefix_length.unwrap_or(0), has_swaps)),
            minimum: text("minimum_should_match").map(|text| MinimumMatch::parse(&text)).transpose()?,
            kind: text("type").map(|name| FieldsKind::parse(&name)).transpose()?.unwrap_or_default(),
            tie_breaker: tie_breaker.transpose()?,
            refuses_leading_wildcard: is("allow_leading_wildcard", false),
        })
    }

    /// Options of words.
    pub(crate) fn options(&self) -> MatchOptions {
        MatchOptions {
            is_lenient: self.is_lenient,
            needs_all: self.needs_all,
            analyzer: self.analyzer.clone(),
            is_phrase: self.kind.is_phrase(),
            is_prefix: self.kind.is_prefix(),
            ..MatchOptions::default()
        }
    }

    /// Options of a phrase, whose words may be moved by some places.
    pub(crate) fn phrase_options(&self, slop: Option<usize>) -> MatchOptions {
        MatchOptions {
            is_phrase: true,
            slop: slop.unwrap_or(self.phrase_slop),
            analyzer: self.quote_analyzer.clone().or_else(|| self.analyzer.clone()),
            ..self.options()
        }
    }

    /// Terms near to a word with so many edits.
    pub(crate) fn near(&self, mut fuzziness: FuzzyTerms) -> FuzzyTerms {
        if let Some(near) = self.near {
            (fuzziness.prefix_length, fuzziness.has_swaps) = near;
        }
        fuzziness
    }

    /// True if words that stand beside each other are looked for together, in one field.
    pub(super) fn joins_words(&self) -> bool {
        let is_one = matches!(self.fields.as_slice(), [only] if !only.name.contains('*'));
        let needs_several = self.needs_all || self.minimum.is_some();
        self.kind.is_phrase() || needs_several && !is_one && self.kind != FieldsKind::Cross
    }

    /// A clause in a field, or in the default fields.
    pub(crate) fn in_fields(&self, field: Option<&str>, make: impl Fn(String) -> SearchQuery) -> SearchQuery {
        let in_default = |field: &BoostedField| match field.boost {
            1.0 => make(field.name.clone()),
            boost => boosted(make(field.name.clone()), boost),
        };
        match (field, self.fields.as_slice()) {
            (Some(field), _) => make(field.to_owned()),
            (None, []) => make("*".to_owned()),
            (None, [only]) => in_default(only),
            (None, several) => SearchQuery::Best {
                queries: several.iter().map(in_default).collect(),
                tie_breaker: self.tie_breaker.unwrap_or(self.kind.tie_breaker()),
            },
        }
    }

    /// A query whose clauses match as often as they must.
    pub(crate) fn with_minimum(&self, query: SearchQuery) -> SearchQuery {
        match query {
            SearchQuery::Bool(mut query) if !query.should.is_empty() && self.minimum.is_some() => {
                query.minimum.clone_from(&self.minimum);
                SearchQuery::Bool(query)
            }
            other => other,
        }
    }
}
