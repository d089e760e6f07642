//! Resolution of declared types to document types.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_document::{DataType, DocumentField, StructType};

use crate::parse::Name;
use crate::parse::syntax::{FieldDecl, StructDecl, TypeDecl};
use crate::suggest::did_you_mean;
use crate::{Error, PackageFindings, SourcePosition};

/// Names of single-value types.
const PRIMITIVES: &[(&str, DataType)] = &[
    ("string", DataType::String),
    ("bool", DataType::Bool),
    ("byte", DataType::Byte),
    ("int", DataType::Int),
    ("long", DataType::Long),
    ("float16", DataType::Float16),
    ("float", DataType::Float),
    ("double", DataType::Double),
    ("position", DataType::Position),
    ("raw", DataType::Raw),
    ("uri", DataType::Uri),
    ("predicate", DataType::Predicate),
];

/// Levels of structs, at the deepest of which one that contains itself lacks the members that do so.
const NESTING_MAX: usize = 8;

/// Maximum number of structs inside others, in one schema.
const NESTED_MAX: usize = 5_000;

/// Struct types of one document type, each resolved once.
pub(super) struct StructTypes<'a> {
    declared: BTreeMap<&'a str, &'a StructDecl>,
    /// Results so far. An invalid struct makes all that use it invalid, for the same reason.
    resolved: BTreeMap<&'a str, Result<Arc<StructType>, Error>>,
    /// True if a member was left out at the deepest level of a struct that contains itself.
    has_cut: bool,
    /// Number of structs that were resolved inside others.
    nested: usize,
}

impl<'a> StructTypes<'a> {
    /// Resolves all structs. Reports those that inherit themselves, have an unknown type, or a duplicate
    /// name.
    pub(super) fn new(structs: &'a [StructDecl], findings: &mut PackageFindings) -> Self {
        let mut types =
            StructTypes { declared: BTreeMap::new(), resolved: BTreeMap::new(), has_cut: false, nested: 0 };
        for decl in structs {
            if PRIMITIVES.iter().any(|(name, _)| *name == decl.name.value) || decl.name.value == "tag" {
                let reason = format!(
                    "'{}' is the name of a type already: choose another for the struct",
                    decl.name.value
                );
                findings.report(Error::Invalid { position: decl.name.position.clone(), reason });
                continue;
            }
            types.declared.insert(&decl.name.value, decl);
        }
        for decl in types.declared.values().copied().collect::<Vec<_>>() {
            findings.ok_or_report(types.struct_type(decl, &mut Vec::new()));
        }
        types
    }

    /// Type of a document field.
    pub(super) fn resolve(&mut self, decl: &'a TypeDecl, field: &'a FieldDecl) -> Result<DataType, Error> {
        match self.data_type(decl, &field.name.position, field, &mut Vec::new())? {
            Some(data_type) => Ok(data_type),
            None => {
                let reason = format!("the type of '{}' contains itself", field.name.value);
                Err(Error::Invalid { position: field.name.position.clone(), reason })
            }
        }
    }

    /// The declared type; `None` for a struct that is nested in itself too deep.
    fn data_type(
        &mut self,
        decl: &'a TypeDecl,
        position: &SourcePosition,
        field: &'a FieldDecl,
        within: &mut Vec<&'a str>,
    ) -> Result<Option<DataType>, Error> {
        let invalid = |position: &SourcePosition, reason: String| {
            Err(Error::Invalid { position: position.clone(), reason })
        };
        Ok(Some(match decl {
            TypeDecl::Tensor(tensor_type) => DataType::Tensor(tensor_type.clone()),
            TypeDecl::Array(element) => {
                let Some(element) = self.data_type(element, position, field, within)? else {
                    return Ok(None);
                };
                DataType::Array(Box::new(element))
            }
            TypeDecl::Map(key, value) => {
                let Some(key) = self.data_type(key, position, field, within)? else { return Ok(None) };
                if !is_primitive(&key) {
                    return invalid(
                        position,
                        format!("{key} cannot be the key of a map: use string or a number"),
                    );
                }
                let Some(value) = self.data_type(value, position, field, within)? else { return Ok(None) };
                DataType::Map(Box::new(key), Box::new(value))
            }
            TypeDecl::WeightedSet(element) => {
                let Some(element) = self.data_type(element, position, field, within)? else {
                    return Ok(None);
                };
                let is_allowed = matches!(
                    element,
                    DataType::String | DataType::Uri | DataType::Byte | DataType::Int | DataType::Long
                );
                if !is_allowed {
                    return invalid(
                        position,
                        format!("a weightedset cannot hold {element}: use string, uri, byte, int or long"),
                    );
                }
                DataType::WeightedSet {
                    element: Box::new(element),
                    create_if_nonexistent: field.create_if_nonexistent,
                    remove_if_zero: field.remove_if_zero,
                }
            }
            TypeDecl::Reference(target) => {
                return invalid(
                    &target.position,
                    "references are not supported, since each group's documents are searched by themselves: \
                     feed the values that you need with the document"
                        .to_owned(),
                );
            }
            TypeDecl::Named(name) => return self.named(name, within),
        }))
    }

    fn named(&mut self, name: &'a Name, within: &mut Vec<&'a str>) -> Result<Option<DataType>, Error> {
        if let Some((_, data_type)) = PRIMITIVES.iter().find(|(known, _)| *known == name.value) {
            return Ok(Some(data_type.clone()));
        }
        if let Some(decl) = self.declared.get(name.value.as_str()).copied() {
            if within.len() >= NESTING_MAX && within.contains(&name.value.as_str()) {
                self.has_cut = true;
                return Ok(None);
            }
            return Ok(Some(DataType::Struct(self.struct_type(decl, within)?)));
        }
        let reason = match name.value.as_str() {
            // The former name of a weighted set of tags.
            "tag" => {
                return Ok(Some(DataType::WeightedSet {
                    element: Box::new(DataType::String),
                    create_if_nonexistent: true,
                    remove_if_zero: true,
                }));
            }
            unknown => {
                let known = PRIMITIVES.iter().map(|(name, _)| *name).chain(self.declared.keys().copied());
                format!(
                    "unknown type '{unknown}'{}: use a type such as string, int, long, double, tensor(…), array<…>, or declare 'struct {unknown}' in the document",
                    did_you_mean(unknown, known)
                )
            }
        };
        Err(Error::Invalid { position: name.position.clone(), reason })
    }

    fn struct_type(
        &mut self,
        decl: &'a StructDecl,
        within: &mut Vec<&'a str>,
    ) -> Result<Arc<StructType>, Error> {
        let name = decl.name.value.as_str();
        if let Some(done) = self.resolved.get(name) {
            return done.clone();
        }
        let cut_before = std::mem::replace(&mut self.has_cut, false);
        let resolved = self.members_of(decl, within);
        // A struct that was cut has fewer members here than elsewhere.
        if !self.has_cut || within.is_empty() {
            self.resolved.insert(name, resolved.clone());
        }
        self.has_cut |= cut_before;
        resolved
    }

    /// True if the struct is among those that it inherits.
    fn inherits_itself(&self, decl: &StructDecl) -> bool {
        let mut ancestors: Vec<&str> = decl.inherits.iter().map(|parent| parent.value.as_str()).collect();
        let mut at = 0;
        while let Some(name) = ancestors.get(at).copied() {
            let parents = self.declared.get(name).into_iter().flat_map(|parent| &parent.inherits);
            for parent in parents.map(|parent| parent.value.as_str()) {
                if !ancestors.contains(&parent) {
                    ancestors.push(parent);
                }
            }
            at += 1;
        }
        ancestors.contains(&decl.name.value.as_str())
    }

    fn members_of(
        &mut self,
        decl: &'a StructDecl,
        within: &mut Vec<&'a str>,
    ) -> Result<Arc<StructType>, Error> {
        let name = decl.name.value.as_str();
        let invalid = |position: &SourcePosition, reason: String| {
            Err(Error::Invalid { position: position.clone(), reason })
        };
        if self.inherits_itself(decl) {
            return invalid(&decl.name.position, format!("struct '{name}' inherits itself"));
        }
        self.nested += usize::from(!within.is_empty());
        if self.nested > NESTED_MAX {
            return invalid(
                &decl.name.position,
                format!(
                    "struct '{name}' contains itself too often: each of its fields that do so multiplies it"
                ),
            );
        }
        if within.len() == super::INHERITANCE_MAX {
            return invalid(
                &decl.name.position,
                format!("structs are nested more than {} deep", super::INHERITANCE_MAX),
            );
        }
        within.push(name);
        let mut fields: Vec<DocumentField> = Vec::new();
        for parent in &decl.inherits {
            let Some(parent_decl) = self.declared.get(parent.value.as_str()).copied() else {
                let hint = did_you_mean(&parent.value, self.declared.keys().copied());
                return invalid(&parent.position, format!("unknown struct '{}'{hint}", parent.value));
            };
            fields.extend(self.struct_type(parent_decl, within)?.fields.iter().cloned());
        }
        for field in &decl.fields {
            if fields.iter().any(|other| *other.name == field.name.value) {
                return invalid(
                    &field.name.position,
                    format!("struct '{name}' has a field '{}' already", field.name.value),
                );
            }
            let Some(type_decl) = &field.data_type else { continue };
            let Some(data_type) = self.data_type(type_decl, &field.name.position, field, within)? else {
                continue;
            };
            fields.push(DocumentField { name: field.name.value.as_str().into(), data_type });
        }
        within.pop();
        Ok(Arc::new(StructType { name: name.to_owned(), fields }))
    }
}

/// True for single values that can be compared.
fn is_primitive(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::String
            | DataType::Bool
            | DataType::Byte
            | DataType::Int
            | DataType::Long
            | DataType::Float16
            | DataType::Float
            | DataType::Double
    )
}

/// The type at `path` inside values of `data_type`: struct fields by name, `key` and `value` of maps; arrays
/// are traversed without a name.
pub(super) fn at_path(data_type: &DataType, path: &str) -> Result<DataType, String> {
    let mut here = data_type.clone();
    for part in path.split('.') {
        while let DataType::Array(element) | DataType::WeightedSet { element, .. } = here {
            here = *element;
        }
        here = match here {
            DataType::Map(key, value) => match part {
                "key" => *key,
                "value" => *value,
                _ => return Err(format!("a map has 'key' and 'value', not '{part}'")),
            },
            DataType::Struct(struct_type) => match struct_type.field(part) {
                Some(field) => field.data_type.clone(),
                None => {
                    let known = struct_type.fields.iter().map(|field| &*field.name);
                    return Err(format!(
                        "struct '{}' has no field '{part}'{}",
                        struct_type.name,
                        did_you_mean(part, known)
                    ));
                }
            },
            other => return Err(format!("{other} has no parts, and so no '{part}'")),
        };
    }
    Ok(here)
}

/// Paths and types of the struct and map members in a type that hold strings, numbers or truth values (or
/// arrays and sets of them); empty for a type without structs and maps.
pub(super) fn members(data_type: &DataType) -> Vec<(String, DataType)> {
    let mut found = Vec::new();
    add_members(data_type, "", &mut found);
    found
}

fn add_members(data_type: &DataType, path: &str, found: &mut Vec<(String, DataType)>) {
    let inner = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match bottom(data_type) {
        DataType::Map(key, value) => {
            add_members(key, &inner("key"), found);
            add_members(value, &inner("value"), found);
        }
        DataType::Struct(struct_type) => {
            let members = struct_type.fields.iter();
            members.for_each(|member| add_members(&member.data_type, &inner(&member.name), found));
        }
        DataType::String
        | DataType::Uri
        | DataType::Bool
        | DataType::Byte
        | DataType::Int
        | DataType::Long
        | DataType::Float
        | DataType::Double
            if !path.is_empty() =>
        {
            found.push((path.to_owned(), data_type.clone()));
        }
        _ => {}
    }
}

/// Element type inside nested arrays and weighted sets.
pub(super) fn bottom(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Array(element) | DataType::WeightedSet { element, .. } => bottom(element),
        other => other,
    }
}
