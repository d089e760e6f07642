//! Sources of intervals, parsed.

use serde_json::{Map, Value};

use super::{IntervalOrder, IntervalRelation, IntervalSource, check_number};
use crate::Error;
use crate::query::text_of;
use crate::query_scope::ParseScope;
use crate::query_terms::{FuzzyTerms, check_wildcard};
use crate::regexp_signs::RegexpSigns;

/// Members of each kind of source.
const MEMBERS: [(&str, &[&str]); 7] = [
    ("match", &["query", "max_gaps", "mode", "ordered", "analyzer", "filter"]),
    ("prefix", &["prefix"]),
    ("wildcard", &["pattern", "max_expansions"]),
    ("regexp", &["pattern", "case_insensitive", "max_expansions"]),
    ("fuzzy", &["term", "prefix_length", "transpositions", "fuzziness"]),
    ("all_of", &["intervals", "max_gaps", "mode", "ordered", "filter"]),
    ("any_of", &["intervals", "filter"]),
];

/// Relations of filters.
const RELATIONS: [(&str, IntervalRelation, bool); 8] = [
    ("containing", IntervalRelation::Containing, false),
    ("not_containing", IntervalRelation::Containing, true),
    ("contained_by", IntervalRelation::ContainedBy, false),
    ("not_contained_by", IntervalRelation::ContainedBy, true),
    ("overlapping", IntervalRelation::Overlapping, false),
    ("not_overlapping", IntervalRelation::Overlapping, true),
    ("before", IntervalRelation::Before, false),
    ("after", IntervalRelation::After, false),
];

impl IntervalSource {
    /// Parses a source: an object with the name of its kind.
    ///
    /// # Errors
    /// It is malformed, of a kind that there is not, or has members that are not known.
    pub(crate) fn parse(source: &Map<String, Value>, scope: ParseScope<'_>) -> Result<Self, Error> {
        let mut kinds = source.iter().filter(|(name, _)| !["boost", "_name"].contains(&name.as_str()));
        let (Some((kind, members)), None) = (kinds.next(), kinds.next()) else {
            return Err(Error::Parsing("[intervals] needs one rule, such as [match] or [all_of]".to_owned()));
        };
        let Some((kind, known)) = MEMBERS.iter().find(|(name, _)| name == kind) else {
            let names: Vec<&str> = MEMBERS.iter().map(|(name, _)| *name).collect();
            return Err(Error::Parsing(format!(
                "Unknown interval type [{kind}], expecting one of [{}]",
                names.join(", ")
            )));
        };
        let Value::Object(members) = members else {
            return Err(Error::Parsing(format!("[{kind}] of [intervals] must be an object")));
        };
        if let Some(unknown) = members.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(Error::Parsing(format!("[{kind}] of [intervals] does not support [{unknown}]")));
        }
        let scope = scope.deeper()?;
        let source = Self::of_kind(kind, members, scope)?;
        match members.get("filter") {
            Some(Value::Object(filter)) => source.filtered(filter, scope),
            Some(_) => Err(Error::Parsing("[filter] of [intervals] must be an object".to_owned())),
            None => Ok(source),
        }
    }

    fn of_kind(kind: &str, members: &Map<String, Value>, scope: ParseScope<'_>) -> Result<Self, Error> {
        let text = |name: &str| {
            let value = members.get(name).filter(|value| !value.is_object() && !value.is_array());
            value
                .map(text_of)
                .ok_or_else(|| Error::Parsing(format!("[{kind}] of [intervals] needs [{name}]")))
        };
        let is_set = |name: &str| members.get(name) == Some(&Value::Bool(true));
        Ok(match kind {
            "match" => IntervalSource::Words {
                text: text("query")?,
                analyzer: members.get("analyzer").map(text_of),
                order: order_of(members)?,
                gaps_max: gaps_of(members)?,
            },
            "prefix" => IntervalSource::Prefix(text("prefix")?),
            "wildcard" => {
                let pattern = text("pattern")?;
                check_wildcard(&pattern)?;
                IntervalSource::Wildcard(pattern)
            }
            "regexp" => {
                let ignores_case = is_set("case_insensitive");
                IntervalSource::Regexp(scope.pattern(&text("pattern")?, RegexpSigns::ALL, ignores_case)?)
            }
            "fuzzy" => {
                let mut fuzziness = FuzzyTerms::parse(members.get("fuzziness"))?;
                if let Some(length) = members.get("prefix_length") {
                    let number = length.as_u64().ok_or_else(|| {
                        Error::Parsing(format!(
                            "[prefix_length] of [intervals] is not a number of letters: {length}"
                        ))
                    })?;
                    fuzziness.prefix_length = number as usize;
                }
                fuzziness.has_swaps = members.get("transpositions") != Some(&Value::Bool(false));
                IntervalSource::Fuzzy(text("term")?, fuzziness)
            }
            "all_of" => IntervalSource::All {
                sources: sources_of(kind, members, scope)?,
                order: order_of(members)?,
                gaps_max: gaps_of(members)?,
            },
            _ => IntervalSource::Any(sources_of(kind, members, scope)?),
        })
    }

    /// The stretches of a source that a filter keeps.
    fn filtered(self, filter: &Map<String, Value>, scope: ParseScope<'_>) -> Result<Self, Error> {
        let mut relations = filter.iter();
        let (Some((name, by)), None) = (relations.next(), relations.next()) else {
            return Err(Error::Parsing("[filter] of [intervals] needs one relation".to_owned()));
        };
        let Some((_, relation, is_negated)) = RELATIONS.iter().find(|(known, ..)| known == name) else {
            let names: Vec<&str> = RELATIONS.iter().map(|(name, ..)| *name).collect();
            return Err(Error::Parsing(format!(
                "[filter] of [intervals] does not support [{name}]; there are [{}]",
                names.join(", ")
            )));
        };
        let Value::Object(by) = by else {
            return Err(Error::Parsing(format!("[{name}] of [intervals] must be an object")));
        };
        Ok(IntervalSource::Filtered {
            source: Box::new(self),
            relation: *relation,
            is_negated: *is_negated,
            by: Box::new(IntervalSource::parse(by, scope)?),
        })
    }

    /// Bytes that its regular expressions take, about.
    pub(crate) fn pattern_bytes(&self) -> usize {
        match self {
            IntervalSource::Regexp(pattern) => pattern.bytes(),
            IntervalSource::All { sources, .. } | IntervalSource::Any(sources) => {
                sources.iter().map(IntervalSource::pattern_bytes).sum()
            }
            IntervalSource::Filtered { source, by, .. } => source.pattern_bytes() + by.pattern_bytes(),
            IntervalSource::Words { .. }
            | IntervalSource::Prefix(_)
            | IntervalSource::Wildcard(_)
            | IntervalSource::Fuzzy(..) => 0,
        }
    }
}

fn sources_of(
    kind: &str,
    members: &Map<String, Value>,
    scope: ParseScope<'_>,
) -> Result<Vec<IntervalSource>, Error> {
    let sources = members.get("intervals").and_then(Value::as_array).filter(|sources| !sources.is_empty());
    let Some(sources) = sources else {
        return Err(Error::Parsing(format!("[{kind}] of [intervals] needs an array [intervals]")));
    };
    check_number(sources.len())?;
    let one = |source: &Value| match source {
        Value::Object(source) => IntervalSource::parse(source, scope),
        _ => Err(Error::Parsing(format!("an element of [intervals] of [{kind}] must be an object"))),
    };
    sources.iter().map(one).collect()
}

fn order_of(members: &Map<String, Value>) -> Result<IntervalOrder, Error> {
    match (members.get("mode").map(text_of).as_deref(), members.get("ordered")) {
        (Some("ordered"), _) | (None, Some(Value::Bool(true))) => Ok(IntervalOrder::Ordered),
        (Some("unordered"), _) | (None, None | Some(Value::Bool(false))) => Ok(IntervalOrder::Unordered),
        (Some("unordered_no_overlap"), _) => Ok(IntervalOrder::UnorderedApart),
        (Some(other), _) => Err(Error::Parsing(format!(
            "[mode] of [intervals] is [{other}], and may be [ordered], [unordered] or [unordered_no_overlap]"
        ))),
        (None, Some(other)) => Err(Error::Parsing(format!("[ordered] of [intervals] cannot be [{other}]"))),
    }
}

/// Words that may be between the parts; `None` for any number.
fn gaps_of(members: &Map<String, Value>) -> Result<Option<usize>, Error> {
    match members.get("max_gaps").map(Value::as_i64) {
        None | Some(Some(-1)) => Ok(None),
        Some(Some(gaps)) if gaps >= 0 => Ok(Some(gaps as usize)),
        Some(_) => Err(Error::Parsing("[max_gaps] of [intervals] must be a whole number, or -1".to_owned())),
    }
}
