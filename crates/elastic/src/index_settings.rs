//! Settings of indexes: read, checked, changed and shown.

mod known_settings;

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use self::known_settings::check_names;
use crate::Error;
use crate::analyzers;
use crate::catalog::OpenIndex;
use crate::cluster_admin::VERSION;
use crate::dates::DateText;
use crate::kept_hits::take_answer;
use crate::log_settings;
use crate::names::{self, NameOptions};
use crate::patterns::glob;
use crate::query::text_of;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::service::ElasticService;

/// Values that hold for an index which does not name the setting.
const DEFAULTS: &[(&str, &str)] = &[
    ("index.hidden", "false"),
    ("index.mapping.depth.limit", "20"),
    ("index.mapping.total_fields.limit", "1000"),
    ("index.max_docvalue_fields_search", "100"),
    ("index.max_regex_length", "1000"),
    ("index.max_result_window", "10000"),
    ("index.max_slices_per_scroll", "1024"),
    ("index.mode", "standard"),
    ("index.refresh_interval", "1s"),
];

/// Settings that refuse writes, with the description of the block and its status.
const BLOCKS: [(&str, &str, u16); 3] = [
    ("index.blocks.write", "FORBIDDEN/8/index write (api)", 403),
    ("index.blocks.read_only", "FORBIDDEN/5/index read-only (api)", 403),
    (
        "index.blocks.read_only_allow_delete",
        "TOO_MANY_REQUESTS/12/index has read-only-allow-delete block",
        429,
    ),
];

impl OpenIndex {
    /// Number in a setting of the index.
    pub(crate) fn number_of(&self, name: &str, otherwise: u64) -> u64 {
        self.setting(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    }

    /// Checks that no setting of the index refuses writes of documents.
    ///
    /// # Errors
    /// One does.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        match BLOCKS.iter().find(|(name, ..)| self.setting(name) == Some("true")) {
            Some(&(_, block, status)) => {
                Err(Error::Blocked { index: self.entry.name.clone(), block, status })
            }
            None => Ok(()),
        }
    }
}

/// Blocks of an index by their numbers, as the state of the cluster has them.
pub(crate) fn blocks_of(index: &OpenIndex) -> Map<String, Value> {
    let set = BLOCKS.iter().filter(|(name, ..)| index.setting(name) == Some("true"));
    let shown = set.filter_map(|(_, block, _)| {
        let (_, rest) = block.split_once('/')?;
        let (number, description) = rest.split_once('/')?;
        let shown = json!({ "description": description, "retryable": false, "levels": ["write"] });
        Some((number.to_owned(), shown))
    });
    shown.collect()
}

/// Settings with their full names, and texts as values.
pub(crate) fn flat(settings: &Map<String, Value>) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    flatten(settings, "", &mut flat);
    flat
}

/// Settings as objects by the parts of their names.
pub(crate) fn nested(flat: impl IntoIterator<Item = (String, Value)>) -> Value {
    let mut nested = Value::Object(Map::new());
    for (name, value) in flat {
        let mut at = &mut nested;
        for part in name.split('.') {
            if !at.is_object() {
                *at = json!({});
            }
            at = &mut at[part];
        }
        *at = value;
    }
    nested
}

fn flatten(settings: &Map<String, Value>, before: &str, flat: &mut BTreeMap<String, Value>) {
    for (name, value) in settings {
        let path = format!("{before}{name}");
        match value {
            Value::Object(below) => flatten(below, &format!("{path}."), flat),
            value => {
                let path = if path.starts_with("index.") { path } else { format!("index.{path}") };
                let text = |value: &Value| match value {
                    Value::Null | Value::String(_) => value.clone(),
                    Value::Array(_) => value.clone(),
                    other => other.to_string().into(),
                };
                flat.insert(path, text(value));
            }
        }
    }
}

/// Checks the settings of a template or a request, each by itself: an index is made with those of several.
///
/// # Errors
/// A setting is not known, or a value is malformed.
pub(crate) fn check_part(settings: &Map<String, Value>) -> Result<(), Error> {
    let flat = flat(settings);
    check_names(&flat)?;
    check_counts(&flat)?;
    check_flags(&flat)?;
    log_settings::is_logs_mode(&flat)?;
    Ok(())
}

/// Checks the settings that an index is to have instead of its own.
///
/// # Errors
/// A setting is not known, or a value is malformed.
fn check_settings(settings: &BTreeMap<String, Value>) -> Result<(), Error> {
    check_names(settings)?;
    check_counts(settings)?;
    check_flags(settings)?;
    log_settings::check(settings)
}

/// Checks blocks and other settings that are true or false: another text would be taken, and block nothing.
fn check_flags(settings: &BTreeMap<String, Value>) -> Result<(), Error> {
    const UNSUPPORTED: [&str; 2] = ["index.blocks.read", "index.blocks.metadata"];
    let blocks = BLOCKS.iter().map(|(name, ..)| *name);
    for name in blocks.chain(UNSUPPORTED).chain(["index.hidden"]) {
        let Some(value) = settings.get(name).filter(|value| !value.is_null()) else { continue };
        if value != "true" && value != "false" {
            return Err(Error::IllegalArgument(format!(
                "Failed to parse value [{}] as only [true] or [false] are allowed.",
                text_of(value)
            )));
        }
        if value == "true" && UNSUPPORTED.contains(&name) {
            return Err(Error::unsupported(&format!("[{name}]")));
        }
    }
    Ok(())
}

fn check_counts(settings: &BTreeMap<String, Value>) -> Result<(), Error> {
    for (name, min, max) in [
        ("number_of_shards", 1, 1024),
        ("number_of_replicas", 0, 1024),
        ("mapping.total_fields.limit", 1, i64::MAX),
        ("max_docvalue_fields_search", 0, i64::MAX),
        ("max_slices_per_scroll", 1, i64::MAX),
        ("max_result_window", 1, i64::MAX),
        ("max_rescore_window", 1, i64::MAX),
    ] {
        let Some(value) = settings.get(&format!("index.{name}")).and_then(Value::as_str) else { continue };
        match value.parse::<i64>() {
            Ok(number) if (min..=max).contains(&number) => {}
            Ok(_) => {
                return Err(Error::IllegalArgument(format!(
                    "Failed to parse value [{value}] for setting [index.{name}] must be >= {min} and <= {max}"
                )));
            }
            Err(_) => {
                return Err(Error::IllegalArgument(format!(
                    "Failed to parse value [{value}] for setting [index.{name}]"
                )));
            }
        }
    }
    Ok(())
}

/// Members `settings` and, where the request asks for them, `defaults` of an index in an answer. `wanted` has
/// the names of settings, or patterns, with commas between.
pub(crate) fn shown_settings(
    index: &OpenIndex,
    parameters: &ElasticParameters,
    wanted: Option<&str>,
) -> Result<Map<String, Value>, Error> {
    let entry = &index.entry;
    let is_flat = parameters.flag("flat_settings")?.unwrap_or(false);
    let shown = |mut settings: BTreeMap<String, Value>| {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != "_all") {
            settings.retain(|name, _| wanted.split(',').any(|pattern| glob(pattern, name)));
        }
        match is_flat {
            true => Value::Object(settings.into_iter().collect()),
            false => nested(settings),
        }
    };
    let mut all = entry.settings.clone();
    for (name, value) in [
        ("index.uuid", entry.uuid.clone()),
        ("index.provided_name", entry.name.clone()),
        ("index.creation_date", entry.created_ms.to_string()),
        ("index.version.created", "136407927".to_owned()),
    ] {
        all.insert(name.to_owned(), value.into());
    }
    if parameters.flag("human")?.unwrap_or(false) {
        let created = DateText::write(entry.created_ms as i64, None, &TimeZone::UTC);
        all.insert("index.creation_date_string".to_owned(), created.into());
        all.insert("index.version.created_string".to_owned(), VERSION.into());
    }
    let mut members = Map::new();
    if parameters.flag("include_defaults")?.unwrap_or(false) {
        let others = DEFAULTS.iter().filter(|(name, _)| !all.contains_key(*name));
        let others = others.map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        members.insert("defaults".to_owned(), shown(others.collect()));
    }
    members.insert("settings".to_owned(), shown(all));
    Ok(members)
}

/// Indexes that a request for metadata names.
fn resolve_all(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<Vec<OpenIndex>, Error> {
    let options = NameOptions { forbid_closed: false, closed: true, hidden: false, ..NameOptions::LENIENT };
    names::resolve(&*service.catalog.read()?, expression, options.with(parameters)?)
}

/// `GET` of settings.
pub(crate) fn get_settings(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
    wanted: Option<&str>,
) -> Result<ReplyContent, Error> {
    let mut answer = Map::new();
    for index in resolve_all(service, parameters, expression)? {
        let shown = Value::Object(shown_settings(&index, parameters, wanted)?);
        take_answer(&service.answer_memory, &shown)?;
        answer.insert(index.entry.name.clone(), shown);
    }
    ReplyContent::ok(Value::Object(answer))
}

/// `PUT` of settings.
pub(crate) fn put_settings(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let body = object_of(&request.body)?;
    let body = body.get("settings").and_then(Value::as_object).unwrap_or(&body);
    let settings = flat(body);
    check_settings(&settings)?;
    if let Some(name) = log_settings::FINAL.iter().find(|name| settings.contains_key(**name)) {
        return Err(Error::IllegalArgument(format!("final settings cannot be updated: [{name}]")));
    }
    let preserves = parameters.flag("preserve_existing")?.unwrap_or(false);
    let options = NameOptions { forbid_closed: false, closed: true, ..NameOptions::LENIENT };
    let mut change = service.catalog.change()?;
    let mut shown = Vec::new();
    for index in names::resolve(&change, expression, options.with(parameters)?)? {
        let mut entry = (*index.entry).clone();
        for (name, value) in &settings {
            if value.is_null() {
                entry.settings.remove(name);
            } else if !preserves || !entry.settings.contains_key(name) {
                entry.settings.insert(name.clone(), value.clone());
            }
        }
        analyzers::check(&settings, &entry.settings)?;
        let index = change.put_index(entry)?;
        if settings.keys().any(|name| name.starts_with("index.analysis.")) {
            service.warn(analyzers::notes(&index.entry.settings, &index.entry.mappings));
        }
        if !index.hides_writes() {
            shown.push(index);
        }
    }
    change.commit()?;
    shown.iter().for_each(|index| index.live.refresh());
    ReplyContent::ok(json!({ "acknowledged": true }))
}

/// `PUT` of a block: a setting of indexes that refuses their writes.
pub(crate) fn add_block(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
    block: &str,
) -> Result<ReplyContent, Error> {
    if !["write", "read_only"].contains(&block) {
        return Err(Error::unsupported(&format!("the block [{block}]")));
    }
    let options = NameOptions { forbid_closed: false, closed: true, ..NameOptions::LENIENT };
    let mut change = service.catalog.change()?;
    let mut blocked = Vec::new();
    for index in names::resolve(&change, expression, options.with(parameters)?)? {
        let mut entry = (*index.entry).clone();
        entry.settings.insert(format!("index.blocks.{block}"), "true".into());
        blocked.push(json!({ "name": entry.name, "blocked": true }));
        change.put_index(entry)?;
    }
    change.commit()?;
    ReplyContent::ok(json!({ "acknowledged": true, "shards_acknowledged": true, "indices": blocked }))
}
