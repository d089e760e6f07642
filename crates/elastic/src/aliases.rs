//! Aliases: given, removed and shown.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::{CatalogChange, OpenIndex};
use crate::dated_names::with_dates;
use crate::fields::names_of;
use crate::index_admin::{alias_options, delete_found};
use crate::kept_hits::take_answer;
use crate::names::{self, NameOptions, check_alias_name};
use crate::patterns::glob;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::service::ElasticService;
use crate::typed;

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

/// `PUT` of an alias. Names in the body count before those of the path.
pub(crate) fn put(
    service: &ElasticService,
    request: &ElasticRequest,
    index: &str,
    alias: &str,
) -> Result<ReplyContent, Error> {
    let mut options = object_of(&request.body)?;
    let mut named = |member: &str, in_path: &str| {
        let in_body = options.remove(member).map(|names| names_of(&names).join(","));
        let name = in_body.unwrap_or_else(|| in_path.to_owned());
        match name.is_empty() {
            true => Err(Error::IllegalArgument(format!(
                "[{member}] can't be empty: name it in the path or in the body"
            ))),
            false => with_dates(&name).map(Cow::into_owned),
        }
    };
    let (index, alias) = (named("index", index)?, named("alias", alias)?);
    let mut change = service.catalog.change()?;
    add(&mut change, &index, &alias, &options)?;
    change.commit()?;
    ReplyContent::ok(json!({ "acknowledged": true }))
}

/// `DELETE` of aliases.
pub(crate) fn delete(service: &ElasticService, index: &str, aliases: &str) -> Result<ReplyContent, Error> {
    let mut change = service.catalog.change()?;
    let mut found = false;
    for pattern in with_dates(aliases)?.split(',') {
        found |= remove(&mut change, index, pattern)?;
    }
    if found {
        change.commit()?;
        ReplyContent::ok(json!({ "acknowledged": true }))
    } else {
        Err(Error::NoAlias(aliases.to_owned()))
    }
}

/// `POST` of `_aliases`: several changes, all of which are made, or none.
pub(crate) fn actions(service: &ElasticService, request: &ElasticRequest) -> Result<ReplyContent, Error> {
    let body = object_of(&request.body)?;
    let actions = body.get("actions").and_then(Value::as_array).cloned().unwrap_or_default();
    if actions.is_empty() {
        return Err(Error::Validation(vec!["Must specify at least one alias action".to_owned()]));
    }
    let mut change = service.catalog.change()?;
    for action in actions {
        let Some((kind, of)) = action.as_object().and_then(|action| action.iter().next()) else {
            return Err(Error::Content("[alias_action] an action is an object with one member".to_owned()));
        };
        let of = of.as_object().cloned().unwrap_or_default();
        let indexes = given_names(&of, ["index", "indices"])?;
        let aliases = given_names(&of, ["alias", "aliases"])?;
        let index = indexes.join(",");
        let needed =
            [("[index] or [indices]", indexes.is_empty()), ("[alias] or [aliases]", aliases.is_empty())];
        // No name would stand for all indexes.
        let count = if kind == "remove_index" { 1 } else { 2 };
        if let Some((members, _)) = needed[..count].iter().find(|(_, is_missing)| *is_missing) {
            return Err(Error::Validation(vec![format!("[{kind}] One of {members} is required")]));
        }
        let mut options = of.clone();
        options.retain(|name, _| {
            !["index", "indices", "alias", "aliases", "must_exist"].contains(&name.as_str())
        });
        match kind.as_str() {
            "add" => {
                for alias in &aliases {
                    add(&mut change, &index, alias, &options)?;
                }
            }
            "remove" => {
                let mut missing = Vec::new();
                for alias in &aliases {
                    if !remove(&mut change, &index, alias)? {
                        missing.push(alias.as_str());
                    }
                }
                let is_refused = match of.get("must_exist").and_then(Value::as_bool) {
                    Some(true) => !missing.is_empty(),
                    Some(false) => false,
                    None => missing.len() == aliases.len(),
                };
                if is_refused {
                    return Err(Error::NoAlias(missing.join(",")));
                }
            }
            "remove_index" => {
                typed::check_deletable(&change, &index, OPTIONS)?;
                let found = names::resolve(&change, &index, OPTIONS)?;
                delete_found(&mut change, &index, &found)?;
            }
            other => return Err(Error::Content(format!("[alias_action] unknown field [{other}]"))),
        }
    }
    change.commit()?;
    ReplyContent::ok(json!({ "acknowledged": true }))
}

/// Names that an action gives by one of two members, with their dates written out.
///
/// # Errors
/// A member is there and has no name, or an empty one; a date is malformed.
fn given_names(action: &Map<String, Value>, members: [&str; 2]) -> Result<Vec<String>, Error> {
    let mut all = Vec::new();
    for (member, value) in members.iter().filter_map(|member| Some((member, action.get(*member)?))) {
        let names = names_of(value);
        if names.is_empty() || names.iter().any(String::is_empty) {
            return Err(Error::IllegalArgument(format!("[{member}] can't be empty")));
        }
        for name in &names {
            all.push(with_dates(name)?.into_owned());
        }
    }
    Ok(all)
}

/// Names that were asked for and are not aliases, in their order. Patterns are not among them, and neither is
/// what a pattern or a name excludes after the first pattern.
fn missing_names<'n>(requested: &[&'n str], found: &[String]) -> Vec<&'n str> {
    let first_pattern = requested.iter().position(|name| names::is_pattern(name)).unwrap_or(requested.len());
    let mut missing = Vec::new();
    for (at, name) in requested.iter().enumerate() {
        let is_exclusion = at > first_pattern && name.starts_with('-');
        if names::is_pattern(name) || is_exclusion || found.iter().any(|alias| alias == name) {
            continue;
        }
        let mut later = requested[first_pattern.max(at + 1)..].iter();
        let is_excluded =
            later.any(|other| other.strip_prefix('-').is_some_and(|pattern| glob(pattern, name)));
        if !is_excluded {
            missing.push(*name);
        }
    }
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// `GET` and `HEAD` of aliases.
pub(crate) fn get(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
    aliases: Option<&str>,
) -> Result<ReplyContent, Error> {
    let mut answer = Map::new();
    let mut seen: Vec<String> = Vec::new();
    let requested: Vec<&str> = aliases.into_iter().flat_map(|aliases| aliases.split(',')).collect();
    let is_wanted = |alias: &str| {
        let mut wanted = aliases.is_none();
        for pattern in &requested {
            match pattern.strip_prefix('-').filter(|_| wanted) {
                Some(excluded) if glob(excluded, alias) => wanted = false,
                Some(_) => {}
                None => wanted |= *pattern == "_all" || glob(pattern, alias),
            }
        }
        wanted
    };
    let options = NameOptions { forbid_closed: false, closed: true, hidden: true, ..NameOptions::LENIENT };
    let found = names::resolve(&*service.catalog.read()?, expression, options.with(parameters)?)?;
    for index in found {
        let mut shown = index.entry.aliases.clone();
        shown.retain(|alias, _| is_wanted(alias));
        seen.extend(shown.keys().cloned());
        if !shown.is_empty() || aliases.is_none() {
            let shown = json!({ "aliases": shown });
            take_answer(&service.answer_memory, &shown)?;
            answer.insert(index.entry.name.clone(), shown);
        }
    }
    let missing = missing_names(&requested, &seen);
    if missing.is_empty() {
        return ReplyContent::ok(Value::Object(answer));
    }
    let noun = if missing.len() == 1 { "alias" } else { "aliases" };
    let mut body = json!({ "error": format!("{noun} [{}] missing", missing.join(",")), "status": 404 });
    if let Value::Object(body) = &mut body {
        body.extend(answer);
    }
    Ok(ReplyContent::Json(404, body))
}
