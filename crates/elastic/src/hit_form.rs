//! The form of hits in answers.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::dates::DateText;
use crate::fields::all_at;
use crate::mapping::{field_at, type_of};
use crate::patterns::glob;
use crate::request::DoorParameters;
use crate::search::SearchHit;
use crate::sorting::HitSortKey;
use crate::source::SourceFilter;

/// Form of the hits in the answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct HitForm {
    pub(crate) shown: Option<SourceFilter>,
    pub(crate) has_version: bool,
    pub(crate) has_seq_no: bool,
    pub(crate) doc_fields: Vec<(String, Option<String>)>,
    pub(crate) fields: Vec<(String, Option<String>)>,
    pub(crate) stored_fields: Option<Vec<String>>,
    pub(crate) total_as_number: bool,
    pub(crate) total_limit: Option<u64>,
    pub(crate) has_no_total: bool,
    pub(crate) names_parts: bool,
}

impl HitForm {
    /// Reads the parameters of a request.
    pub(crate) fn parameters(&mut self, parameters: &DoorParameters) -> Result<(), Error> {
        if let Some(shown) = SourceFilter::of_parameters(parameters) {
            self.shown = Some(shown);
        }
        self.has_version |= parameters.flag("version")?.unwrap_or(false);
        self.has_seq_no |= parameters.flag("seq_no_primary_term")?.unwrap_or(false);
        self.total_as_number = parameters.flag("rest_total_hits_as_int")?.unwrap_or(false);
        self.names_parts = parameters.flag("typed_keys")?.unwrap_or(false);
        if let Some(fields) = parameters.list("docvalue_fields") {
            self.doc_fields = fields.into_iter().map(|field| (field, None)).collect();
        }
        if let Some(fields) = parameters.list("stored_fields") {
            self.stored_fields = Some(fields);
        }
        match parameters.get("track_total_hits") {
            None | Some("true") => {}
            Some("false") => self.has_no_total = true,
            Some(limit) => self.total_limit = limit.parse().ok(),
        }
        if self.total_as_number && self.total_limit.is_some() {
            return Err(Error::IllegalArgument(format!(
                "[rest_total_hits_as_int] cannot be used if the tracking of total hits is not accurate, got {}",
                self.total_limit.unwrap_or(0)
            )));
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
        object.insert("_score".to_owned(), if has_score { json!(hit.score) } else { Value::Null });
        if let Some(routing) = &hit.stored.routing {
            object.insert("_routing".to_owned(), routing.as_str().into());
        }
        let has_source = match &self.stored_fields {
            Some(fields) => self.shown.is_some() || fields.iter().any(|field| field == "_source"),
            None => true,
        };
        let shown = self.shown.clone().unwrap_or_default();
        let keeps = hit.index.entry.mappings.get("_source").and_then(|source| source.get("enabled"));
        if has_source && !shown.is_off && keeps != Some(&Value::Bool(false)) {
            object.insert("_source".to_owned(), Value::Object(shown.apply(&hit.document)));
        }
        let fields = self.fields_of(hit);
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
        let mut shown = Map::new();
        let mappings = &hit.index.entry.mappings;
        for (pattern, format) in self.doc_fields.iter().chain(&self.fields) {
            let paths: Vec<String> = match pattern.contains('*') {
                true => {
                    let all = crate::mapping::all_fields(mappings).into_iter();
                    let leaves =
                        all.filter(|(path, field)| glob(pattern, path) && type_of(field) != "object");
                    leaves.map(|(path, _)| path).collect()
                }
                false => vec![pattern.clone()],
            };
            for path in paths {
                let Some((field, place)) = field_at(mappings, &path) else { continue };
                let own = field.get("format").and_then(Value::as_str);
                let one = |value: &&Value| match type_of(field) {
                    "date" | "date_nanos" => match DateText::parse_value(value, own) {
                        Some(millis) => {
                            DateText::write(millis, format.as_deref().or(own), &jiff::tz::TimeZone::UTC)
                                .into()
                        }
                        None => (*value).clone(),
                    },
                    _ => (*value).clone(),
                };
                let values: Vec<Value> = all_at(&hit.document, &place).iter().map(one).collect();
                if !values.is_empty() {
                    shown.insert(path, Value::Array(values));
                }
            }
        }
        if let Some(names) = &self.stored_fields {
            shown.extend(crate::fields::stored(&hit.index, &hit.document, names));
        }
        shown
    }
}
