//! Differences between two versions of an application: those without effect, those that require data to be
//! derived again, and those that need a permission.
//!
//! Columns that are derived from stored values (words of text) are derived again automatically, so most
//! changes of matching require no action. Results of indexing statements stay as they are until their
//! documents are written again.
//!
//! Only fields that both versions have are compared. A field that is removed and declared again, with any
//! type, needs no permission: the store keeps values with the types that they were stored with, and shows
//! those of the declared type.

use std::sync::Arc;

use millrace_document::DataType;

use crate::{Application, ContentCluster, Error, PackageFindings, Schema, SchemaField, ValidationOverride};

/// Maximum number of days that a validation override may reach ahead.
const OVERRIDE_DAYS_MAX: i64 = 30;

/// Changes for existing documents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplicationChanges {
    /// Actions by document type and field.
    pub actions: Vec<ChangeAction>,
}

/// Required action for a changed field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeAction {
    /// Document type.
    pub document_type: Arc<str>,
    /// Name of the field.
    pub field: Arc<str>,
    /// Required action.
    pub effect: ChangeEffect,
    /// Description of the change, for people.
    pub reason: String,
}

/// Required action for existing documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeEffect {
    /// Columns derived from the field's values are derived again; searches see the change at once.
    Derive,
    /// The indexing statements must run again over stored documents; until then the field has its old values.
    Reindex,
    /// Documents must be fed again: stored values are not of the new type, and are hidden until the old one
    /// is declared again.
    Refeed,
}

/// Compares two versions of an application; `today` is in days since 1970-01-01 (UTC).
///
/// Reports an [`Error::Override`] for each change that loses data and that validation-overrides.xml of the
/// new version does not allow today, or an [`Error::Invalid`] for an override that reaches too far ahead.
pub fn compare(
    old: &Application,
    new: &Application,
    today: i64,
    findings: &mut PackageFindings,
) -> ApplicationChanges {
    let mut changes = ApplicationChanges::default();
    let Some(permissions) = findings.ok_or_report(ChangePermissions::new(&new.overrides, today)) else {
        return changes;
    };
    for cluster in &old.content {
        let after = new.content.iter().find(|other| other.id == cluster.id);
        compare_clusters(cluster, after, &permissions, findings);
    }
    for (name, schema) in &new.schemas {
        if let Some(before) = old.schemas.get(name) {
            compare_schemas(before, schema, &permissions, &mut changes, findings);
        }
    }
    changes
}

/// Permissions of validation-overrides.xml on one day.
struct ChangePermissions<'a> {
    overrides: &'a [ValidationOverride],
    today: i64,
}

impl<'a> ChangePermissions<'a> {
    fn new(overrides: &'a [ValidationOverride], today: i64) -> Result<Self, Error> {
        if let Some(far) =
            overrides.iter().find(|allow| allow.until_day > today.saturating_add(OVERRIDE_DAYS_MAX))
        {
            let reason = format!(
                "the override '{}' reaches more than {OVERRIDE_DAYS_MAX} days ahead: choose an earlier day",
                far.id
            );
            return Err(Error::Invalid { position: far.position.clone(), reason });
        }
        Ok(ChangePermissions { overrides, today })
    }

    /// Passes if one of the ids is allowed; an error names the first one.
    fn check(&self, ids: &[&'static str], reason: String) -> Result<(), Error> {
        let named = self.overrides.iter().filter(|allow| ids.iter().any(|id| *id == allow.id));
        let reason = match named.max_by_key(|allow| allow.until_day) {
            Some(allow) if allow.until_day >= self.today => return Ok(()),
            Some(allow) => format!("{reason}; the override at {} has ended", allow.position),
            None => reason,
        };
        Err(Error::Override { id: ids[0], reason })
    }
}

fn compare_clusters(
    old: &ContentCluster,
    new: Option<&ContentCluster>,
    permissions: &ChangePermissions<'_>,
    findings: &mut PackageFindings,
) {
    let Some(new) = new else {
        let reason = format!("content cluster '{}' is removed, which removes all documents in it", old.id);
        findings.ok_or_report(permissions.check(&["content-cluster-removal"], reason));
        return;
    };
    for document in &old.documents {
        let name = &document.document_type;
        match new.document(name) {
            None => {
                let reason = format!(
                    "document type '{name}' is removed from content cluster '{}', which removes all its documents",
                    old.id
                );
                findings.ok_or_report(permissions.check(&["content-type-removal", "schema-removal"], reason));
            }
            Some(after) if after.mode.is_searched() != document.mode.is_searched() => {
                let reason = format!(
                    "document type '{name}' changes its mode from {} to {}",
                    document.mode.name(),
                    after.mode.name()
                );
                findings.ok_or_report(permissions.check(&["indexing-mode-change"], reason));
            }
            Some(_) => {}
        }
    }
}

fn compare_schemas(
    old: &Schema,
    new: &Schema,
    permissions: &ChangePermissions<'_>,
    changes: &mut ApplicationChanges,
    findings: &mut PackageFindings,
) {
    for (name, field) in &new.fields {
        let mut needs = |effect, reason: String| {
            let (document_type, field) = (Arc::clone(&new.name), Arc::clone(name));
            changes.actions.push(ChangeAction { document_type, field, effect, reason });
        };
        let Some(before) = old.fields.get(name) else {
            if field.synthetic {
                needs(
                    ChangeEffect::Reindex,
                    "the field is new, and made by its indexing statements".to_owned(),
                );
            }
            continue;
        };
        if !same_data(&before.data_type, &field.data_type) {
            let reason = format!(
                "Document type '{}': Field '{name}' changed: data type: '{}' -> '{}'",
                new.name, before.data_type, field.data_type
            );
            let ids: &[&'static str] = match (&before.data_type, &field.data_type) {
                (DataType::Tensor(_), DataType::Tensor(_)) => &["tensor-type-change", "field-type-change"],
                _ => &["field-type-change"],
            };
            findings.ok_or_report(permissions.check(ids, reason.clone()));
            needs(ChangeEffect::Refeed, reason);
        } else if transformation(before) != transformation(field) || before.synthetic != field.synthetic {
            needs(ChangeEffect::Reindex, "the indexing statements change".to_owned());
        } else if let Some(reason) = derivation_change(before, field) {
            needs(ChangeEffect::Derive, reason);
        }
    }
}

/// True if stored values of one type are valid for the other. A struct may gain and lose fields.
fn same_data(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::Array(a), DataType::Array(b)) => same_data(a, b),
        (DataType::WeightedSet { element: a, .. }, DataType::WeightedSet { element: b, .. }) => {
            same_data(a, b)
        }
        (DataType::Map(a_key, a), DataType::Map(b_key, b)) => same_data(a_key, b_key) && same_data(a, b),
        (DataType::Struct(a), DataType::Struct(b)) => a.fields.iter().all(|field| {
            b.field(&field.name).is_none_or(|other| same_data(&field.data_type, &other.data_type))
        }),
        _ => a == b,
    }
}

/// Indexing statements without white space and without the steps that only name the destination of the value.
fn transformation(field: &SchemaField) -> String {
    let text = field.indexing.as_ref().map_or("", |indexing| &indexing.value);
    let steps = text.split('|').map(|step| step.split_whitespace().collect::<Vec<_>>().join(" "));
    let kept: Vec<String> =
        steps.filter(|step| !matches!(step.as_str(), "" | "index" | "attribute" | "summary")).collect();
    kept.join(" | ")
}

/// Reason for which the words of a text field change; `None` if they do not.
fn derivation_change(old: &SchemaField, new: &SchemaField) -> Option<String> {
    if !new.is_text() {
        return None;
    }
    let what = if !old.is_text() {
        "its text becomes searchable by words"
    } else if old.matching.mode != new.matching.mode {
        "match changes"
    } else if old.matching.stemming != new.matching.stemming {
        "stemming changes"
    } else if old.matching.normalizing != new.matching.normalizing || old.matching.cased != new.matching.cased
    {
        "normalizing or casing changes"
    } else if (old.matching.max_length, old.matching.max_occurrences, old.matching.max_token_length)
        != (new.matching.max_length, new.matching.max_occurrences, new.matching.max_token_length)
    {
        "the limits of match change"
    } else if old.linguistics != new.linguistics {
        "linguistics changes"
    } else {
        return None;
    };
    Some(what.to_owned())
}
