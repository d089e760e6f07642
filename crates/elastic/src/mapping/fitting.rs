//! Documents beside a mapping: they fit it, or are refused; in `logs` mode none is refused.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::checks::{check_limit, limit_of};
use super::defaults::ignores_beyond_limit;
use super::dynamic::DynamicRules;
use super::{DEPTH_MAX, check_value, count_fields, field_at, is_flag, is_object, type_of};
use crate::Error;
use crate::fields::names_of;
use crate::small_sort::sort_few;
use crate::unread::{has_unread, unread_text};

/// Checks a document against a mapping, and adds its new fields to it. True if there are any. After an error
/// the mapping may have some of them, and their number is not checked.
pub(crate) fn fit_in_place(
    mappings: &mut Map<String, Value>,
    document: &Map<String, Value>,
) -> Result<bool, Error> {
    let mut pass = MappingPass::new(mappings, None);
    let outcome = pass.document(mappings, document);
    pass.rules.give_back(mappings);
    outcome.map(|()| pass.changed)
}

/// True if a mapping lacks fields of a document, and can have them.
///
/// # Errors
/// The document does not fit.
pub(crate) fn lacks_fields(
    mappings: &Map<String, Value>,
    settings: &BTreeMap<String, Value>,
    document: &Map<String, Value>,
) -> Result<bool, Error> {
    let mut with_fields = mappings.clone();
    let is_changed = fit_in_place(&mut with_fields, document)?;
    Ok(is_changed && !(ignores_beyond_limit(settings) && check_limit(&with_fields, settings).is_err()))
}

/// Fields of a document that is taken as it is.
#[derive(Debug, Default)]
pub(crate) struct LenientFit {
    /// True if new fields were added to the mapping.
    pub(crate) is_changed: bool,
    /// Fields that have a value which does not fit, or that the mapping has no room for, with the reasons.
    pub(crate) ignored: Vec<(String, String)>,
}

/// Room of a mapping for new fields. It is kept beside the mapping, whose fields are not counted again for
/// each document.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FieldRoom {
    /// Number of fields that the mapping may have.
    limit: usize,
    /// Number of fields that may be added.
    left: usize,
}

impl FieldRoom {
    /// Room of the mapping of an index with settings.
    pub(crate) fn of(mappings: &Map<String, Value>, settings: &BTreeMap<String, Value>) -> Self {
        let limit = limit_of(settings);
        FieldRoom { limit, left: limit.saturating_sub(count_fields(mappings)) }
    }
}

/// Adds the new fields of a document to a mapping, as far as it has room for them. No document is refused.
pub(crate) fn observe(
    mappings: &mut Map<String, Value>,
    room: &mut FieldRoom,
    document: &Map<String, Value>,
) -> LenientFit {
    fit_leniently(mappings, document, room)
}

/// Fields of a document that do not fit a mapping, or that it lacks.
pub(crate) fn unfit_fields(mappings: &Map<String, Value>, document: &Map<String, Value>) -> Vec<String> {
    // Without room nothing is added.
    let mut none = FieldRoom::default();
    let ignored = fit_leniently(&mut mappings.clone(), document, &mut none).ignored.into_iter();
    ignored.map(|(path, _)| path).collect()
}

fn fit_leniently(
    mappings: &mut Map<String, Value>,
    document: &Map<String, Value>,
    room: &mut FieldRoom,
) -> LenientFit {
    let leniency = Some(FitLeniency { room: *room, ignored: Vec::new() });
    let mut pass = MappingPass::new(mappings, leniency);
    let outcome = pass.document(mappings, document);
    pass.rules.give_back(mappings);
    let mut ignored = Vec::new();
    if let Some(leniency) = pass.leniency {
        (*room, ignored) = (leniency.room, leniency.ignored);
    }
    debug_assert!(outcome.is_ok(), "a lenient pass goes on after each error");
    sort_few(&mut ignored, Ord::cmp);
    ignored.dedup_by(|(one, _), (other, _)| one == other);
    LenientFit { is_changed: pass.changed, ignored }
}

/// Definition of a field by a value of it; `None` if the value has none.
pub(crate) fn inferred(value: &Value) -> Option<Map<String, Value>> {
    DynamicRules::of_every_mapping().infer(value).map(|(_, definition)| definition)
}

/// Treatment of new fields.
#[derive(Clone, PartialEq)]
enum DynamicMode {
    True,
    False,
    Strict(String),
    /// Those with a template are added, and others passed over.
    TemplatesOrFalse,
    /// Those with a template are added, and others refused.
    TemplatesOrStrict,
}

impl DynamicMode {
    fn of(object: &Map<String, Value>, inherited: &DynamicMode) -> DynamicMode {
        match object.get("dynamic") {
            Some(Value::Bool(true)) => DynamicMode::True,
            Some(Value::Bool(false)) => DynamicMode::False,
            Some(Value::String(text)) => match text.as_str() {
                "true" | "runtime" => DynamicMode::True,
                "false" => DynamicMode::False,
                "false_allow_templates" => DynamicMode::TemplatesOrFalse,
                "strict_allow_templates" => DynamicMode::TemplatesOrStrict,
                other => DynamicMode::Strict(other.to_owned()),
            },
            _ => inherited.clone(),
        }
    }
}

struct MappingPass {
    rules: DynamicRules,
    changed: bool,
    leniency: Option<FitLeniency>,
    /// Fields that others are copied to, each with a value.
    copied: Vec<(String, Value)>,
}

/// Rules of a pass that refuses nothing.
struct FitLeniency {
    room: FieldRoom,
    /// Fields that were passed over, with the reasons.
    ignored: Vec<(String, String)>,
}

impl MappingPass {
    /// Creates a pass over a document by the rules of a mapping, which are taken out of it.
    fn new(mappings: &mut Map<String, Value>, leniency: Option<FitLeniency>) -> Self {
        MappingPass { rules: DynamicRules::take(mappings), changed: false, leniency, copied: Vec::new() }
    }

    /// Fits a document. Fields that others are copied to, and that the mapping lacks, are new ones.
    fn document(
        &mut self,
        mappings: &mut Map<String, Value>,
        document: &Map<String, Value>,
    ) -> Result<(), Error> {
        self.object(mappings, document, "", &DynamicMode::True, 0)?;
        for (target, value) in std::mem::take(&mut self.copied) {
            if field_at(mappings, &target).is_none() {
                let copied: Map<String, Value> = [(target, value)].into_iter().collect();
                match self.object(mappings, &copied, "", &DynamicMode::True, 0) {
                    // An earlier version took such a mapping, and its documents are still taken.
                    Err(Error::Strict { .. }) => {}
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }

    /// Passes a field over in a lenient pass; fails in others.
    fn refuse(&mut self, path: &str, error: Error) -> Result<(), Error> {
        match &mut self.leniency {
            Some(leniency) => {
                leniency.ignored.push((path.trim_end_matches('.').to_owned(), error.to_string()));
                Ok(())
            }
            None => Err(error),
        }
    }

    /// Takes room for new fields. In a lenient pass, the limit of their number is the error if there is none.
    fn take_room(&mut self, needed: usize) -> Result<(), usize> {
        let Some(FitLeniency { room, .. }) = &mut self.leniency else { return Ok(()) };
        room.left = room.left.checked_sub(needed).ok_or(room.limit)?;
        Ok(())
    }

    /// Fits an object, whose definition has `properties`.
    fn object(
        &mut self,
        definition: &mut Map<String, Value>,
        document: &Map<String, Value>,
        before: &str,
        inherited: &DynamicMode,
        depth: usize,
    ) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            let error = Error::IllegalArgument(format!(
                "Limit of mapping depth [{DEPTH_MAX}] has been exceeded due to object field [{before}]"
            ));
            return self.refuse(before, error);
        }
        if definition.get("enabled") == Some(&Value::Bool(false)) {
            return Ok(());
        }
        if unread_text(document).is_some() {
            let path = if before.is_empty() { "_source" } else { before };
            return self.refuse(path, Error::document(format!("the object [{path}] cannot be read")));
        }
        let mode = DynamicMode::of(definition, inherited);
        for (name, value) in document {
            let path = match before {
                "" => Cow::Borrowed(name.as_str()),
                before => Cow::Owned(format!("{before}{name}")),
            };
            if name.split('.').any(|part| part.trim().is_empty()) {
                let error = Error::Document {
                    reason: "failed to parse".to_owned(),
                    cause: Some((
                        "illegal_argument_exception",
                        format!(
                            "object field starting or ending with a [.] makes object resolution ambiguous: [{path}]"
                        ),
                    )),
                };
                self.refuse(&path, error)?;
                continue;
            }
            if has_unread(value) {
                self.refuse(&path, Error::document(format!("a value of [{path}] cannot be read")))?;
            }
            self.member(definition, MemberContext { name, path: &path, depth }, value, &mode)?;
        }
        Ok(())
    }

    fn member(
        &mut self,
        definition: &mut Map<String, Value>,
        place: MemberContext<'_>,
        value: &Value,
        mode: &DynamicMode,
    ) -> Result<(), Error> {
        if let Some(field) = definition.get_mut("properties").and_then(|known| known.get_mut(place.name)) {
            let Value::Object(field) = field else { return Ok(()) };
            return self.known(field, &place, value, mode);
        }
        if let Some((first, rest)) = place.name.split_once('.') {
            let mut inner = Map::new();
            inner.insert(rest.to_owned(), value.clone());
            let path = place.path[..place.path.len() - rest.len() - 1].to_owned();
            let place = MemberContext { name: first, path: &path, depth: place.depth };
            return self.member(definition, place, &Value::Object(inner), mode);
        }
        match mode {
            DynamicMode::False => return Ok(()),
            DynamicMode::Strict(mode) => return self.refuse(place.path, place.strict(mode)),
            DynamicMode::True | DynamicMode::TemplatesOrFalse | DynamicMode::TemplatesOrStrict => {}
        }
        let Some((kind, plain)) = self.rules.infer(value) else { return Ok(()) };
        // A field without room for it is refused below: its template need not be searched.
        let is_full = *mode == DynamicMode::True
            && self.leniency.as_ref().is_some_and(|leniency| leniency.room.left == 0);
        let templated = match is_full {
            true => None,
            false => self.rules.by_template(place.name, place.path, kind, &plain),
        };
        let mut field = match (templated, mode) {
            (Some(field), _) => field,
            (None, DynamicMode::TemplatesOrFalse) => return Ok(()),
            (None, DynamicMode::TemplatesOrStrict) => {
                return self.refuse(place.path, place.strict("strict_allow_templates"));
            }
            (None, _) => plain,
        };
        // A template may have fields below its own.
        if let Err(limit) = self.take_room(1 + count_fields(&field)) {
            let reason = format!("Limit of total fields [{limit}] has been exceeded");
            return self.refuse(place.path, Error::IllegalArgument(reason));
        }
        self.known(&mut field, &place, value, mode)?;
        self.changed = true;
        if let Value::Object(properties) = definition.entry("properties").or_insert_with(|| json!({})) {
            properties.insert(place.name.to_owned(), Value::Object(field));
        }
        Ok(())
    }

    /// Fits a value to the definition of its field.
    fn known(
        &mut self,
        field: &mut Map<String, Value>,
        place: &MemberContext<'_>,
        value: &Value,
        mode: &DynamicMode,
    ) -> Result<(), Error> {
        if let Some(targets) = field.get("copy_to").filter(|_| !value.is_null() && !value.is_array()) {
            for target in names_of(targets) {
                if self.copied.iter().all(|(known, _)| *known != target) {
                    self.copied.push((target, value.clone()));
                }
            }
        }
        let intake = FieldIntake::of(type_of(field));
        match value {
            Value::Null => Ok(()),
            // It was refused where the field was found.
            Value::Object(members) if unread_text(members).is_some() => Ok(()),
            Value::Array(elements) if intake != FieldIntake::Vector => {
                elements.iter().try_for_each(|element| self.known(field, place, element, mode))
            }
            Value::Object(members) if intake == FieldIntake::Objects => {
                self.object(field, members, &format!("{}.", place.path), mode, place.depth + 1)
            }
            Value::Object(_) if intake == FieldIntake::TakesObjects => Ok(()),
            _ if intake == FieldIntake::Objects => {
                if field.get("enabled") == Some(&Value::Bool(false)) {
                    return Ok(());
                }
                let error = Error::document(format!(
                    "object mapping for [{}] tried to parse field [{}] as object, but found a concrete value",
                    place.path, place.name
                ));
                self.refuse(place.path, error)
            }
            other => {
                if is_flag(field, "ignore_malformed") {
                    return Ok(());
                }
                let kind = type_of(field);
                let Err((cause, reason)) = check_value(field, kind, other) else { return Ok(()) };
                let error = Error::Document {
                    reason: format!("failed to parse field [{}] of type [{kind}]", place.path),
                    cause: Some((cause, reason)),
                };
                self.refuse(place.path, error)
            }
        }
    }
}

/// A member of a document, with its path and depth.
struct MemberContext<'p> {
    name: &'p str,
    path: &'p str,
    depth: usize,
}

impl MemberContext<'_> {
    /// Error of a new field that the mapping does not take.
    fn strict(&self, mode: &str) -> Error {
        let parent = self.path.strip_suffix(self.name).unwrap_or("").trim_end_matches('.');
        Error::Strict {
            mode: mode.to_owned(),
            field: self.name.to_owned(),
            parent: if parent.is_empty() { "_doc".to_owned() } else { parent.to_owned() },
        }
    }
}

/// Values that a field takes.
#[derive(Clone, Copy, PartialEq)]
enum FieldIntake {
    /// `object` and `nested`.
    Objects,
    /// An object is one value.
    TakesObjects,
    /// An array is one value.
    Vector,
    Other,
}

impl FieldIntake {
    /// Values that a field of a type takes.
    fn of(kind: &str) -> Self {
        match kind {
            kind if is_object(kind) => FieldIntake::Objects,
            "flat_object" | "flattened" => FieldIntake::TakesObjects,
            kind if kind.ends_with("_range") => FieldIntake::TakesObjects,
            kind if kind.ends_with("_vector") => FieldIntake::Vector,
            _ => FieldIntake::Other,
        }
    }
}
