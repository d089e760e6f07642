//! Aliases: given, removed and shown.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::{CatalogChange, OpenIndex};
use crate::dated_names::with_dates;
use crate::door::ElasticDoor;
use crate::fields::names_of;
use crate::index_admin::{alias_options, delete_found, resolve_all};
use crate::kept_hits::take_answer;
use crate::names::{self, NameOptions, check_alias_name};
use crate::patterns::glob;
use crate::request::{DoorParameters, DoorReply, DoorRequest, object_of};

const OPTIONS: NameOptions = NameOptions {
    allow_no_indices: false,
    forbid_closed: false,
    closed: true,
    aliases: false,
    ..NameOptions::LENIENT
};

/// Gives an alias to indexes.
fn add(
    change: &mut CatalogChange<'_>,
    expression: &str,
    alias: &str,
    options: &Map<String, Value>,
) -> Result<(), Error> {
    check_alias_name(change, alias)?;
    let options = alias_options(options.clone())?;
    for name in named(change, expression)? {
        if change.keeps_alias(&name, alias, &options) {
            continue;
        }
        if options.get("is_write_index") == Some(&Value::Bool(true)) {
            let writes = |index: &&OpenIndex| {
                index.entry.name != name
                    && !change.are_of_one_stream(&index.entry.name, &name)
                    && index.entry.aliases[alias].get("is_write_index") == Some(&Value::Bool(true))
            };
            if let Some(other) = change.with_alias(alias).find(writes) {
                return Err(Error::IllegalArgument(format!(
                    "alias [{alias}] has more than one write index [{},{name}]",
                    other.entry.name
                )));
            }
        }
        change.edit_aliases(&name, |aliases| {
            aliases.insert(alias.to_owned(), options.clone());
        })?;
    }
    Ok(())
}

/// Names of the indexes that an expression means. Their entries are held by the catalog alone, which changes
/// them where they are.
fn named(change: &CatalogChange<'_>, expression: &str) -> Result<Vec<String>, Error> {
    let found = names::resolve(change, expression, OPTIONS)?;
    Ok(found.iter().map(|index| index.entry.name.clone()).collect())
}

/// Removes aliases from indexes. True if there were any.
fn remove(change: &mut CatalogChange<'_>, expression: &str, pattern: &str) -> Result<bool, Error> {
    let mut found = false;
    let is_meant = |alias: &str| pattern == "_all" || glob(pattern, alias);
    for name in named(change, expression)? {
        let has_any = |index: &OpenIndex| index.entry.aliases.keys().any(|alias| is_meant(alias));
        if change.index(&name).is_some_and(has_any) {
            found = true;
            change.edit_aliases(&name, |aliases| aliases.retain(|alias, _| !is_meant(alias)))?;
        }
    }
    Ok(found)
}

/// `PUT` of an alias.
pub(crate) fn put(
    door: &ElasticDoor,
    request: &DoorRequest,
    index: &str,
    alias: &str,
) -> Result<DoorReply, Error> {
    let options = object_of(&request.body)?;
    let mut change = door.catalog.change()?;
    add(&mut change, index, &with_dates(alias)?, &options)?;
    change.commit()?;
    DoorReply::ok(json!({ "acknowledged": true }))
}

/// `DELETE` of aliases.
pub(crate) fn delete(door: &ElasticDoor, index: &str, aliases: &str) -> Result<DoorReply, Error> {
    let mut change = door.catalog.change()?;
    let mut found = false;
    for pattern in with_dates(aliases)?.split(',') {
        found |= remove(&mut change, index, pattern)?;
    }
    if found {
        change.commit()?;
        DoorReply::ok(json!({ "acknowledged": true }))
    } else {
        Err(Error::NoAlias(aliases.to_owned()))
    }
}

/// `POST` of `_aliases`: several changes, all of which are made, or none.
pub(crate) fn actions(door: &ElasticDoor, request: &DoorRequest) -> Result<DoorReply, Error> {
    let body = object_of(&request.body)?;
    let actions = body.get("actions").and_then(Value::as_array).cloned().unwrap_or_default();
    if actions.is_empty() {
        return Err(Error::Validation(vec!["Must specify at least one alias action".to_owned()]));
    }
    let mut change = door.catalog.change()?;
    for action in actions {
        let Some((kind, of)) = action.as_object().and_then(|action| action.iter().next()) else {
            return Err(Error::Content("[alias_action] an action is an object with one member".to_owned()));
        };
        let of = of.as_object().cloned().unwrap_or_default();
        let all = |one: &str, many: &str| {
            let values = [of.get(one), of.get(many)];
            values.into_iter().flatten().flat_map(names_of).collect::<Vec<_>>().join(",")
        };
        let (index, aliases) = (all("index", "indices"), all("alias", "aliases"));
        let (index, aliases) = (with_dates(&index)?.into_owned(), with_dates(&aliases)?.into_owned());
        if index.is_empty() {
            // No name would stand for all indexes.
            let reason = format!("[{kind}] One of [index] or [indices] is required");
            return Err(Error::Validation(vec![reason]));
        }
        let mut options = of.clone();
        options.retain(|name, _| {
            !["index", "indices", "alias", "aliases", "must_exist"].contains(&name.as_str())
        });
        match kind.as_str() {
            "add" => {
                for alias in aliases.split(',') {
                    add(&mut change, &index, alias, &options)?;
                }
            }
            "remove" => {
                for alias in aliases.split(',') {
                    if !remove(&mut change, &index, alias)?
                        && of.get("must_exist") != Some(&Value::Bool(false))
                    {
                        return Err(Error::NoAlias(alias.to_owned()));
                    }
                }
            }
            "remove_index" => {
                let found = names::resolve(&change, &index, OPTIONS)?;
                delete_found(&mut change, &index, &found)?;
            }
            other => return Err(Error::Content(format!("[alias_action] unknown field [{other}]"))),
        }
    }
    change.commit()?;
    DoorReply::ok(json!({ "acknowledged": true }))
}

/// `GET` and `HEAD` of aliases.
pub(crate) fn get(
    door: &ElasticDoor,
    parameters: &DoorParameters,
    expression: &str,
    aliases: Option<&str>,
) -> Result<DoorReply, Error> {
    let mut answer = Map::new();
    let mut seen: Vec<String> = Vec::new();
    let is_wanted = |alias: &str| {
        let Some(patterns) = aliases else { return true };
        let mut wanted = false;
        for pattern in patterns.split(',') {
            match pattern.strip_prefix('-').filter(|_| wanted) {
                Some(excluded) if glob(excluded, alias) => wanted = false,
                Some(_) => {}
                None => wanted |= pattern == "_all" || glob(pattern, alias),
            }
        }
        wanted
    };
    let is_for_all =
        aliases.is_none_or(|aliases| aliases == "_all" || aliases == "*") && expression.is_empty();
    for index in resolve_all(door, parameters, expression)? {
        let mut shown = index.entry.aliases.clone();
        shown.retain(|alias, _| is_wanted(alias));
        seen.extend(shown.keys().cloned());
        if !shown.is_empty() || is_for_all || aliases.is_none() {
            let shown = json!({ "aliases": shown });
            take_answer(&door.answer_memory, &shown)?;
            answer.insert(index.entry.name.clone(), shown);
        }
    }
    let named = aliases
        .unwrap_or_default()
        .split(',')
        .filter(|name| !names::is_pattern(name) && !name.starts_with('-'));
    let missing: Vec<&str> = named.filter(|name| !seen.iter().any(|alias| alias == name)).collect();
    if missing.is_empty() {
        return DoorReply::ok(Value::Object(answer));
    }
    let noun = if missing.len() == 1 { "alias" } else { "aliases" };
    let mut body = json!({ "error": format!("{noun} [{}] missing", missing.join(",")), "status": 404 });
    if let Value::Object(body) = &mut body {
        body.extend(answer);
    }
    Ok(DoorReply::Json(404, body))
}
