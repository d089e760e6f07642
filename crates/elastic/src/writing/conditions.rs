//! Conditions of a write: on the version of its document, and on its sequence number.

use super::{SingleWrite, WriteAction};
use crate::Error;
use crate::catalog::OpenIndex;
use crate::storage::StoredSource;

/// Longest id of a document in bytes.
const ID_BYTES_MAX: usize = 512;

/// Reason why a version of the store itself is no condition of a write.
const NO_INTERNAL_VERSION: &str = "internal versioning can not be used for optimistic concurrency control. Please use `if_seq_no` and \
                                   `if_primary_term` instead";

/// Rule by which the version of a write is compared with that of the stored document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum VersionRule {
    #[default]
    Internal,
    /// Higher than the stored one.
    External,
    /// At least as high as the stored one.
    ExternalGte,
}

impl VersionRule {
    /// Parses `version_type`.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "internal" => Ok(VersionRule::Internal),
            "external" | "external_gt" => Ok(VersionRule::External),
            "external_gte" => Ok(VersionRule::ExternalGte),
            other => Err(Error::IllegalArgument(format!("No version type match [{other}]"))),
        }
    }
}

/// Conditions of a write.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteConditions {
    pub(crate) version: Option<i64>,
    pub(crate) rule: VersionRule,
    pub(crate) if_seq_no: Option<i64>,
    pub(crate) if_primary_term: Option<i64>,
}

/// Checks a write before anything is done.
pub(crate) fn check(write: &SingleWrite) -> Result<(), Error> {
    let WriteConditions { version, rule, if_seq_no, if_primary_term } = &write.conditions;
    if let Some(id) = &write.id {
        if id.is_empty() {
            return Err(Error::IllegalArgument("if _id is specified it must not be empty".to_owned()));
        }
        if id.len() > ID_BYTES_MAX {
            return Err(Error::IllegalArgument(format!(
                "id [{id}] is too long, must be no longer than {ID_BYTES_MAX} bytes but was: {}",
                id.len()
            )));
        }
    }
    if let Some(number) = if_seq_no.filter(|number| *number < 0) {
        return Err(Error::IllegalArgument(format!(
            "sequence numbers must be non negative. got [{number}]."
        )));
    }
    if write.action == WriteAction::Create {
        let unsupported = match (rule, version) {
            (VersionRule::External | VersionRule::ExternalGte, _) => Some("only support internal versioning"),
            (VersionRule::Internal, Some(_)) => Some("do not support explicit versions"),
            _ if if_seq_no.is_some() || if_primary_term.is_some() => Some("do not support compare and set"),
            _ => None,
        };
        if let Some(reason) = unsupported {
            return Err(Error::Validation(vec![format!("create operations {reason}. use index instead")]));
        }
    }
    let mut wrong = Vec::new();
    if write.id.is_none() && (*rule != VersionRule::Internal || version.is_some()) {
        wrong.push("an id must be provided if version type or value are set".to_owned());
    }
    if *rule != VersionRule::Internal && version.is_none() {
        wrong.push("illegal version value [-1] for version type [EXTERNAL]".to_owned());
    }
    if *rule == VersionRule::Internal && version.is_some() {
        wrong.push(NO_INTERNAL_VERSION.to_owned());
    }
    if version.is_some_and(|version| version < 0) {
        wrong.push("illegal version value".to_owned());
    }
    if if_seq_no.is_some() != if_primary_term.is_some() {
        wrong.push(match if_seq_no {
            Some(_) => "ifSeqNo is set, but primary term is [0]".to_owned(),
            None => "ifSeqNo is unassigned, but primary term is set".to_owned(),
        });
    }
    if write.action == WriteAction::Update && (*rule != VersionRule::Internal || version.is_some()) {
        wrong = vec![NO_INTERNAL_VERSION.to_owned()];
    }
    // A condition that holds for one state of the document holds neither for a later one nor for none.
    if let (Some(update), Some(_)) = (&write.update, if_seq_no) {
        if update.retries.is_some_and(|retries| retries > 0) {
            wrong.push("compare and write operations can not be retried".to_owned());
        }
        if update.doc_as_upsert {
            wrong.push("compare and write operations can not be used with upsert".to_owned());
        }
        if update.upsert.is_some() {
            wrong.push("upsert requests don't support `if_seq_no` and `if_primary_term`".to_owned());
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error::Validation(wrong)) }
}

/// Version of the document after the write, if its conditions hold.
pub(super) fn check_conditions(
    index: &OpenIndex,
    id: &str,
    write: &SingleWrite,
    stored: Option<&StoredSource>,
) -> Result<i64, Error> {
    let conflict = |reason: String| {
        Err(Error::VersionConflict { id: id.to_owned(), reason, index: index.entry.name.clone() })
    };
    let WriteConditions { version, rule, if_seq_no, if_primary_term } = &write.conditions;
    if write.action == WriteAction::Create
        && let Some(stored) = stored
    {
        return conflict(format!("document already exists (current version [{}])", stored.version));
    }
    if let (Some(seq_no), Some(term)) = (if_seq_no, if_primary_term) {
        match stored {
            Some(stored) if stored.seq_no == *seq_no && *term == 1 => {}
            Some(stored) => {
                return conflict(format!(
                    "required seqNo [{seq_no}], primary term [{term}]. current document has seqNo [{}] and primary term [1]",
                    stored.seq_no
                ));
            }
            None if write.action == WriteAction::Update => {}
            None => {
                return conflict(format!(
                    "required seqNo [{seq_no}], primary term [{term}]. but no document was found"
                ));
            }
        }
    }
    let current = match stored {
        Some(stored) => Some(stored.version),
        None => index.live.tombstone(id),
    };
    match (rule, version) {
        (VersionRule::Internal, _) | (_, None) => Ok(current.unwrap_or(0) + 1),
        (rule, Some(version)) => {
            let is_lower = |current: i64| match rule {
                VersionRule::ExternalGte => *version < current,
                _ => *version <= current,
            };
            match current {
                Some(current) if is_lower(current) => {
                    let relation =
                        if *rule == VersionRule::ExternalGte { "higher" } else { "higher or equal" };
                    conflict(format!(
                        "current version [{current}] is {relation} to the one provided [{version}]"
                    ))
                }
                _ => Ok(*version),
            }
        }
    }
}
