//! `_doc`, `_create`, `_update`, `_source` and `_mget`: single documents, written and read.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::bulk::{RefreshPolicy, check_pipeline};
use crate::catalog::OpenIndex;
use crate::fields;
use crate::names::{self, NameDemand, NameOptions};
use crate::placing::WritePlacer;
use crate::read_fields::ReadFields;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, check_tree, object_of};
use crate::service::ElasticService;
use crate::source::SourceFilter;
use crate::storage::{self, StoredSource};
use crate::update::{UpdateBody, UpdateOptions, retries_of};
use crate::writing::{self, SingleWrite, VersionRule, WriteAction, WriteConditions};
use crate::{kept_hits, partitions, typed};

/// A write of one document by a request of its own.
pub(crate) fn write(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    action: WriteAction,
    index: &str,
    id: Option<&str>,
) -> Result<ReplyContent, Error> {
    let action = action.with_op_type(parameters.get("op_type"))?;
    let refresh = RefreshPolicy::of(parameters)?;
    check_pipeline(service, parameters.get("pipeline"))?;
    let conditions = WriteConditions {
        version: parameters.integer("version")?,
        rule: parameters.get("version_type").map_or(Ok(VersionRule::Internal), VersionRule::parse)?,
        if_seq_no: parameters.integer("if_seq_no")?,
        if_primary_term: parameters.integer("if_primary_term")?,
    };
    let retries = parameters.integer("retry_on_conflict")?.map(retries_of);
    let mut options = UpdateOptions { conditions, shown: SourceFilter::of_parameters(parameters), retries };
    let (mut update, mut source) = (None, std::sync::Arc::from(""));
    match action {
        WriteAction::Update => {
            check_tree(&request.body, service.caller.tree_bytes_max())?;
            update = Some(UpdateBody::parse(object_of(&request.body)?, &mut options)?);
        }
        WriteAction::Delete => {}
        WriteAction::Index | WriteAction::Create => {
            if request.body.iter().all(u8::is_ascii_whitespace) {
                return Err(Error::Validation(vec!["source is missing".to_owned()]));
            }
            let text = std::str::from_utf8(&request.body).map_err(Error::not_json)?;
            source = text.trim().into();
        }
    }
    let UpdateOptions { conditions, shown, .. } = options;
    let single = SingleWrite {
        action,
        id: id.map(str::to_owned),
        routing: parameters.get("routing").map(str::to_owned),
        conditions,
        source,
        update,
        shown,
        answer: None,
        size: None,
    };
    let placed = WritePlacer::new(service).place(index, single, NameDemand::of(parameters)?)?;
    let mut written = writing::write_all(service, std::slice::from_ref(&placed));
    let result = written.pop().expect("one write has one result")?;
    let index = placed.index;
    if refresh != RefreshPolicy::None {
        index.refresh_for(&result.id);
    }
    let status = result.status;
    let forced = refresh == RefreshPolicy::Now && result.result != "noop";
    Ok(ReplyContent::Json(status, Value::Object(result.object(forced))))
}

/// Conditions and form of a read.
struct ReadOptions {
    routing: Option<String>,
    is_realtime: bool,
    version: Option<i64>,
    rule: VersionRule,
    shown: Option<SourceFilter>,
    stored_fields: Vec<String>,
}

impl ReadOptions {
    fn of(parameters: &ElasticParameters) -> Result<Self, Error> {
        Ok(ReadOptions {
            routing: parameters.get("routing").map(str::to_owned),
            is_realtime: parameters.flag("realtime")?.unwrap_or(true),
            version: parameters.integer("version")?,
            rule: parameters.get("version_type").map_or(Ok(VersionRule::Internal), VersionRule::parse)?,
            shown: SourceFilter::of_parameters(parameters),
            stored_fields: parameters.list("stored_fields").unwrap_or_default(),
        })
    }
}

/// Index that a document is read from.
fn read_index(service: &ElasticService, name: &str) -> Result<OpenIndex, Error> {
    let found = names::resolve(&*service.catalog.read()?, name, NameOptions::LENIENT)?;
    service.check_indexes(&found)?;
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Error::no_index(name)),
        several => Err(Error::IllegalArgument(format!(
            "alias [{name}] has more than one index associated with it [{}], can't execute a single index op",
            several.iter().map(|index| index.entry.name.as_str()).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// Document as a read with these options sees it.
fn find(
    service: &ElasticService,
    index: &OpenIndex,
    id: &str,
    options: &ReadOptions,
) -> Result<Option<StoredSource>, Error> {
    let hidden = match options.is_realtime {
        true => None,
        false => index.live.hidden().remove(id),
    };
    let found = match (hidden, &index.typed) {
        (_, Some(binding)) => typed::find(service, binding, id, options.routing.as_deref())?,
        (Some(before), None) => before,
        (None, None) if index.is_log() => partitions::find(service, index, id, options.routing.as_deref())?,
        (None, None) => storage::get(&service.node, index.group(), id)?,
    };
    let Some(found) = found.filter(|stored| index.finds(stored, options.routing.as_deref())) else {
        return Ok(None);
    };
    if let Some(version) = options.version {
        let is_right = match options.rule {
            VersionRule::ExternalGte => found.version <= version,
            _ => found.version == version,
        };
        if !is_right {
            return Err(Error::VersionConflict {
                id: id.to_owned(),
                reason: format!(
                    "current version [{}] is different than the one provided [{version}]",
                    found.version
                ),
                index: index.entry.name.clone(),
            });
        }
    }
    Ok(Some(found))
}

/// Document as an object of an answer.
fn found_object(
    index: &OpenIndex,
    id: &str,
    found: Option<&StoredSource>,
    options: &ReadOptions,
) -> Result<Map<String, Value>, Error> {
    let mut object = Map::new();
    object.insert("_index".to_owned(), index.entry.name.as_str().into());
    object.insert("_id".to_owned(), id.into());
    let Some(found) = found else {
        object.insert("found".to_owned(), false.into());
        return Ok(object);
    };
    object.insert("_version".to_owned(), found.version.into());
    object.insert("_seq_no".to_owned(), found.seq_no.into());
    object.insert("_primary_term".to_owned(), 1.into());
    if let Some(routing) = &found.routing {
        object.insert("_routing".to_owned(), routing.as_str().into());
    }
    object.insert("found".to_owned(), true.into());
    let document = parsed(found)?;
    let shown = match &options.shown {
        Some(shown) => Some(shown.clone()),
        None if options.stored_fields.is_empty()
            || options.stored_fields.iter().any(|name| name == "_source") =>
        {
            Some(SourceFilter::default())
        }
        None => None,
    };
    if let Some(shown) = shown.filter(|shown| !shown.is_off)
        && let Some(part) = shown.apply_in(&index.entry.mappings, &document)
    {
        object.insert("_source".to_owned(), Value::Object(part));
    }
    let stored = fields::stored(index, &document, &options.stored_fields);
    if !stored.is_empty() {
        object.insert("fields".to_owned(), Value::Object(stored));
    }
    Ok(object)
}

/// Index of a name, and its document as searches see it; `None` if it does not exist.
pub(crate) fn searched(
    service: &ElasticService,
    parameters: &ElasticParameters,
    index: &str,
    id: &str,
) -> Result<(OpenIndex, Option<StoredSource>), Error> {
    let options = ReadOptions { is_realtime: false, ..ReadOptions::of(parameters)? };
    let index = read_index(service, index)?.with_observed(&service.node)?;
    let found = find(service, &index, id, &options)?;
    Ok((index, found))
}

/// Members of an answer to a request that has found a document: it, as the request shows it.
pub(crate) fn shown(
    index: &OpenIndex,
    found: &StoredSource,
    parameters: &ElasticParameters,
) -> Result<Option<Value>, Error> {
    let options = ReadOptions::of(parameters)?;
    if options.shown.is_none() && options.stored_fields.is_empty() {
        return Ok(None);
    }
    let mut object = found_object(index, &found.id, Some(found), &options)?;
    object.retain(|name, _| !["_index", "_id", "_version"].contains(&name.as_str()));
    Ok(Some(Value::Object(object)))
}

/// Document as JSON.
pub(crate) fn parsed(stored: &StoredSource) -> Result<Map<String, Value>, Error> {
    parsed_fields(stored, &ReadFields::All)
}

/// Members of a document that have one of the fields.
pub(crate) fn parsed_fields(stored: &StoredSource, fields: &ReadFields) -> Result<Map<String, Value>, Error> {
    stored.source.members(fields).map_err(|error| match error {
        Error::Internal(reason) => Error::Internal(format!("[{}]: {reason}", stored.id)),
        other => other,
    })
}

/// A document for another request; `None` if it does not exist.
pub(crate) fn document(
    service: &ElasticService,
    parameters: &ElasticParameters,
    index: &str,
    id: &str,
) -> Result<Option<Map<String, Value>>, Error> {
    let index = read_index(service, index)?;
    find(service, &index, id, &ReadOptions::of(parameters)?)?.as_ref().map(parsed).transpose()
}

/// `GET` and `HEAD` of a document.
pub(crate) fn get(
    service: &ElasticService,
    parameters: &ElasticParameters,
    index: &str,
    id: &str,
) -> Result<ReplyContent, Error> {
    let options = ReadOptions::of(parameters)?;
    let index = read_index(service, index)?;
    refresh_first(&index, parameters)?;
    let found = find(service, &index, id, &options)?;
    let status = if found.is_some() { 200 } else { 404 };
    Ok(ReplyContent::Json(status, Value::Object(found_object(&index, id, found.as_ref(), &options)?)))
}

/// Shows all writes of an index before a read, if the request says so.
fn refresh_first(index: &OpenIndex, parameters: &ElasticParameters) -> Result<(), Error> {
    if parameters.flag("refresh")?.unwrap_or(false) {
        index.live.refresh();
    }
    Ok(())
}

/// `GET` and `HEAD` of a document's text.
pub(crate) fn get_source(
    service: &ElasticService,
    parameters: &ElasticParameters,
    index: &str,
    id: &str,
) -> Result<ReplyContent, Error> {
    let options = ReadOptions::of(parameters)?;
    let index = read_index(service, index)?;
    refresh_first(&index, parameters)?;
    let name = index.entry.name.as_str();
    match find(service, &index, id, &options)? {
        Some(found) => {
            let shown = options.shown.unwrap_or_default();
            match shown.apply_in(&index.entry.mappings, &parsed(&found)?) {
                Some(part) => ReplyContent::ok(Value::Object(part)),
                None => Err(Error::NotFound(format!("Source not found [{name}]/[_doc]/[{id}]"))),
            }
        }
        None => Err(Error::NotFound(format!("Document not found [{name}]/[_doc]/[{id}]"))),
    }
}

/// `_mget`: several documents.
pub(crate) fn multi_get(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    index: Option<&str>,
) -> Result<ReplyContent, Error> {
    let body = object_of(&request.body)?;
    let wanted = wanted(&body, index)?;
    let mut documents = Vec::with_capacity(wanted.len());
    for one in wanted {
        service.check_client()?;
        let mut options = ReadOptions::of(parameters)?;
        options.routing = one.routing.or(options.routing);
        options.version = one.version.or(options.version);
        options.rule = one.rule.unwrap_or(options.rule);
        options.shown = one.shown.or(options.shown);
        if !one.stored_fields.is_empty() {
            options.stored_fields = one.stored_fields;
        }
        let outcome = read_index(service, &one.index).and_then(|index| {
            refresh_first(&index, parameters)?;
            let found = find(service, &index, &one.id, &options)?;
            found_object(&index, &one.id, found.as_ref(), &options)
        });
        let answer = match outcome {
            Ok(object) => Value::Object(object),
            Err(error) => {
                let described = error.body();
                json!({ "_index": one.index, "_id": one.id, "error": described["error"] })
            }
        };
        kept_hits::take_answer(&service.answer_memory, &answer)?;
        documents.push(answer);
    }
    ReplyContent::ok(json!({ "docs": documents }))
}

/// A document that `_mget` names.
struct WantedDocument {
    index: String,
    id: String,
    routing: Option<String>,
    version: Option<i64>,
    rule: Option<VersionRule>,
    shown: Option<SourceFilter>,
    stored_fields: Vec<String>,
}

fn wanted(body: &Map<String, Value>, index: Option<&str>) -> Result<Vec<WantedDocument>, Error> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let plain = |id: String, index: Option<&str>| WantedDocument {
        index: index.unwrap_or_default().to_owned(),
        id,
        routing: None,
        version: None,
        rule: None,
        shown: None,
        stored_fields: Vec::new(),
    };
    let mut wanted = Vec::new();
    let mut wrong = Vec::new();
    for (name, value) in body {
        let Value::Array(elements) = value else {
            return Err(Error::Parsing(format!("unexpected token [{}], expected [START_ARRAY]", value)));
        };
        for element in elements {
            match (name.as_str(), element) {
                ("ids", id) => wanted.push(plain(text(id), index)),
                ("docs", Value::Object(members)) => {
                    let mut one = plain(String::new(), index);
                    for (name, value) in members {
                        match name.as_str() {
                            "_index" => one.index = text(value),
                            "_id" => one.id = text(value),
                            "routing" => one.routing = Some(text(value)),
                            "version" => one.version = value.as_i64(),
                            "version_type" => one.rule = Some(VersionRule::parse(&text(value))?),
                            "_source" => one.shown = Some(SourceFilter::of_value(value)?),
                            "stored_fields" => one.stored_fields = fields::names_of(value),
                            "fields" => {
                                let reason =
                                    "Unsupported field [fields] used, expected [stored_fields] instead";
                                return Err(Error::Parsing(reason.to_owned()));
                            }
                            other => {
                                return Err(Error::Parsing(format!(
                                    "failed to parse multi get request. unknown field [{other}]"
                                )));
                            }
                        }
                    }
                    wanted.push(one);
                }
                _ => {
                    return Err(Error::Parsing(format!(
                        "unknown key [{name}] for a VALUE_STRING, expected [docs] or [ids]"
                    )));
                }
            }
        }
    }
    for (at, one) in wanted.iter().enumerate() {
        if one.index.is_empty() {
            wrong.push(format!("index is missing for doc {at}"));
        }
        if one.id.is_empty() {
            wrong.push(format!("id is missing for doc {at}"));
        }
    }
    if wanted.is_empty() {
        wrong.push("no documents to get".to_owned());
    }
    if wrong.is_empty() { Ok(wanted) } else { Err(Error::Validation(wrong)) }
}
