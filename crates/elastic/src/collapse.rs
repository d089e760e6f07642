//! Collapsing: of the hits that share a value of a field, the first alone is shown.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::OpenIndex;
use crate::fields::all_at;
use crate::hit_form::InnerHits;
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

    /// The first hit of each of the first values, of hits in their order.
    ///
    /// # Errors
    /// A document has several values of the field.
    pub(crate) fn firsts(&self, hits: Vec<SearchHit>, most: usize) -> Result<Vec<SearchHit>, Error> {
        let groups = groups_of(&self.field, hits)?.into_iter().take(most);
        Ok(groups.filter_map(|(_, group)| group.into_iter().next()).collect())
    }

    /// The first hit of each value, in their order, with the pages of those behind it.
    ///
    /// # Errors
    /// The field has texts, or a document has several values of it.
    pub(crate) fn heads(
        &self,
        hits: Vec<SearchHit>,
        indexes: &[OpenIndex],
        request: &HitSearch,
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
            head.collapsed = Some((self.field.clone(), key));
            if at < shown {
                for page in &self.inner {
                    let hits = page.of(&group, request.form.total_as_number)?;
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

    fn of(&self, group: &[SearchHit], total_as_number: bool) -> Result<Value, Error> {
        let Some(field) = &self.field else {
            return Ok(self.hits.of(&group.iter().collect::<Vec<_>>(), total_as_number));
        };
        let mut heads = Vec::new();
        for (key, group) in groups_of(field, self.hits.ordered(group))? {
            if let Some(first) = group.into_iter().next() {
                heads.push(SearchHit { collapsed: Some((field.clone(), key)), ..first });
            }
        }
        let mut shown = self.hits.of(&heads.iter().collect::<Vec<_>>(), total_as_number);
        let all = group.len();
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

/// Hits by a value, in the order of the first of each.
fn groups_of(field: &str, hits: Vec<SearchHit>) -> Result<Vec<(Value, Vec<SearchHit>)>, Error> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<(Value, Vec<SearchHit>)> = Vec::new();
    for hit in hits {
        let values: Vec<Value> = match field_at(&hit.index.entry.mappings, field) {
            Some((_, place)) => all_at(&hit.document, &place).into_iter().cloned().collect(),
            None => Vec::new(),
        };
        if values.len() > 1 {
            return Err(Error::IllegalArgument(format!(
                "failed to collapse [{}], the collapse field must be single valued",
                hit.stored.id
            )));
        }
        let key = values.into_iter().next().unwrap_or(Value::Null);
        let place = *places.entry(key.to_string()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(hit),
            None => groups.push((key, vec![hit])),
        }
    }
    Ok(groups)
}
