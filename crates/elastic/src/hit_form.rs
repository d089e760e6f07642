//! The form of hits in answers.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::fields::{all_at, names_of};
use crate::highlighting::HitHighlighting;
use crate::ignored::ignored;
use crate::mapping::{field_at, type_of};
use crate::query::SearchQuery;
use crate::request::ElasticParameters;
use crate::search::SearchHit;
use crate::shown_fields::{self, RequestedField};
use crate::small_sort::sort_few;
use crate::sort_keys::HitSortKey;
use crate::sorting::HitOrder;
use crate::source::SourceFilter;

/// Names and patterns of `fields` or `stored_fields`: each is compared with each field for each hit.
const FIELDS_MAX: usize = 1_000;

/// Form of the hits in the answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct HitForm {
    pub(crate) shown: Option<SourceFilter>,
    pub(crate) has_version: bool,
    pub(crate) has_seq_no: bool,
    pub(crate) doc_fields: Vec<RequestedField>,
    pub(crate) fields: Vec<RequestedField>,
    pub(crate) stored_fields: Option<Vec<String>>,
    pub(crate) total_as_number: bool,
    pub(crate) total_limit: Option<u64>,
    pub(crate) has_no_total: bool,
    pub(crate) names_parts: bool,
}

/// Error of a total that is asked for as a number, and is counted up to a limit.
pub(crate) fn inexact_total(limit: u64) -> Error {
    Error::IllegalArgument(format!(
        "[rest_total_hits_as_int] cannot be used if the tracking of total hits is not accurate, got {limit}"
    ))
}

impl HitForm {
    /// Reads the parameters of a request.
    pub(crate) fn parameters(&mut self, parameters: &ElasticParameters) -> Result<(), Error> {
        if let Some(shown) = SourceFilter::of_parameters(parameters) {
            self.shown = Some(shown);
        }
        self.has_version |= parameters.flag("version")?.unwrap_or(false);
        self.has_seq_no |= parameters.flag("seq_no_primary_term")?.unwrap_or(false);
        self.total_as_number = parameters.flag("rest_total_hits_as_int")?.unwrap_or(false);
        self.names_parts = parameters.flag("typed_keys")?.unwrap_or(false);
        if let Some(fields) = parameters.list("docvalue_fields") {
            let fields = few("docvalue_fields", fields)?;
            self.doc_fields = fields.into_iter().map(|field| (field, None)).collect();
        }
        if let Some(fields) = parameters.list("stored_fields") {
            self.stored_fields = Some(few("stored_fields", fields)?);
        }
        match parameters.get("track_total_hits") {
            None | Some("true") => {}
            Some("false") => self.has_no_total = true,
            Some(limit) => match limit.parse() {
                Ok(limit) => self.total_limit = Some(limit),
                Err(_) if limit == "-1" => self.has_no_total = true,
                Err(_) => {
                    return Err(Error::IllegalArgument(format!(
                        "[track_total_hits] parameter must be positive or equals to -1, got {limit}"
                    )));
                }
            },
        }
        match self.total_limit.filter(|_| self.total_as_number) {
            Some(limit) => Err(inexact_total(limit)),
            None => Ok(()),
        }
    }

    /// Reads a member of a body; false if it is none of the form.
    pub(crate) fn member(&mut self, name: &str, value: &Value) -> Result<bool, Error> {
        match name {
            "_source" => self.shown = Some(SourceFilter::of_value(value)?),
            "version" => self.has_version = *value == Value::Bool(true),
            "seq_no_primary_term" => self.has_seq_no = *value == Value::Bool(true),
            "docvalue_fields" => self.doc_fields = few(name, formatted(value))?,
            "fields" => self.fields = few(name, formatted(value))?,
            "stored_fields" => self.stored_fields = Some(few(name, names_of(value))?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks that fields are asked for in formats that their types have, and as values if they have some.
    /// Patterns pass over others.
    ///
    /// # Errors
    /// One is not.
    pub(crate) fn check_formats(&self, mappings: &Map<String, Value>) -> Result<(), Error> {
        shown_fields::check_doc_fields(&self.doc_fields, mappings)?;
        for (field, _) in self.fields.iter().filter(|(_, format)| format.is_some()) {
            let kind = field_at(mappings, field).map(|(definition, _)| type_of(definition));
            if let Some(kind) = kind.filter(|kind| !["date", "date_nanos", "date_range"].contains(kind)) {
                return Err(Error::IllegalArgument(format!(
                    "Field [{field}] of type [{kind}] doesn't support formats."
                )));
            }
        }
        Ok(())
    }

    /// A hit as an object.
    pub(crate) fn object(&self, hit: &SearchHit, has_score: bool) -> Value {
        let mut object = Map::new();
        object.insert("_index".to_owned(), hit.index.entry.name.as_str().into());
        object.insert("_id".to_owned(), hit.stored.id.as_str().into());
        if self.has_version {
            object.insert("_version".to_owned(), hit.stored.version.into());
        }
        if self.has_seq_no {
            object.insert("_seq_no".to_owned(), hit.stored.seq_no.into());
            object.insert("_primary_term".to_owned(), 1.into());
        }
        if let Some(place) = &hit.place {
            object.insert("_nested".to_owned(), json!({ "field": place.path, "offset": place.offset }));
        }
        object.insert("_score".to_owned(), if has_score { json!(hit.score) } else { Value::Null });
        if let Some(routing) = &hit.stored.routing {
            object.insert("_routing".to_owned(), routing.as_str().into());
        }
        let passed_over = ignored(&hit.index.entry.mappings, &hit.document, hit.index.is_log());
        if !passed_over.is_empty() {
            object.insert("_ignored".to_owned(), json!(passed_over));
        }
        let has_source = match &self.stored_fields {
            Some(fields) => self.shown.is_some() || fields.iter().any(|field| field == "_source"),
            None => true,
        };
        let shown = self.shown.clone().unwrap_or_default();
        let own = SourceFilter::of_mapping(&hit.index.entry.mappings);
        if has_source && !shown.is_off && own.as_ref().is_none_or(|own| !own.is_off) {
            let document = match &own {
                Some(own) => Cow::Owned(own.apply(&hit.document)),
                None => Cow::Borrowed(&hit.document),
            };
            let of_part = hit
                .place
                .as_ref()
                .and_then(|place| all_at(&document, &place.path).into_iter().find_map(Value::as_object));
            object.insert("_source".to_owned(), Value::Object(shown.apply(of_part.unwrap_or(&document))));
        }
        let mut fields = self.fields_of(hit);
        if let Some((field, value)) = &hit.collapsed {
            fields.insert(field.clone(), json!([value]));
        }
        if !fields.is_empty() {
            object.insert("fields".to_owned(), Value::Object(fields));
        }
        if !hit.matched.is_empty() {
            object.insert("matched_queries".to_owned(), json!(hit.matched));
        }
        if !hit.sort.is_empty() {
            let sort: Vec<Value> = hit.sort.iter().map(HitSortKey::shown).collect();
            object.insert("sort".to_owned(), Value::Array(sort));
        }
        Value::Object(object)
    }

    fn fields_of(&self, hit: &SearchHit) -> Map<String, Value> {
        let mappings = &hit.index.entry.mappings;
        let own = SourceFilter::of_mapping(mappings).filter(|_| !self.fields.is_empty());
        let of_source = match &own {
            Some(own) if own.is_off => Cow::Owned(Map::new()),
            Some(own) => Cow::Owned(own.apply(&hit.document)),
            None => Cow::Borrowed(&hit.document),
        };
        let mut shown = shown_fields::doc_values(&self.doc_fields, mappings, &hit.document);
        shown.extend(shown_fields::values(&self.fields, mappings, &of_source));
        if let Some(names) = &self.stored_fields {
            shown.extend(crate::fields::stored(&hit.index, &hit.document, names));
        }
        shown
    }
}

/// Fields that are asked for by a member of a body, or by a parameter.
fn few<T>(member: &str, fields: Vec<T>) -> Result<Vec<T>, Error> {
    match fields.len() > FIELDS_MAX {
        true => Err(Error::IllegalArgument(format!(
            "[{member}] may have {FIELDS_MAX} names and patterns at most, found {}: use a pattern with a star",
            fields.len()
        ))),
        false => Ok(fields),
    }
}

/// Fields with their formats.
fn formatted(value: &Value) -> Vec<RequestedField> {
    let one = |value: &Value| match value {
        Value::String(field) => Some((field.clone(), None)),
        Value::Object(of) => {
            let format = of.get("format").and_then(Value::as_str).map(str::to_owned);
            Some((of.get("field")?.as_str()?.to_owned(), format))
        }
        _ => None,
    };
    match value {
        Value::Array(all) => all.iter().filter_map(one).collect(),
        other => one(other).into_iter().collect(),
    }
}

/// Order of equal hits: by their indexes, and in each in the order in which they were written. Parts of one
/// document stay in their order in it.
pub(crate) fn tie(hit: &SearchHit) -> (usize, i64, &str) {
    (hit.ordinal, hit.stored.seq_no, hit.stored.id.as_str())
}

/// A page of hits inside of an answer: the best of a bucket, or of a group.
#[derive(Debug, Clone)]
pub(crate) struct InnerHits {
    from: usize,
    size: usize,
    order: Option<HitOrder>,
    tracks_scores: bool,
    form: HitForm,
    highlighting: Option<HitHighlighting>,
}

impl InnerHits {
    /// Parses the members of a page.
    ///
    /// # Errors
    /// One is malformed or unknown.
    pub(crate) fn parse(members: &Map<String, Value>) -> Result<Self, Error> {
        let mut page = InnerHits {
            from: 0,
            size: 3,
            order: None,
            tracks_scores: false,
            form: HitForm::default(),
            highlighting: None,
        };
        for (name, value) in members {
            let number = || {
                value.as_u64().map(|number| number as usize).ok_or_else(|| {
                    Error::IllegalArgument(format!("[{name}] must be a whole number that is not negative"))
                })
            };
            match name.as_str() {
                "from" => page.from = number()?,
                "size" => page.size = number()?,
                "sort" => page.order = HitOrder::parse(value)?,
                "name" | "ignore_unmapped" => {}
                "track_scores" => page.tracks_scores = *value == Value::Bool(true),
                "highlight" => {
                    let highlighting = HitHighlighting::parse(value)?;
                    if highlighting.pattern_bytes() > 0 {
                        // The memory of the search counts those of its own parts.
                        return Err(Error::unsupported("a [regexp] in [highlight_query] of a page of hits"));
                    }
                    page.highlighting = Some(highlighting);
                }
                _ if page.form.member(name, value)? => {}
                other => return Err(Error::unknown(&format!("unknown key [{other}] in a page of hits"))),
            }
        }
        Ok(page)
    }

    /// Number of hits up to the end of the page.
    pub(crate) fn reach(&self) -> usize {
        self.from.saturating_add(self.size)
    }

    /// Fields of the order; `None` if the page shows scores, or its order depends on more than fields and
    /// sequence numbers.
    pub(crate) fn order_fields(&self) -> Option<Vec<&str>> {
        let order = self.order.as_ref().filter(|order| !self.tracks_scores && order.is_known())?;
        Some(order.fields().collect())
    }

    /// Keys of a hit in the order of the page.
    ///
    /// # Errors
    /// A filter of the order does not fit the hit.
    fn keys(&self, hit: &SearchHit) -> Result<Vec<HitSortKey>, Error> {
        self.order.as_ref().map_or(Ok(Vec::new()), |order| order.keys(hit))
    }

    /// Positions of the hits that the page reaches, of some.
    ///
    /// # Errors
    /// A filter of the order does not fit a hit.
    pub(crate) fn reached(&self, hits: &[SearchHit]) -> Result<Vec<usize>, Error> {
        let keyed = hits.iter().enumerate().map(|(at, hit)| Ok::<_, Error>((self.keys(hit)?, at)));
        let mut keyed = keyed.collect::<Result<Vec<(Vec<HitSortKey>, usize)>, Error>>()?;
        sort_few(&mut keyed, |left, right| {
            let (one, other) = (&hits[left.1], &hits[right.1]);
            let by_order = match &self.order {
                Some(order) => order.compare(&left.0, &right.0),
                None => other.score.total_cmp(&one.score),
            };
            by_order.then_with(|| tie(one).cmp(&tie(other)))
        });
        Ok(keyed.into_iter().take(self.reach()).map(|(_, at)| at).collect())
    }

    /// Hits in the order of the page.
    ///
    /// # Errors
    /// A filter of the order does not fit a hit.
    pub(crate) fn ordered(&self, hits: &[SearchHit]) -> Result<Vec<SearchHit>, Error> {
        let keyed = hits.iter().map(|hit| Ok::<_, Error>((self.keys(hit)?, hit.clone())));
        let mut keyed = keyed.collect::<Result<Vec<(Vec<HitSortKey>, SearchHit)>, Error>>()?;
        sort_few(&mut keyed, |left, right| {
            let by_order = match &self.order {
                Some(order) => order.compare(&left.0, &right.0),
                None => right.1.score.total_cmp(&left.1.score),
            };
            by_order.then_with(|| tie(&left.1).cmp(&tie(&right.1)))
        });
        Ok(keyed.into_iter().map(|(_, hit)| hit).collect())
    }

    /// The page of some hits, which `query` has found.
    ///
    /// # Errors
    /// A filter of the order does not fit a hit.
    pub(crate) fn of(
        &self,
        hits: &[&SearchHit],
        total_as_number: bool,
        query: &SearchQuery,
    ) -> Result<Value, Error> {
        let total = match total_as_number {
            true => json!(hits.len()),
            false => json!({ "value": hits.len(), "relation": "eq" }),
        };
        let keyed = hits.iter().map(|hit| Ok::<_, Error>((self.keys(hit)?, *hit)));
        let mut keyed = keyed.collect::<Result<Vec<(Vec<HitSortKey>, &SearchHit)>, Error>>()?;
        sort_few(&mut keyed, |left, right| {
            let by_order = match &self.order {
                Some(order) => order.compare(&left.0, &right.0),
                None => right.1.score.total_cmp(&left.1.score),
            };
            by_order.then_with(|| tie(left.1).cmp(&tie(right.1)))
        });
        let has_scores = self.tracks_scores || self.order.as_ref().is_none_or(HitOrder::is_by_score);
        let best = hits.iter().map(|hit| hit.score).reduce(f64::max).filter(|_| has_scores);
        let mut highlighter = self.highlighting.as_ref().map(|requested| requested.highlighter(query));
        let page = keyed.into_iter().skip(self.from).take(self.size).map(|(keys, hit)| {
            let hit = SearchHit { sort: keys, ..hit.clone() };
            let mut object = self.form.object(&hit, has_scores);
            if let Some(highlighted) = highlighter.as_mut().and_then(|highlighter| highlighter.of(&hit)) {
                object["highlight"] = highlighted;
            }
            object
        });
        let page: Vec<Value> = page.collect();
        Ok(json!({ "total": total, "max_score": best, "hits": page }))
    }
}
