//! The order of hits.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::Error;
use crate::catalog::OpenIndex;
use crate::dates::DateText;
use crate::evaluation::{FieldValueKind, kind_of};
use crate::fields::all_at;
use crate::hit_scan::searched;
use crate::mapping::{field_at, is_searched, type_of};
use crate::nested::part_hits;
use crate::partitions::TimeSpan;
use crate::query::{self, SearchQuery, text_of};
use crate::search::SearchHit;
use crate::sort_keys::{HitSortKey, SortMode, SortNumber};

/// Order of hits by several keys.
#[derive(Debug, Clone)]
pub(crate) struct HitOrder {
    keys: Vec<HitOrderKey>,
}

#[derive(Debug, Clone)]
struct HitOrderKey {
    field: String,
    is_descending: bool,
    missing: Option<Value>,
    mode: SortMode,
    /// Nested objects whose values it has.
    nested: Option<NestedSort>,
    format: Option<String>,
    /// True if no index has to have the field: its type is named.
    may_be_unmapped: bool,
}

/// Nested objects by whose values hits are ordered.
#[derive(Debug, Clone)]
struct NestedSort {
    path: String,
    /// Query that the objects have to match.
    filter: Option<Arc<SearchQuery>>,
}

impl HitOrder {
    /// Parses `sort`; `None` if it has no keys: hits are then in the order of their scores.
    pub(crate) fn parse(value: &Value) -> Result<Option<Self>, Error> {
        let one = |value: &Value| -> Result<Vec<HitOrderKey>, Error> {
            match value {
                Value::String(field) => Ok(vec![order_key(field, &Map::new())?]),
                Value::Object(fields) => fields
                    .iter()
                    .map(|(field, options)| match options {
                        Value::String(order) => {
                            let mut options = Map::new();
                            options.insert("order".to_owned(), order.as_str().into());
                            order_key(field, &options)
                        }
                        Value::Object(options) => match field.as_str() {
                            "_script" | "_geo_distance" => {
                                Err(Error::unsupported(&format!("a sort by [{field}]")))
                            }
                            _ => order_key(field, options),
                        },
                        _ => Err(Error::Parsing("malformed sort".to_owned())),
                    })
                    .collect(),
                _ => Err(Error::Parsing("malformed sort".to_owned())),
            }
        };
        let keys = match value {
            Value::Array(all) => all.iter().map(one).collect::<Result<Vec<_>, _>>()?.concat(),
            other => one(other)?,
        };
        Ok((!keys.is_empty()).then_some(HitOrder { keys }))
    }

    /// Checks the keys by the mapping of an index.
    ///
    /// # Errors
    /// One has a mode that its field has not, or nested objects that there are not.
    pub(crate) fn check(&self, index: &OpenIndex) -> Result<(), Error> {
        self.keys.iter().try_for_each(|key| key.check(index))
    }

    /// Checks that one of the indexes has the field of each key. Indexes that lack it beside others have
    /// documents without a value.
    ///
    /// # Errors
    /// None has it, and the key has no `unmapped_type`.
    pub(crate) fn check_mapped(&self, indexes: &[OpenIndex]) -> Result<(), Error> {
        let is_lacking = |key: &&HitOrderKey| {
            !key.field.starts_with('_')
                && !key.may_be_unmapped
                && !indexes.is_empty()
                && indexes.iter().all(|index| index.searched_at(&key.field).is_none())
        };
        match self.keys.iter().find(is_lacking) {
            Some(key) => Err(Error::IllegalArgument(format!(
                "No mapping found for [{0}] in order to sort on; name its [unmapped_type] if documents may lack it",
                key.field
            ))),
            None => Ok(()),
        }
    }

    /// Fields of documents that are its keys.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter(|key| key.own_kind().is_none()).map(|key| key.field.as_str())
    }

    /// Number of the first keys that are known before the document of a hit is: the id is not, and the score
    /// if hits have several.
    fn known_count(&self, knows_score: bool) -> usize {
        let is_of_document = |key: &HitOrderKey| match key.field.as_str() {
            "_id" => true,
            "_score" => !knows_score,
            // The objects of a document are compared with the filter as wholes.
            _ => key.filter().is_some(),
        };
        self.keys.iter().position(is_of_document).unwrap_or(self.keys.len())
    }

    /// True if all keys are among these, and scores are not.
    pub(crate) fn is_known(&self) -> bool {
        self.known_count(false) == self.keys.len()
    }

    /// Fields of these keys; `None` if the first key is none of them.
    pub(crate) fn known_fields(&self, knows_score: bool) -> Option<Vec<String>> {
        let known = &self.keys[..self.known_count(knows_score)];
        let fields = known.iter().filter(|key| key.own_kind().is_none()).map(|key| key.field.clone());
        (!known.is_empty()).then(|| fields.collect())
    }

    /// These keys of a hit, and true if there are no others. The hit has its fields and its sequence number,
    /// and its score if that is known.
    pub(crate) fn known_keys(&self, hit: &SearchHit, knows_score: bool) -> (Vec<HitSortKey>, bool) {
        let known = &self.keys[..self.known_count(knows_score)];
        (known.iter().map(|key| key.of(hit)).collect(), known.len() == self.keys.len())
    }

    /// Field that is the first key.
    pub(crate) fn first_field(&self) -> Option<&str> {
        self.keys.first().map(|key| key.field.as_str())
    }

    /// True if the score is a key.
    pub(crate) fn is_by_score(&self) -> bool {
        self.keys.iter().any(|key| key.field == "_score")
    }

    /// True if the best hits come first, and nothing else counts.
    pub(crate) fn is_score_alone(&self) -> bool {
        matches!(self.keys.as_slice(), [key] if key.field == "_score" && key.is_descending)
    }

    /// True if the hits come in the order in which the store has their documents.
    pub(crate) fn is_by_place(&self) -> bool {
        matches!(self.keys.as_slice(), [key] if key.field == "_doc" && !key.is_descending)
    }

    /// Field whose greatest values come first.
    pub(crate) fn first_descending(&self) -> Option<&str> {
        self.keys.first().filter(|key| key.is_descending).map(|key| key.field.as_str())
    }

    /// True if a hit whose values of a date field are in this span can come before one with these keys, or be
    /// equal to it.
    pub(crate) fn can_precede(&self, field: &str, span: TimeSpan, keys: &[HitSortKey]) -> bool {
        let (Some(first), Some(HitSortKey::Date(last, _))) = (self.keys.first(), keys.first()) else {
            return true;
        };
        // Hits without a value come last, unless it says otherwise.
        let is_placed = first.missing.as_ref().is_some_and(|missing| missing != "_last");
        if first.field != field || is_placed {
            return true;
        }
        if first.is_descending { span.1 >= *last } else { span.0 <= *last }
    }

    /// True if a hit whose only value of a date field is this one can come after a hit with these keys, or be
    /// equal to it.
    pub(crate) fn can_follow(&self, field: &str, time: i64, keys: &[HitSortKey]) -> bool {
        match (self.keys.first(), keys.first()) {
            (Some(first), Some(start)) if first.field == field => {
                HitSortKey::Date(time, None).compare(start, first.is_descending) != Ordering::Less
            }
            _ => true,
        }
    }

    /// Keys of a hit.
    ///
    /// # Errors
    /// The filter of a key does not fit an object of the hit.
    pub(crate) fn keys(&self, hit: &SearchHit) -> Result<Vec<HitSortKey>, Error> {
        let of = |key: &HitOrderKey| match key.filter() {
            None => Ok(key.of(hit)),
            Some((path, filter)) => key.of_objects(hit, path, filter),
        };
        self.keys.iter().map(of).collect()
    }

    /// Order of two hits by their keys.
    pub(crate) fn compare(&self, left: &[HitSortKey], right: &[HitSortKey]) -> Ordering {
        let keys = self.keys.iter().zip(left.iter().zip(right));
        keys.fold(Ordering::Equal, |order, (key, (left, right))| {
            order.then_with(|| left.compare(right, key.is_descending))
        })
    }

    /// The order with keys in which no two hits are equal, as far as these do it: the place in an index, and
    /// the index if there are several.
    pub(crate) fn with_ties(mut self, are_several: bool) -> Self {
        let last = self.keys.last().map(|key| key.field.as_str());
        if !matches!(last, Some("_doc" | "_shard_doc")) {
            self.keys.push(HitOrderKey::ascending("_shard_doc"));
        }
        if are_several {
            self.keys.push(HitOrderKey::ascending("_index"));
        }
        self
    }

    /// Keys of `search_after`.
    ///
    /// # Errors
    /// They are more or fewer than the keys of the order, or one is no value of its field.
    pub(crate) fn after(&self, values: &[Value], indexes: &[OpenIndex]) -> Result<Vec<HitSortKey>, Error> {
        if values.len() != self.keys.len() {
            return Err(Error::IllegalArgument(format!(
                "search_after has {} value(s) but sort has {}.",
                values.len(),
                self.keys.len()
            )));
        }
        let of = |(key, value): (&HitOrderKey, &Value)| {
            key.after(value, indexes).ok_or_else(|| {
                Error::IllegalArgument(format!(
                    "Failed to parse search_after value [{value}] for field [{}]; send the values of [sort] of the \
                     last hit as they are",
                    key.field
                ))
            })
        };
        self.keys.iter().zip(values).map(of).collect()
    }
}

fn order_key(field: &str, options: &Map<String, Value>) -> Result<HitOrderKey, Error> {
    // Indexes that lack the field have no value, of any type.
    const KNOWN: [&str; 7] =
        ["order", "mode", "missing", "format", "unmapped_type", "numeric_type", "nested"];
    if let Some(unknown) = options.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(Error::Content(format!("[field_sort] unknown field [{unknown}]")));
    }
    let is_descending = match options.get("order").map(text_of) {
        None => field == "_score",
        Some(order) if order.eq_ignore_ascii_case("desc") => true,
        Some(order) if order.eq_ignore_ascii_case("asc") => false,
        Some(order) => {
            return Err(Error::IllegalArgument(format!(
                "Unknown SortOrder [{order}] of [{field}]; write asc or desc"
            )));
        }
    };
    let mode = match options.get("mode").map(text_of) {
        None if is_descending => SortMode::Most,
        None => SortMode::Least,
        Some(name) => SortMode::parse(&name)
            .ok_or_else(|| Error::IllegalArgument(format!("Unknown SortMode [{name}] of [{field}]")))?,
    };
    Ok(HitOrderKey {
        field: field.to_owned(),
        is_descending,
        missing: options.get("missing").cloned(),
        mode,
        nested: options.get("nested").map(|nested| nested_of(field, nested)).transpose()?,
        format: options.get("format").map(text_of),
        may_be_unmapped: options.contains_key("unmapped_type"),
    })
}

/// Nested objects in which the field of a sort is.
fn nested_of(field: &str, nested: &Value) -> Result<NestedSort, Error> {
    let is_around = |path: &str| field.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    let unsupported =
        |name: &str| Error::unsupported(&format!("[{name}] in [nested] of the sort by [{field}]"));
    let (mut path, mut filter) = (None, None);
    for (name, value) in nested.as_object().into_iter().flatten() {
        match (name.as_str(), value.as_str()) {
            ("path", Some(text)) if is_around(text) => path = Some(text.to_owned()),
            ("nested", _) => {
                if nested_of(field, value)?.filter.is_some() {
                    return Err(unsupported("nested.filter"));
                }
            }
            ("filter", _) => {
                let parsed = query::parse(value)?;
                if parsed.pattern_bytes() > 0 {
                    // There may be many keys, and the memory of the search counts those of its own parts.
                    return Err(unsupported("regexp in filter"));
                }
                filter = Some(Arc::new(parsed));
            }
            ("max_children", _) => return Err(unsupported(name)),
            ("path", _) => {}
            _ => return Err(Error::Content(format!("[nested_sort] unknown field [{name}]"))),
        }
    }
    match path {
        Some(path) => Ok(NestedSort { path, filter }),
        None => Err(Error::IllegalArgument(format!(
            "[nested] of the sort by [{field}] needs the [path] of an object around it"
        ))),
    }
}

impl HitOrderKey {
    fn ascending(field: &str) -> Self {
        HitOrderKey {
            field: field.to_owned(),
            is_descending: false,
            missing: None,
            mode: SortMode::Least,
            nested: None,
            format: None,
            may_be_unmapped: false,
        }
    }

    /// Checks that a field has numbers if its values are computed, and that nested objects are there.
    fn check(&self, index: &OpenIndex) -> Result<(), Error> {
        let mappings = &index.entry.mappings;
        self.filter().map_or(Ok(()), |(_, filter)| filter.check_fields(index))?;
        let type_at = |path: &str| field_at(mappings, path).map(|(definition, _)| type_of(definition));
        let path = self.nested.as_ref().map(|nested| nested.path.as_str());
        if let Some(path) = path.filter(|path| type_at(path).is_some_and(|of| of != "nested")) {
            return Err(Error::IllegalArgument(format!(
                "[nested] failed to find nested object under path [{path}]"
            )));
        }
        let field_type = type_at(&self.field).filter(|_| self.mode.is_computed());
        match field_type.map(|field_type| (field_type, kind_of(field_type))) {
            Some((
                field_type,
                FieldValueKind::Text | FieldValueKind::Keyword | FieldValueKind::Ip | FieldValueKind::Version,
            )) => Err(Error::IllegalArgument(format!(
                "Cannot sort by the sum, average or median of [{}], which is of type [{field_type}]",
                self.field
            ))),
            _ => Ok(()),
        }
    }

    /// Path of nested objects, and the query that these have to match, if there is one.
    fn filter(&self) -> Option<(&str, &SearchQuery)> {
        let nested = self.nested.as_ref()?;
        Some((nested.path.as_str(), nested.filter.as_deref()?))
    }

    /// Kind of what all documents have beside their fields.
    fn own_kind(&self) -> Option<FieldValueKind> {
        match self.field.as_str() {
            "_score" | "_doc" | "_shard_doc" | "_seq_no" => Some(FieldValueKind::Number),
            "_id" | "_index" => Some(FieldValueKind::Keyword),
            _ => None,
        }
    }

    /// Key of a hit, by all of its values.
    fn of(&self, hit: &SearchHit) -> HitSortKey {
        match self.field.as_str() {
            // A score beyond all floats is the largest one.
            "_score" => {
                let score = SortNumber::of_real(hit.score.clamp(f64::MIN, f64::MAX));
                return score.map_or(self.without_value(), HitSortKey::Number);
            }
            "_doc" | "_shard_doc" | "_seq_no" => return HitSortKey::Number(hit.stored.seq_no.into()),
            "_id" => return HitSortKey::Text(hit.stored.id.clone()),
            "_index" => return HitSortKey::Text(hit.index.entry.name.clone()),
            _ => {}
        }
        self.of_values(hit, &[hit.searched_members()])
    }

    /// Key of a hit, by the values of its objects at a path that match a filter.
    ///
    /// # Errors
    /// The filter does not fit an object.
    fn of_objects(&self, hit: &SearchHit, path: &str, filter: &SearchQuery) -> Result<HitSortKey, Error> {
        let mut matching = Vec::new();
        for part in part_hits(hit, path) {
            if searched(&part).score(filter, &mut Vec::new())?.is_some() {
                matching.push(part);
            }
        }
        let documents: Vec<&Map<String, Value>> = matching.iter().map(SearchHit::searched_members).collect();
        Ok(self.of_values(hit, &documents))
    }

    /// Key of a hit, by the values in parts of it.
    fn of_values(&self, hit: &SearchHit, parts: &[&Map<String, Value>]) -> HitSortKey {
        let Some((definition, source_path)) = hit.index.searched_at(&self.field) else {
            return self.missing(None);
        };
        let own_format = definition.get("format").and_then(Value::as_str);
        let kind = kind_of(type_of(definition));
        let key = |value: &Value| match kind {
            FieldValueKind::Date => DateText::parse_value(value, own_format).map(|millis| self.date(millis)),
            _ => HitSortKey::of_kind(value, kind, &[]).map(|key| key.stored_as(type_of(definition))),
        };
        let is_whole = !["double", "float", "half_float", "scaled_float"].contains(&type_of(definition));
        let values = parts.iter().flat_map(|part| all_at(part, &source_path));
        let keys = values.filter(|value| is_searched(definition, value)).filter_map(key);
        let found = self.one_of(keys, is_whole);
        found.unwrap_or_else(|| self.missing(Some((kind, own_format))))
    }

    /// Key of several that a hit has, by the mode; `None` if there are none.
    fn one_of(&self, keys: impl Iterator<Item = HitSortKey>, is_whole: bool) -> Option<HitSortKey> {
        match self.mode {
            mode if mode.is_computed() => match mode.combined(keys.collect(), is_whole) {
                Some(HitSortKey::Date(millis, _)) => Some(self.date(millis)),
                other => other,
            },
            mode => keys.min_by(|left, right| left.compare(right, mode == SortMode::Most)),
        }
    }

    /// Key of a date, as the order shows it.
    fn date(&self, millis: i64) -> HitSortKey {
        let format = self.format.as_deref();
        let shown = format.map(|format| DateText::write(millis, Some(format), &jiff::tz::TimeZone::UTC));
        HitSortKey::Date(millis, shown)
    }

    /// Key of hits that have no value, where no value is named for them.
    fn without_value(&self) -> HitSortKey {
        HitSortKey::Missing(self.missing.as_ref().is_some_and(|missing| missing == "_first"))
    }

    /// Key of hits without a value in a field of a kind with a format, or without the field.
    fn missing(&self, field: Option<(FieldValueKind, Option<&str>)>) -> HitSortKey {
        let Some(named) = self.missing.as_ref().filter(|named| *named != "_first" && *named != "_last")
        else {
            return self.without_value();
        };
        let key = match (field, named) {
            (Some((kind, format)), named) => HitSortKey::of_kind(named, kind, &[format, None]),
            (None, Value::Number(_)) => HitSortKey::of_kind(named, FieldValueKind::Number, &[]),
            (None, named) => HitSortKey::of_kind(named, FieldValueKind::Keyword, &[]),
        };
        match key {
            Some(HitSortKey::Date(millis, _)) => self.date(millis),
            Some(key) => key,
            None => self.without_value(),
        }
    }

    /// Key that a value of `search_after` stands for; `None` if it is no value of the field.
    fn after(&self, value: &Value, indexes: &[OpenIndex]) -> Option<HitSortKey> {
        if value.is_null() {
            return Some(self.without_value());
        }
        if value.is_array() || value.is_object() {
            return None;
        }
        let fields = indexes.iter().filter_map(|index| field_at(&index.entry.mappings, &self.field));
        let fields: Vec<&Map<String, Value>> = fields.map(|(definition, _)| definition).collect();
        let own_formats = fields.iter().map(|field| field.get("format").and_then(Value::as_str));
        let formats: Vec<Option<&str>> =
            std::iter::once(self.format.as_deref()).chain(own_formats).chain([None]).collect();
        let of_fields = fields.iter().map(|field| match kind_of(type_of(field)) {
            FieldValueKind::Text => FieldValueKind::Keyword,
            kind => kind,
        });
        let kinds: Vec<FieldValueKind> = of_fields.chain(self.own_kind()).collect();
        let has = |kind: FieldValueKind| kinds.contains(&kind);
        let read = |kind: FieldValueKind| HitSortKey::of_kind(value, kind, &formats);
        match (kinds.as_slice(), value) {
            ([kind, others @ ..], _) if others.iter().all(|other| other == kind) => read(*kind),
            // No index has the field, or several have it with several types: the value is as answers show it.
            (_, Value::String(_)) => {
                let address = has(FieldValueKind::Ip).then(|| read(FieldValueKind::Ip)).flatten();
                let is_date = has(FieldValueKind::Date) && self.format.is_some();
                let date = || is_date.then(|| read(FieldValueKind::Date)).flatten();
                let is_text = kinds.is_empty() || has(FieldValueKind::Keyword);
                let other = if is_text { FieldValueKind::Keyword } else { FieldValueKind::Number };
                address.or_else(date).or_else(|| read(other))
            }
            _ => read(FieldValueKind::Boolean),
        }
    }
}
