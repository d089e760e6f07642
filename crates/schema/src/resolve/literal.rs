//! Fields that `rank: literal` adds: the words of a field as they are written.

use crate::field::literal_name;
use crate::parse::syntax::{FieldDecl, TypeDecl};
use crate::{FieldStemming, PackageFindings, SourcedText};

/// Added to the weight of the field.
const WEIGHT_MORE: i32 = 100;

/// True if a field has `rank: literal`, and words.
pub(super) fn has_literal(field: &FieldDecl) -> bool {
    field.literal.is_some() && field.data_type.as_ref().is_some_and(is_text)
}

fn is_text(data_type: &TypeDecl) -> bool {
    match data_type {
        TypeDecl::Named(name) => name.value == "string",
        TypeDecl::Array(element) => is_text(element),
        _ => false,
    }
}

/// Adds a field outside the document for each field with `rank: literal`. One that the schema declares itself
/// stays as it is.
pub(super) fn add_fields(
    document_fields: &[FieldDecl],
    outside_fields: &mut Vec<FieldDecl>,
    findings: &mut PackageFindings,
) {
    let mut added = Vec::new();
    for field in document_fields.iter().chain(&*outside_fields) {
        let Some(position) = &field.literal else { continue };
        let name = &field.name.value;
        if !has_literal(field) {
            let warning = format!(
                "{position}: rank: literal of '{name}' has no effect: it is for strings and arrays of strings"
            );
            findings.warnings.push(warning);
            continue;
        }
        let literal = SourcedText { value: literal_name(name), position: field.name.position.clone() };
        let is_declared = |other: &FieldDecl| other.name.value == literal.value;
        if document_fields.iter().chain(&*outside_fields).any(is_declared) {
            continue;
        }
        let indexing = SourcedText { value: format!("input {name} | index"), position: position.clone() };
        added.push(FieldDecl {
            indexing: Some(indexing),
            stemming: Some(FieldStemming::None),
            normalizing: Some(false),
            rank_type: Some("empty".to_owned()),
            weight: Some(field.weight.unwrap_or(100).saturating_add(WEIGHT_MORE)),
            ..FieldDecl::new(literal, field.data_type.clone())
        });
    }
    outside_fields.extend(added);
}
