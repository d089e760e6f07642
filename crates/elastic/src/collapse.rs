//! Collapsing: of the hits that share a value of a field, the first alone is shown.

use std::collections::HashMap;

use millrace_plan::QueryMemory;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::OpenIndex;
use crate::fields::all_at;
use crate::hit_form::InnerHits;
use crate::kept_hits::{bytes_inside, take};
use crate::mapping::{field_at, type_of};
use crate::query::text_of;
use crate::search::SearchHit;
use crate::search_request::HitSearch;

/// A field by which hits are collapsed, and pages of the hits behind each that is shown.
#[derive(Debug, Clone)]
pub(crate) struct HitCollapse {
    field: String,
    inner: Vec<CollapsedPage>,
}

/// A page of the hits that share a value.
#[derive(Debug, Clone)]
struct CollapsedPage {
    name: String,
    hits: InnerHits,
    /// Field by which they are collapsed again.
    field: Option<String>,
}

/// Hits of each value, also of those that are not kept.
#[derive(Debug, Default)]
pub(crate) struct CollapsedValues(HashMap<String, CollapsedCount>);

/// Number of the hits that share a value, and their best score.
#[derive(Debug, Clone, Copy)]
struct CollapsedCount {
    hits: usize,
    best: f64,
}

impl HitCollapse {
    /// Parses `collapse`.
    ///
    /// # Errors
    /// A member is malformed or unknown.
    pub(crate) fn parse(value: &Value) -> Result<Self, Error> {
        let Value::Object(members) = value else {
            return Err(Error::Parsing("[collapse] must be an object".to_owned()));
        };
        let mut collapse = HitCollapse { field: field_of(members)?, inner: Vec::new() };
        for (name, value) in members {
            match name.as_str() {
                "field" | "max_concurrent_group_searches" => {}
                "inner_hits" => {
                    let pages: Vec<&Value> = match value {
                        Value::Array(pages) => pages.iter().collect(),
                        page => vec![page],
                    };
                    collapse.inner = pages.into_iter().map(CollapsedPage::parse).collect::<Result<_, _>>()?;
                }
                other => return Err(Error::Parsing(format!("[collapse] unknown field [{other}]"))),
            }
        }
        Ok(collapse)
    }

    /// True if hits behind those that are shown are shown, too.
    pub(crate) fn shows_inner(&self) -> bool {
        !self.inner.is_empty()
    }

    /// True if hits that no page shows can be dropped. Pages that are collapsed again have facts of all hits.
    pub(crate) fn drops_inner(&self) -> bool {
        self.inner.iter().all(|page| page.field.is_none())
    }

    /// Counts a hit. Returns the bytes that its value takes, if it is the first one.
    ///
    /// # Errors
    /// The document has several values of the field.
    pub(crate) fn count(&self, values: &mut CollapsedValues, hit: &SearchHit) -> Result<usize, Error> {
        let key = value_of(&self.field, hit)?.to_string();
        let bytes = size_of::<(String, CollapsedCount)>() + key.len();
        let mut bytes_taken = 0;
        let count = values.0.entry(key).or_insert_with(|| {
            bytes_taken = bytes;
            CollapsedCount { hits: 0, best: hit.score }
        });
        count.hits += 1;
        count.best = count.best.max(hit.score);
        Ok(bytes_taken)
    }

    /// Those of the hits, which are in their order, that are the first of a value, or that a page reaches.
    ///
    /// # Errors
    /// A document has several values of the field.
    pub(crate) fn reached(&self, hits: Vec<SearchHit>) -> Result<Vec<SearchHit>, Error> {
        let mut reached = Vec::new();
        for (_, group) in groups_of(&self.field, hits)? {
            let mut is_reached = vec![false; group.len()];
            is_reached[0] = true;
            for page in &self.inner {
                page.hits.reached(&group)?.into_iter().for_each(|at| is_reached[at] = true);
            }
            let wanted = group.into_iter().zip(is_reached).filter(|(_, is_reached)| *is_reached);
            reached.extend(wanted.map(|(hit, _)| hit));
        }
        Ok(reached)
    }

    /// The first hit of each of the first values, of hits in their order.
    ///
    /// # Errors
    /// A document has several values of the field.
    pub(crate) fn firsts(&self, hits: Vec<SearchHit>, count_max: usize) -> Result<Vec<SearchHit>, Error> {
        let groups = groups_of(&self.field, hits)?.into_iter().take(count_max);
        Ok(groups.filter_map(|(_, group)| group.into_iter().next()).collect())
    }

    /// The first hit of each value, in their order, with the pages of those behind it. If there are pages,
    /// the hits are counted.
    ///
    /// # Errors
    /// The field has texts, a document has several values of it, or there is no memory for the pages.
    pub(crate) fn heads(
        &self,
        hits: Vec<SearchHit>,
        values: &CollapsedValues,
        indexes: &[OpenIndex],
        request: &HitSearch,
        memory: &QueryMemory,
    ) -> Result<Vec<SearchHit>, Error> {
        check_field(&self.field, indexes)?;
        for page in &self.inner {
            page.field.as_ref().map_or(Ok(()), |field| check_field(field, indexes))?;
        }
        let groups = groups_of(&self.field, hits)?;
        let shown = request.from.saturating_add(request.size);
        let mut heads = Vec::new();
        for (at, (key, group)) in groups.into_iter().enumerate() {
            let Some(first) = group.first() else { continue };
            let mut head = first.clone();
            let count = values.0.get(&key.to_string()).copied();
            let count = count.unwrap_or(CollapsedCount { hits: group.len(), best: head.score });
            head.collapsed = Some((self.field.clone(), key));
            if at < shown {
                for page in &self.inner {
                    let hits = page.of(&group, count, request)?;
                    take(memory, page.name.len() + bytes_inside(&hits))?;
                    head.inner.insert(page.name.clone(), json!({ "hits": hits }));
                }
            }
            heads.push(head);
        }
        Ok(heads)
    }
}

impl CollapsedPage {
    fn parse(value: &Value) -> Result<Self, Error> {
        let Value::Object(members) = value else {
            return Err(Error::Parsing("[inner_hits] must be an object".to_owned()));
        };
        let field = match members.get("collapse") {
            None => None,
            Some(Value::Object(collapse)) if collapse.keys().all(|name| name == "field") => {
                Some(field_of(collapse)?)
            }
            Some(_) => {
                return Err(Error::Parsing(
                    "parse_exception: [collapse] of [inner_hits] has a [field] alone".to_owned(),
                ));
            }
        };
        let name = members.get("name").map(text_of).ok_or_else(|| {
            Error::IllegalArgument("inner_hits must have a [name] for the collapse field".to_owned())
        })?;
        let mut members = members.clone();
        members.remove("collapse");
        Ok(CollapsedPage { name, hits: InnerHits::parse(&members)?, field })
    }

    /// The page of some hits that share a value: all that it reaches.
    fn of(&self, group: &[SearchHit], count: CollapsedCount, request: &HitSearch) -> Result<Value, Error> {
        let total_as_number = request.form.total_as_number;
        let page = |hits: &[SearchHit]| {
            self.hits.of(&hits.iter().collect::<Vec<_>>(), total_as_number, &request.query)
        };
        let mut shown = match &self.field {
            None => {
                let mut shown = page(group)?;
                if !shown["max_score"].is_null() {
                    shown["max_score"] = json!(count.best);
                }
                shown
            }
            Some(field) => {
                let mut heads = Vec::new();
                for (key, group) in groups_of(field, self.hits.ordered(group)?)? {
                    if let Some(first) = group.into_iter().next() {
                        heads.push(SearchHit { collapsed: Some((field.clone(), key)), ..first });
                    }
                }
                page(&heads)?
            }
        };
        let all = count.hits;
        shown["total"] = if total_as_number { json!(all) } else { json!({ "value": all, "relation": "eq" }) };
        Ok(shown)
    }
}

fn field_of(members: &Map<String, Value>) -> Result<String, Error> {
    match members.get("field") {
        Some(Value::String(field)) => Ok(field.clone()),
        _ => Err(Error::IllegalArgument("collapse must have a single [field]".to_owned())),
    }
}

fn check_field(field: &str, indexes: &[OpenIndex]) -> Result<(), Error> {
    let mapped = indexes.iter().filter_map(|index| field_at(&index.entry.mappings, field));
    let mut types: Vec<&str> = mapped.map(|(definition, _)| type_of(definition)).collect();
    types.dedup();
    match types.iter().find(|own| matches!(**own, "text" | "match_only_text" | "object" | "nested")) {
        Some(wrong) => Err(Error::IllegalArgument(format!(
            "unknown type for collapse field `{field}`, only keywords and numbers are accepted, not [{wrong}]"
        ))),
        None if types.is_empty() && !indexes.is_empty() => {
            Err(Error::IllegalArgument(format!("no mapping found for `{field}` in order to collapse on")))
        }
        None => Ok(()),
    }
}

/// Value by which a hit is collapsed.
fn value_of(field: &str, hit: &SearchHit) -> Result<Value, Error> {
    let values = match hit.index.searched_at(field) {
        Some((_, source_path)) => all_at(hit.searched_members(), &source_path),
        None => Vec::new(),
    };
    match values.as_slice() {
        [] => Ok(Value::Null),
        [value] => Ok((*value).clone()),
        _ => Err(Error::IllegalArgument(format!(
            "failed to collapse [{}], the collapse field must be single valued",
            hit.stored.id
        ))),
    }
}

/// Hits by a value, in the order of the first of each.
fn groups_of(field: &str, hits: Vec<SearchHit>) -> Result<Vec<(Value, Vec<SearchHit>)>, Error> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<(Value, Vec<SearchHit>)> = Vec::new();
    for hit in hits {
        let key = value_of(field, &hit)?;
        let place = *places.entry(key.to_string()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(hit),
            None => groups.push((key, vec![hit])),
        }
    }
    Ok(groups)
}
