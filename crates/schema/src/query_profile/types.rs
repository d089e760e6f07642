//! Query profile types: permitted parameters, and the types of their values.

use std::collections::{BTreeMap, BTreeSet};

use millrace_tensor::TensorType;
use roxmltree::Node;

use super::read::{EntryContent, WrittenProfile, id, words};
use super::{DEPTH_MAX, ProfileId, QueryProfiles, STEPS_MAX, find};
use crate::suggest::{did_you_mean, one_of};
use crate::{Error, PackageFindings, SourcePosition, xml};

/// Predefined types, which permit the parameters of the query API.
const BUILT_IN: &[&str] = &["native", "model", "ranking", "presentation", "root", "DefaultQueryProfileType"];

/// A query profile type as written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ProfileType {
    pub(super) name: String,
    inherits: Vec<String>,
    strict: bool,
    match_path: bool,
    fields: Vec<FieldType>,
    pub(super) position: SourcePosition,
}

impl ProfileType {
    /// Names of its parameters, with their aliases.
    pub(super) fn parameter_names(&self) -> impl Iterator<Item = &str> {
        let named = self.fields.iter().flat_map(|field| std::iter::once(&field.name).chain(&field.aliases));
        named.map(String::as_str).filter(|name| !name.is_empty())
    }

    /// Names of all types that it uses.
    pub(super) fn references(&self) -> impl Iterator<Item = &str> {
        let inner = self.fields.iter().filter_map(|field| match &field.kind {
            ParameterKind::Profile(Some(name)) => Some(name.as_str()),
            _ => None,
        });
        let names = self.inherits.iter().map(String::as_str).chain(inner);
        names.filter(|name| !BUILT_IN.contains(name))
    }
}

/// A parameter of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldType {
    pub(super) name: String,
    kind: ParameterKind,
    pub(super) mandatory: bool,
    pub(super) overridable: bool,
    /// Aliases in lower case.
    pub(super) aliases: Vec<String>,
}

/// Type of a parameter's values.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ParameterKind {
    String,
    Integer,
    Long,
    Float,
    Double,
    Boolean,
    Tensor(TensorType),
    /// The parameters below this name are those of a profile, optionally of this type.
    Profile(Option<String>),
}

/// The types that are a single word. A query is a text, in which `%{…}` are replaced as in any other.
const NAMED_KINDS: [(&str, ParameterKind); 7] = [
    ("string", ParameterKind::String),
    ("integer", ParameterKind::Integer),
    ("long", ParameterKind::Long),
    ("float", ParameterKind::Float),
    ("double", ParameterKind::Double),
    ("boolean", ParameterKind::Boolean),
    ("query", ParameterKind::String),
];

impl ParameterKind {
    /// Parses the type of a value.
    ///
    /// # Errors
    /// The type is unknown, or its tensor type is invalid; the text gives the known types or the cause.
    fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, kind)) = NAMED_KINDS.iter().find(|(name, _)| *name == text) {
            return Ok(kind.clone());
        }
        if text.starts_with("tensor") {
            let tensor = TensorType::parse(text).map_err(|error| format!("type '{text}': {error}"))?;
            return Ok(ParameterKind::Tensor(tensor));
        }
        match text.strip_prefix("query-profile") {
            Some("") => Ok(ParameterKind::Profile(None)),
            Some(rest) if rest.starts_with(':') => Ok(ParameterKind::Profile(Some(rest[1..].to_owned()))),
            _ => {
                let named = NAMED_KINDS.iter().map(|(name, _)| *name);
                let known = one_of(named.chain(["tensor(…)", "query-profile:TYPE"]));
                Err(format!("unknown type '{text}': expected {known}"))
            }
        }
    }

    /// Error in a value, if it does not fit.
    fn fault(&self, value: &str) -> Option<&'static str> {
        let value = value.trim();
        match self {
            ParameterKind::String | ParameterKind::Tensor(_) | ParameterKind::Profile(_) => None,
            ParameterKind::Integer => {
                value.parse::<i32>().err().map(|_| "expected a whole number of 32 bits")
            }
            ParameterKind::Long => value.parse::<i64>().err().map(|_| "expected a whole number of 64 bits"),
            ParameterKind::Float | ParameterKind::Double => {
                value.parse::<f64>().err().map(|_| "expected a number")
            }
            ParameterKind::Boolean => {
                (!matches!(value, "true" | "false" | "1" | "0" | "")).then_some("expected true or false")
            }
        }
    }
}

pub(super) fn read(path: &str, bytes: &[u8]) -> Result<(ProfileId, ProfileType), Error> {
    let document = xml::parse(path, xml::text(path, bytes)?)?;
    let root = document.root_element();
    let id = id(path, root, "query-profile-type")?;
    let mut read = ProfileType {
        name: id.name.clone(),
        inherits: words(root.attribute("inherits")),
        position: xml::position_of(path, root),
        ..ProfileType::default()
    };
    for element in xml::elements(root) {
        match element.tag_name().name() {
            "description" => {}
            "strict" => read.strict = true,
            "match" => read.match_path = element.attribute("path") == Some("true"),
            "field" => read.fields.push(field(path, element)?),
            name => {
                let reason = format!(
                    "unknown element <{name}>: expected <field name='…' type='…'>, <strict/> or <match>"
                );
                return xml::invalid(path, element, reason);
            }
        }
    }
    Ok((id, read))
}

fn field(path: &str, node: Node<'_, '_>) -> Result<FieldType, Error> {
    let (Some(name), Some(kind)) = (node.attribute("name"), node.attribute("type")) else {
        return xml::invalid(path, node, "<field> of a type needs the attributes 'name' and 'type'");
    };
    let kind = match ParameterKind::parse(kind) {
        Ok(kind) => kind,
        Err(reason) => return xml::invalid(path, node, reason),
    };
    Ok(FieldType {
        name: name.to_owned(),
        kind,
        mandatory: node.attribute("mandatory") == Some("true"),
        overridable: node.attribute("overridable") != Some("false"),
        aliases: words(node.attribute("alias")).iter().map(|alias| alias.to_lowercase()).collect(),
    })
}

/// The query feature that a parameter sets.
fn query_feature(parameter: &str) -> Option<&str> {
    let families = ["ranking.features.", "input.", "rankfeature."];
    let feature = families.iter().find_map(|family| parameter.strip_prefix(family))?;
    feature.strip_prefix("query(")?.strip_suffix(')')
}

impl QueryProfiles {
    /// Query features whose tensor types are declared by the types, as in `ranking.features.query(user)`, by
    /// name (without `query()`). `None`, with an error, if two types declare one feature differently.
    pub(crate) fn query_features(
        &self,
        findings: &mut PackageFindings,
    ) -> Option<BTreeMap<&str, &TensorType>> {
        let errors_before = findings.error_count();
        let mut found: BTreeMap<&str, (&TensorType, &ProfileType)> = BTreeMap::new();
        for of in self.types.values() {
            for field in &of.fields {
                let (Some(name), ParameterKind::Tensor(tensor_type)) =
                    (query_feature(&field.name), &field.kind)
                else {
                    continue;
                };
                let (known, first) = *found.entry(name).or_insert((tensor_type, of));
                if known != tensor_type {
                    let reason = format!(
                        "query({name}) is of type {tensor_type} in query profile type '{}', but of type {known} in '{}': give it one type",
                        of.name, first.name
                    );
                    findings.report(Error::Invalid { position: of.position.clone(), reason });
                }
            }
        }
        let features = found.into_iter().map(|(name, (tensor_type, _))| (name, tensor_type));
        (findings.error_count() == errors_before).then(|| features.collect())
    }

    pub(super) fn type_named(&self, name: &str) -> Option<&ProfileType> {
        find(&self.types, name)
    }

    /// The type of a profile: its own, or that of the first inherited profile that has one.
    pub(super) fn type_of(&self, profile: &WrittenProfile, depth: usize) -> Option<&ProfileType> {
        match &profile.type_name {
            Some(name) => self.type_named(name),
            None if depth > DEPTH_MAX => None,
            None => profile.own.inherits.iter().find_map(|name| {
                find(&self.profiles, name).and_then(|parent| self.type_of(parent, depth + 1))
            }),
        }
    }

    pub(super) fn matches_paths(&self, of: &ProfileType) -> bool {
        of.match_path || self.parents(of).any(|parent| self.matches_paths(parent))
    }

    fn parents<'s>(&'s self, of: &'s ProfileType) -> impl Iterator<Item = &'s ProfileType> {
        of.inherits.iter().filter_map(|name| self.type_named(name))
    }

    fn is_strict(&self, of: &ProfileType) -> bool {
        of.strict || self.parents(of).any(|parent| self.is_strict(parent))
    }

    /// True if the parameters of the query API are permitted because a built-in type is inherited.
    fn is_native(&self, of: &ProfileType) -> bool {
        of.inherits.iter().any(|name| BUILT_IN.contains(&name.as_str()))
            || self.parents(of).any(|parent| self.is_native(parent))
    }

    /// All parameters of a type, its own first.
    pub(super) fn fields_of<'s>(&'s self, of: &'s ProfileType) -> Vec<&'s FieldType> {
        let mut fields: Vec<&FieldType> = of.fields.iter().collect();
        for parent in self.parents(of) {
            for field in self.fields_of(parent) {
                if !fields.iter().any(|known| known.name == field.name) {
                    fields.push(field);
                }
            }
        }
        fields
    }

    /// The name of a parameter, with the aliases that are parts of it replaced by the names of the fields.
    pub(super) fn unaliased(&self, of: &ProfileType, name: &str) -> String {
        let fields = self.fields_of(of);
        let field = |name: &str| {
            let lower = name.to_lowercase();
            let named = fields.iter().find(|field| field.name == name);
            named.or_else(|| fields.iter().find(|field| field.aliases.contains(&lower)))
        };
        if let Some(field) = field(name) {
            return field.name.clone();
        }
        let beginnings = name.match_indices('.').map(|(at, _)| (&name[..at], &name[at + 1..]));
        for (beginning, rest) in beginnings {
            let Some(field) = field(beginning) else { continue };
            let inner = match &field.kind {
                ParameterKind::Profile(Some(inner)) => self.type_named(inner),
                _ => None,
            };
            let rest = inner.map_or_else(|| rest.to_owned(), |inner| self.unaliased(inner, rest));
            return format!("{}.{rest}", field.name);
        }
        name.to_owned()
    }

    /// Declaration of a parameter in a type; its name may refer to nested profiles. `Err` if it is not
    /// permitted.
    pub(super) fn declared<'s>(
        &'s self,
        of: &'s ProfileType,
        name: &str,
        is_built_in: &dyn Fn(&str) -> bool,
    ) -> Result<Option<&'s FieldType>, String> {
        let unaliased = self.unaliased(of, name);
        let name = unaliased.as_str();
        let fields = self.fields_of(of);
        if let Some(field) = fields.iter().find(|field| field.name == name) {
            return Ok(Some(field));
        }
        let nested = fields.iter().find_map(|field| {
            let rest = name.strip_prefix(field.name.as_str())?.strip_prefix('.')?;
            Some((&field.kind, rest))
        });
        match nested {
            Some((ParameterKind::Profile(Some(inner)), rest)) => match self.type_named(inner) {
                Some(inner) => self.declared(inner, rest, &|_| false),
                None => Ok(None),
            },
            Some(_) => Ok(None),
            None if self.is_strict(of) && !(self.is_native(of) && is_built_in(name)) => {
                let hint = did_you_mean(name, fields.iter().map(|field| field.name.as_str()));
                Err(format!("it is not declared in the strict query profile type '{}'{hint}", of.name))
            }
            None => Ok(None),
        }
    }

    /// True if the value of a parameter is the id of a profile. A type with a field without a name has a
    /// value of its own, and so have the built-in ones.
    pub(super) fn is_reference(&self, of: &ProfileType, name: &str) -> bool {
        match self.declared(of, name, &|_| true) {
            Ok(Some(FieldType { kind: ParameterKind::Profile(None), .. })) => true,
            Ok(Some(FieldType { kind: ParameterKind::Profile(Some(inner)), .. })) => self
                .type_named(inner)
                .is_some_and(|inner| self.fields_of(inner).iter().all(|field| !field.name.is_empty())),
            _ => false,
        }
    }

    /// The type that a referenced profile must have, if it is declared in the application.
    pub(super) fn type_of_reference<'s>(&'s self, of: &'s ProfileType, name: &str) -> Option<&'s str> {
        match &self.declared(of, name, &|_| true).ok()??.kind {
            ParameterKind::Profile(Some(inner)) => self.type_named(inner).map(|inner| inner.name.as_str()),
            _ => None,
        }
    }

    /// Checks that all inherited and referenced types exist, and that there are no cycles. `left_out` and
    /// `way` as for profiles.
    pub(super) fn check_type(
        &self,
        of: &ProfileType,
        left_out: &BTreeSet<String>,
        way: &mut Vec<String>,
        steps: &mut usize,
    ) -> Result<(), Error> {
        if left_out.contains(&of.name) {
            return Ok(());
        }
        *steps += 1;
        let invalid = |reason: String| Err(Error::Invalid { position: of.position.clone(), reason });
        let depth = way.len();
        way.push(of.name.clone());
        if depth > DEPTH_MAX || *steps > STEPS_MAX {
            return invalid(format!("query profile type '{}' inherits itself, or too much", of.name));
        }
        if let Some(name) = of.references().find(|name| self.type_named(name).is_none()) {
            let hint = did_you_mean(name, self.types.keys().map(|id| id.name.as_str()));
            return invalid(format!(
                "query profile type '{}' uses '{name}', which is not declared{hint}",
                of.name
            ));
        }
        for parent in self.parents(of) {
            self.check_type(parent, left_out, way, steps)?;
        }
        way.pop();
        Ok(())
    }

    /// Checks the values of a profile against its type.
    pub(super) fn check_types_of_values(&self, profile: &WrittenProfile, findings: &mut PackageFindings) {
        let Some(of) = self.type_of(profile, 0) else { return };
        for entry in profile.entries() {
            let EntryContent::Value(value) = &entry.content else { continue };
            // Substituted text is only known for a request.
            let fault = match value.contains("%{") {
                true => None,
                false => self.fault(of, &entry.name, value, &|_| true),
            };
            if let Some(fault) = fault {
                let reason = format!("field '{}': {fault}", entry.name);
                findings.report(Error::Invalid { position: entry.position.clone(), reason });
            }
        }
    }

    /// Error in a parameter according to a type, if any.
    pub(super) fn fault(
        &self,
        of: &ProfileType,
        name: &str,
        value: &str,
        is_built_in: &dyn Fn(&str) -> bool,
    ) -> Option<String> {
        match self.declared(of, name, is_built_in) {
            Err(reason) => Some(reason),
            Ok(None) => None,
            Ok(Some(field)) => field.kind.fault(value).map(|fault| format!("{fault}, found '{value}'")),
        }
    }
}
