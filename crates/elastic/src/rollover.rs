//! `_rollover`: the next index of a data stream or of an alias, always or once a condition holds.

use serde_json::{Map, Value, json};

use crate::catalog::{CatalogChange, CatalogEntries, OpenIndex, StreamEntry, now_ms};
use crate::cluster_admin::documents_of;
use crate::dated_names::with_dates;
use crate::names::check_index_name;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::scan_limit::duration_of;
use crate::service::{ElasticService, existing};
use crate::writing::WriteAction;
use crate::{Error, index_admin, templates};

/// Conditions of which one has to hold.
#[derive(Default)]
struct RolloverConditions {
    /// Age of the index, with the text that says so.
    age_ms: Option<(u128, String)>,
    documents: Option<u64>,
}

impl RolloverConditions {
    fn parse(conditions: Option<Value>) -> Result<Self, Error> {
        let mut parsed = RolloverConditions::default();
        let members = match conditions {
            None | Some(Value::Null) => return Ok(parsed),
            Some(Value::Object(members)) => members,
            Some(_) => return Err(Error::Content("[conditions] of a rollover is not an object".to_owned())),
        };
        for (name, value) in members {
            let malformed = || Error::Content(format!("[conditions] failed to parse field [{name}]"));
            match name.as_str() {
                "max_age" => {
                    let text = value.as_str().ok_or_else(malformed)?;
                    let age = duration_of(text)?.ok_or_else(malformed)?;
                    parsed.age_ms = Some((age.as_millis(), text.to_owned()));
                }
                "max_docs" => parsed.documents = Some(value.as_u64().ok_or_else(malformed)?),
                other => return Err(Error::unsupported(&format!("a rollover with the condition [{other}]"))),
            }
        }
        Ok(parsed)
    }

    /// Texts of the conditions, and whether each holds for an index.
    fn evaluate(&self, service: &ElasticService, index: &OpenIndex) -> Result<Map<String, Value>, Error> {
        let mut held = Map::new();
        if let Some((age_ms, text)) = &self.age_ms {
            let own = u128::from(now_ms().saturating_sub(index.entry.created_ms));
            held.insert(format!("[max_age: {text}]"), (own >= *age_ms).into());
        }
        if let Some(documents) = self.documents {
            held.insert(
                format!("[max_docs: {documents}]"),
                (documents_of(service, index)? >= documents).into(),
            );
        }
        Ok(held)
    }
}

/// Index that a name writes to, with its data stream if it is one of it.
fn target(entries: &CatalogEntries, name: &str) -> Result<(OpenIndex, Option<StreamEntry>), Error> {
    let is_stream = entries.streams.contains_key(name);
    if !is_stream && entries.with_alias(name).next().is_none() {
        return Err(Error::IllegalArgument(format!(
            "rollover target [{name}] is neither an alias nor a data stream"
        )));
    }
    let index = existing(entries, name, WriteAction::Create)?.ok_or_else(|| Error::no_index(name))?;
    if index.typed.is_some() {
        return Err(Error::Forbidden(format!(
            "[{}] is a document type, whose alias [{name}] has no next index",
            index.entry.name
        )));
    }
    let stream = entries.stream_of(&index.entry.name).cloned();
    Ok((index, stream))
}

/// Name that follows the name of an index with a number at its end.
fn next_name(name: &str) -> Result<String, Error> {
    let numbered = name.rsplit_once('-').and_then(|(stem, digits)| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let next = digits.parse::<u64>().ok().filter(|_| is_number)?.checked_add(1)?;
        Some(format!("{stem}-{next:06}"))
    });
    numbered.ok_or_else(|| {
        Error::IllegalArgument(format!(
            "index name [{name}] does not match pattern '^.*-\\d+$'; name the new index in the path"
        ))
    })
}

/// `POST` of a rollover. `new` is the name of the next index of an alias.
pub(crate) fn rollover(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    name: &str,
    new: Option<&str>,
) -> Result<ReplyContent, Error> {
    let mut body = object_of(&request.body)?;
    let conditions = RolloverConditions::parse(body.remove("conditions"))?;
    body.retain(|_, value| !value.is_null());
    let is_known = |member: &String| ["aliases", "mappings", "settings"].contains(&member.as_str());
    if let Some(unknown) = body.keys().find(|member| !is_known(member)) {
        return Err(Error::unsupported(&format!("a rollover with [{unknown}]")));
    }
    let is_dry = parameters.flag("dry_run")?.unwrap_or(false);
    let (old, _) = target(&*service.catalog.read()?, name)?;
    let held = conditions.evaluate(service, &old)?;
    let is_due = held.is_empty() || held.values().any(|held| *held == true);

    let mut change = service.catalog.change()?;
    let (newest, stream) = target(&change, name)?;
    if newest.entry.uuid != old.entry.uuid {
        return Err(Error::NotBegun(format!(
            "[{name}] was rolled over by another request meanwhile, and nothing was done for this one"
        )));
    }
    if stream.is_some() && (new.is_some() || !body.is_empty()) {
        return Err(Error::IllegalArgument(format!(
            "the next index of the data stream [{name}] has its name and its settings from the stream and its template"
        )));
    }
    let next = match (&stream, new) {
        (Some(stream), _) => stream.next_name(),
        (None, Some(new)) => with_dates(new)?.into_owned(),
        (None, None) => next_name(&old.entry.name)?,
    };
    let is_done = is_due && !is_dry;
    match stream {
        Some(mut stream) if is_done => {
            templates::next_index(&mut change, &mut stream)?;
            change.put_stream(stream);
            change.commit()?;
        }
        None if is_done => {
            roll_alias(&mut change, name, &old, &next, body)?;
            change.commit()?;
        }
        Some(_) => {}
        None => check_index_name(&next)?,
    }
    ReplyContent::ok(json!({
        "acknowledged": is_done, "shards_acknowledged": is_done, "old_index": old.entry.name, "new_index": next,
        "rolled_over": is_done, "dry_run": is_dry, "conditions": held,
    }))
}

/// Makes the next index of an alias. An alias that names its index for writes stays with the old one, too.
fn roll_alias(
    change: &mut CatalogChange<'_>,
    alias: &str,
    old: &OpenIndex,
    new: &str,
    body: Map<String, Value>,
) -> Result<(), Error> {
    let options = old.entry.aliases.get(alias).cloned().unwrap_or_default();
    let is_named = options.get("is_write_index") == Some(&Value::Bool(true));
    // Templates may give the new index the same alias.
    change.edit_aliases(&old.entry.name, |aliases| {
        if !is_named {
            aliases.remove(alias);
        } else if let Some(options) = aliases.get_mut(alias) {
            options.insert("is_write_index".to_owned(), false.into());
        }
    })?;
    index_admin::create(change, new, body)?;
    change.edit_aliases(new, |aliases| {
        let given = aliases.entry(alias.to_owned()).or_default();
        if is_named {
            given.insert("is_write_index".to_owned(), true.into());
        } else if given.get("is_write_index") == Some(&Value::Bool(false)) {
            // The alias would take no writes any more.
            given.remove("is_write_index");
        }
        if let Some(is_hidden) = options.get("is_hidden") {
            given.insert("is_hidden".to_owned(), is_hidden.clone());
        }
    })
}
