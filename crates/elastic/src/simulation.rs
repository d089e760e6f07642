//! `_index_template/_simulate`: what templates would give to an index, without making it.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::{CatalogChange, NamedKind};
use crate::fields::names_of;
use crate::index_admin::DeclaredIndex;
use crate::index_settings::nested;
use crate::lifecycle::StreamLifecycle;
use crate::mapping::PartOrigin;
use crate::patterns::overlap;
use crate::request::{ElasticRequest, ReplyContent, object_of};
use crate::service::ElasticService;
use crate::templates::{best, check_beside, check_parts, checked, parts_of};

/// Name of a template that is in the body of a request; no template has it.
const GIVEN: &str = "_simulated";

/// `POST` of `_simulate_index/NAME`: for an index of that name, with a template in the body beside the
/// others.
pub(crate) fn for_index(
    service: &ElasticService,
    request: &ElasticRequest,
    name: &str,
) -> Result<ReplyContent, Error> {
    let mut change = service.catalog.change()?;
    add_given(&mut change, request)?;
    let Some(template) = best(&change, name).map(|(template, _)| template.to_owned()) else {
        return ReplyContent::ok(json!({}));
    };
    simulate(&change, &template, name)
}

/// `POST` of `_simulate` and `_simulate/NAME`: by the template in the body, or else by the one of that name.
pub(crate) fn by_template(
    service: &ElasticService,
    request: &ElasticRequest,
    name: Option<&str>,
) -> Result<ReplyContent, Error> {
    let mut change = service.catalog.change()?;
    let template = match (add_given(&mut change, request)?, name) {
        (true, _) => GIVEN,
        (false, Some(name)) => name,
        (false, None) => return Err(Error::Validation(vec!["an index template is missing".to_owned()])),
    };
    simulate(&change, template, name.unwrap_or(GIVEN))
}

/// Adds the template of a body, if there is one, to a change that is not made.
fn add_given(change: &mut CatalogChange<'_>, request: &ElasticRequest) -> Result<bool, Error> {
    let body = object_of(&request.body)?;
    if body.is_empty() {
        return Ok(false);
    }
    // The name is checked as another would be, and is not that of a template which is kept.
    let body = checked(NamedKind::IndexTemplate, GIVEN.trim_start_matches('_'), body)?;
    check_beside(change, GIVEN, &body)?;
    change.put_named(NamedKind::IndexTemplate, GIVEN, Value::Object(body))?;
    Ok(true)
}

fn simulate(change: &CatalogChange<'_>, template: &str, index: &str) -> Result<ReplyContent, Error> {
    let found = change.named(NamedKind::IndexTemplate, template);
    let found =
        found.ok_or_else(|| Error::NotFound(format!("index template matching [{template}] not found")))?;
    let given = parts_of(change, found);
    // What is refused of a template that an earlier version took is said here.
    let parts = given.iter().map(|part| (PartOrigin::Given, part.clone()));
    let declared = DeclaredIndex::of(change, index, parts)?;
    check_parts(change, found)?;
    let patterns = found.get("index_patterns").map(names_of).unwrap_or_default();
    let mut overlapping = Vec::new();
    for kind in [NamedKind::LegacyTemplate, NamedKind::IndexTemplate] {
        for (name, other) in change.all_named(kind) {
            let others = other.get("index_patterns").map(names_of).unwrap_or_default();
            let is_other = kind == NamedKind::LegacyTemplate || name != template;
            if is_other && patterns.iter().any(|one| others.iter().any(|other| overlap(one, other))) {
                overlapping.push(json!({ "name": name, "index_patterns": others }));
            }
        }
    }
    let mut parts = Map::new();
    parts.insert("settings".to_owned(), nested(declared.settings));
    parts.insert("mappings".to_owned(), Value::Object(declared.mappings));
    parts.insert("aliases".to_owned(), json!(declared.aliases));
    let mut lifecycles = given.iter().rev().filter_map(|part| part.get("lifecycle")?.as_object());
    if let Some(lifecycle) = lifecycles.next().map(StreamLifecycle::parse).transpose()? {
        parts.insert("lifecycle".to_owned(), lifecycle.object());
    }
    ReplyContent::ok(json!({ "template": parts, "overlapping": overlapping }))
}
