//! Writes of documents of types, by the rules of `/document/v1/`.

use std::sync::Arc;

use millrace_document::json::ParseOptions;
use millrace_document::{
    Document, DocumentId, DocumentOperation, DocumentUpdate, FieldSet, OperationAction, OperationKind,
    Timestamp, json,
};
use millrace_indexing::{ComponentFailure, IndexingCaller};
use millrace_store::{CommittedWrite, DocumentWrite, StoreChange, StoreModification};
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::{TypeBinding, routing_for, routing_of, version_of};
use crate::Error;
use crate::catalog::random_text;
use crate::placing::PlacedWrite;
use crate::service::ElasticService;
use crate::source_text::typed_text;
use crate::storage;
use crate::update::{UpdateBody, UpdateEffect, merge};
use crate::update_script::{ScriptedDocument, UpdateScript};
use crate::writing::{
    DecidedWrite, DecisionSlot, ShownUpdate, SingleWrite, UpdateCharge, WriteAction, WriteConditions,
    WriteResult,
};

/// Beginning of an operation whose fields are a document.
const FIELDS: &str = "{\"fields\":";

/// Checks a write before anything is done, and fills in the group of its document.
///
/// # Errors
/// The group is not named, is full, or is none of the caller's; versions are given; the document is too
/// large.
pub(crate) fn place(
    service: &ElasticService,
    binding: &TypeBinding,
    mut write: SingleWrite,
) -> Result<SingleWrite, Error> {
    if write.conditions.version.is_some() {
        return Err(Error::IllegalArgument(format!(
            "the versions of documents of [{}] are timestamps that the store gives; use if_seq_no and if_primary_term \
             instead of version",
            binding.name()
        )));
    }
    let routing = routing_for(service, binding, write.id.as_deref(), write.routing.as_deref());
    let id = match &write.id {
        Some(name) => binding.document_id(name, routing.as_deref())?,
        None => new_id(binding, routing.as_deref())?,
    };
    let permit = service.caller.permit(id.group())?;
    service.caller.admit_group(id.group())?;
    if write.action != WriteAction::Delete {
        let bytes = write.bytes();
        let clusters = &binding.kind.clusters;
        clusters.iter().try_for_each(|cluster| cluster.limits.check_operation(bytes))?;
        write.size = service.caller.admit_write(&permit, &id, bytes)?;
    }
    write.routing = routing_of(id.group());
    Ok(write)
}

fn new_id(binding: &TypeBinding, routing: Option<&str>) -> Result<DocumentId, Error> {
    let group = binding.group(None, routing)?;
    Ok(DocumentId::new(binding.name(), binding.name(), &group, &random_text(20))?)
}

/// Prepares a write, which has its group. The decision is taken when the write's turn among those of its
/// document comes; at once, if the document gets a new id.
///
/// # Errors
/// The document does not fit its type, or a model that its fields need fails.
pub(crate) fn prepare(
    service: &ElasticService,
    binding: &Arc<TypeBinding>,
    placed: &PlacedWrite,
) -> Result<DecidedWrite, Error> {
    let write = &placed.write;
    let (reader, effect) = TypedReader::read(service, binding, write)?;
    let id = reader.id.clone();
    if let (TypedEffect::Put(document), None) = (&effect, &write.id) {
        let result = reader.put_result(false);
        let change = StoreChange::Put(document.clone());
        let slot = Arc::new(Mutex::new(Some(Ok(result))));
        return Ok(DecidedWrite { write: DocumentWrite { id, change }, slot });
    }
    let slot = DecisionSlot::default();
    let decided = Arc::clone(&slot);
    let (action, conditions) = (write.action, write.conditions.clone());
    let shown = ShownUpdate::of(write);
    let charge = UpdateCharge::of(service, write, Some(id.group()));
    // Conflicts and scripts show the version. Others on the document are not held up by models.
    let needs_version = action == WriteAction::Create
        || matches!(&effect, TypedEffect::Update { body, .. } if body.script.is_some())
        || conditions.if_seq_no.is_some()
        || reader.binding.kind.scripts.waits();
    let modify = move |current: Option<Timestamp>, stored: Option<Document>| {
        let decision = reader.check(action, &conditions, current);
        let decision = decision.and_then(|()| reader.decide(effect, stored, current, shown.as_ref()));
        let decision = decision.and_then(|decided| {
            charge.map_or(Ok(()), |charge| charge.count(&decided.1))?;
            Ok(decided)
        });
        let (result, modification) = match decision {
            Ok((result, modification)) => (Ok(result), modification),
            Err(error) => (Err(error), StoreModification::Nothing),
        };
        *decided.lock() = Some(result);
        Ok(modification)
    };
    let change = match needs_version {
        true => StoreChange::Modify(Box::new(move |stored| {
            let (document, current) = stored.unzip();
            modify(current, document)
        })),
        false => StoreChange::ModifyContent(Box::new(move |document| modify(None, document))),
    };
    Ok(DecidedWrite { write: DocumentWrite { id, change }, slot })
}

/// Sets the version and the sequence number of a result to the timestamp of the write.
pub(crate) fn settle(result: WriteResult, committed: CommittedWrite) -> WriteResult {
    stamped(result, committed.timestamp)
}

/// [`settle`], by the timestamp.
pub(super) fn stamped(mut result: WriteResult, timestamp: Timestamp) -> WriteResult {
    let version = version_of(timestamp);
    (result.version, result.seq_no) = (version, version);
    if let Some(get) = &mut result.get {
        get["_seq_no"] = version.into();
    }
    result
}

/// Reader of the documents of one write.
pub(super) struct TypedReader {
    binding: Arc<TypeBinding>,
    pub(super) id: DocumentId,
    options: ParseOptions,
}

/// Effect that a write asks for.
#[derive(Clone)]
pub(super) enum TypedEffect {
    Put(Document),
    Remove,
    Update { body: UpdateBody, inserted: TypedInsertion },
}

/// Effect of an update if there is no document.
#[derive(Clone)]
pub(super) enum TypedInsertion {
    /// An error: there is nothing to insert.
    Missing,
    /// None, as a script decides.
    Nothing,
    /// An error of a script.
    Failed(Error),
    Document(Document),
}

/// Effect of an update on a stored document.
enum TypedUpdate {
    Nothing,
    Remove,
    Write(Document),
}

impl TypedReader {
    /// Reads a write, which has its group, and counts what its document has beyond the bytes that were sent.
    ///
    /// # Errors
    /// The document does not fit its type, or a model that its fields need fails.
    pub(super) fn read(
        service: &ElasticService,
        binding: &Arc<TypeBinding>,
        write: &SingleWrite,
    ) -> Result<(Self, TypedEffect), Error> {
        let routing = write.routing.as_deref();
        let id = match &write.id {
            Some(name) => binding.document_id(name, routing)?,
            None => new_id(binding, routing)?,
        };
        let mut options = ParseOptions {
            ignore_undefined_fields: binding.ignores_undefined_fields,
            ..ParseOptions::default()
        };
        options.element_bytes_max = service.caller.element_bytes_max().unwrap_or(options.element_bytes_max);
        let reader = TypedReader { binding: Arc::clone(binding), id, options };
        let effect = reader.effect(write)?;
        if let TypedEffect::Put(document) = &effect
            && let Some(rewrites) = service.caller.rewrites(Some(reader.id.group()))
        {
            // What the indexing statements have added.
            rewrites.count(document.stored_bytes().saturating_sub(write.bytes()));
        }
        Ok((reader, effect))
    }

    /// Reads what a write brings.
    fn effect(&self, write: &SingleWrite) -> Result<TypedEffect, Error> {
        match (write.action, &write.update) {
            (WriteAction::Delete, _) => Ok(TypedEffect::Remove),
            (WriteAction::Update, Some(body)) => {
                // What changes a stored document is read with it: without one, that is missing.
                let inserted = match self.insertion(body) {
                    // The script may do for a stored document.
                    Err(error) if body.script.is_some() && body.scripted_upsert => {
                        TypedInsertion::Failed(error)
                    }
                    inserted => inserted?,
                };
                Ok(TypedEffect::Update { body: body.clone(), inserted })
            }
            _ => Ok(TypedEffect::Put(self.indexed(self.parsed(&write.source)?)?)),
        }
    }

    /// Effect of an update if there is no document.
    fn insertion(&self, body: &UpdateBody) -> Result<TypedInsertion, Error> {
        Ok(match self.described(None, |about| body.inserted(about))? {
            None => TypedInsertion::Missing,
            Some(UpdateEffect::Write(document)) => {
                let text = Value::Object(document).to_string();
                TypedInsertion::Document(self.indexed(self.parsed(&text)?)?)
            }
            Some(UpdateEffect::Noop | UpdateEffect::Remove) => TypedInsertion::Nothing,
        })
    }

    /// Parses a whole document.
    fn parsed(&self, source: &str) -> Result<Document, Error> {
        // More than one object would add members to the operation around it.
        let whole = serde_json::from_str::<IgnoredAny>(source);
        whole.map_err(|error| Error::document(format!("failed to parse: {error}")))?;
        if !source.trim_ascii_start().starts_with('{') {
            return Err(Error::document("failed to parse: a document is a JSON object".to_owned()));
        }
        match self.operation(OperationKind::Put, &format!("{FIELDS}{source}}}"))?.action {
            OperationAction::Put(document) => Ok(document),
            _ => Err(Error::Internal("a put was read as another operation".to_owned())),
        }
    }

    fn operation(&self, kind: OperationKind, text: &str) -> Result<DocumentOperation, Error> {
        let document_type = self.binding.document_type();
        json::parse(text.as_bytes(), kind, self.id.clone(), document_type, self.options)
            .map_err(|error| self.misfit(error))
    }

    /// Error of a document that does not fit its type. Places are those in the document.
    fn misfit(&self, error: millrace_document::Error) -> Error {
        let place = |line: usize, column: usize| match line {
            1 => format!("[1:{}]", column.saturating_sub(FIELDS.len())),
            line => format!("[{line}:{column}]"),
        };
        match error {
            millrace_document::Error::UnknownField { field, .. } => {
                Error::Strict { mode: "strict".to_owned(), field, parent: "_doc".to_owned() }
            }
            millrace_document::Error::Field { field, reason, line, column } => Error::document(format!(
                "{} failed to parse field [{field}] in document with id '{}': {reason}",
                place(line, column),
                self.binding.shown_id(&self.id)
            )),
            millrace_document::Error::Json { reason, line, column } => {
                Error::document(format!("{} failed to parse: {reason}", place(line, column)))
            }
            other => Error::document(other.to_string()),
        }
    }

    /// Runs the indexing statements of a document, and checks that a cluster takes it.
    fn indexed(&self, document: Document) -> Result<Document, Error> {
        let kind = &self.binding.kind;
        let document = kind.scripts.run(document, &caller()).map_err(not_indexed)?;
        match kind.clusters.iter().any(|cluster| cluster.accepts(&document)) {
            true => Ok(document),
            false => Err(Error::document(format!(
                "the document '{}' belongs to none of the clusters {}: their selections exclude it",
                self.binding.shown_id(&self.id),
                kind.cluster_names()
            ))),
        }
    }

    /// Checks the conditions of a write by the time of the stored version, if there is one.
    ///
    /// # Errors
    /// One does not hold.
    pub(super) fn check(
        &self,
        action: WriteAction,
        conditions: &WriteConditions,
        current: Option<Timestamp>,
    ) -> Result<(), Error> {
        let conflict = |reason: String| {
            let (id, index) = (self.binding.shown_id(&self.id), self.binding.name().to_owned());
            Err(Error::VersionConflict { id, reason, index })
        };
        let current = current.map(version_of);
        if let (WriteAction::Create, Some(current)) = (action, current) {
            return conflict(format!("document already exists (current version [{current}])"));
        }
        let (Some(seq_no), Some(term)) = (conditions.if_seq_no, conditions.if_primary_term) else {
            return Ok(());
        };
        match current {
            Some(current) if current == seq_no && term == 1 => Ok(()),
            Some(current) => conflict(format!(
                "required seqNo [{seq_no}], primary term [{term}]. current document has seqNo [{current}] and primary term [1]"
            )),
            None if action == WriteAction::Update => Ok(()),
            None => conflict(format!(
                "required seqNo [{seq_no}], primary term [{term}]. but no document was found"
            )),
        }
    }

    /// Decides on a write whose conditions hold. `current`: time of the stored version, which scripts show.
    ///
    /// # Errors
    /// The document to update does not exist; the updated document does not fit its type; the answer has no
    /// memory to show it.
    pub(super) fn decide(
        &self,
        effect: TypedEffect,
        stored: Option<Document>,
        current: Option<Timestamp>,
        shown: Option<&ShownUpdate>,
    ) -> Result<(WriteResult, StoreModification), Error> {
        let with_document = |result: WriteResult, document: &Document| -> Result<WriteResult, Error> {
            let get = shown.map(|shown| self.shown(document, shown)).transpose()?;
            Ok(WriteResult { get, ..result })
        };
        match (effect, stored) {
            (TypedEffect::Put(document), stored) => {
                Ok((self.put_result(stored.is_some()), StoreModification::Put(document)))
            }
            (TypedEffect::Remove, Some(_)) => Ok((self.removal_result(true), StoreModification::Remove)),
            (TypedEffect::Remove, None) => Ok((self.removal_result(false), StoreModification::Nothing)),
            (TypedEffect::Update { inserted, .. }, None) => match inserted {
                TypedInsertion::Document(document) => {
                    Ok((with_document(self.put_result(false), &document)?, StoreModification::Put(document)))
                }
                TypedInsertion::Nothing => Ok((self.result("noop", 200), StoreModification::Nothing)),
                TypedInsertion::Failed(error) => Err(error),
                TypedInsertion::Missing => Err(Error::NoDocument {
                    id: self.binding.shown_id(&self.id),
                    index: self.binding.name().to_owned(),
                }),
            },
            (TypedEffect::Update { body, .. }, Some(document)) => {
                let updated = match &body.script {
                    Some(script) => self.scripted(script, &document, current)?,
                    None => self.merged(&body, &document)?,
                };
                match updated {
                    TypedUpdate::Write(after) => {
                        Ok((with_document(self.put_result(true), &after)?, StoreModification::Put(after)))
                    }
                    TypedUpdate::Remove => Ok((self.removal_result(true), StoreModification::Remove)),
                    TypedUpdate::Nothing => {
                        let result = with_document(self.result("noop", 200), &document)?;
                        Ok((result, StoreModification::Nothing))
                    }
                }
            }
        }
    }

    /// Calls a function with the description of the document, which has a version if it is stored.
    fn described<T>(
        &self,
        stored: Option<Timestamp>,
        read: impl FnOnce(ScriptedDocument<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (id, routing) = (self.binding.shown_id(&self.id), routing_of(self.id.group()));
        read(ScriptedDocument {
            index: self.binding.name(),
            id: &id,
            routing: routing.as_deref(),
            version: stored.map(version_of),
        })
    }

    /// Effect of a script on a stored document.
    fn scripted(
        &self,
        script: &UpdateScript,
        stored: &Document,
        current: Option<Timestamp>,
    ) -> Result<TypedUpdate, Error> {
        let shown = self.members(stored)?;
        let before = shown.clone();
        let mut after = match self.described(current, |about| script.run(shown, about))? {
            UpdateEffect::Noop => return Ok(TypedUpdate::Nothing),
            UpdateEffect::Remove => return Ok(TypedUpdate::Remove),
            UpdateEffect::Write(after) => after,
        };
        let mut changes = Map::new();
        for (name, value) in before {
            match after.shift_remove(&name) {
                Some(kept) if kept == value => {}
                Some(changed) => _ = changes.insert(name, json!({ "assign": changed })),
                // A field that is set to null is removed.
                None => _ = changes.insert(name, json!({ "assign": null })),
            }
        }
        changes.extend(after.into_iter().map(|(name, value)| (name, json!({ "assign": value }))));
        match changes.is_empty() {
            true => Ok(TypedUpdate::Write(stored.clone())),
            false => self.changed(changes, stored),
        }
    }

    /// Effect of a part of a document on the stored one.
    fn merged(&self, body: &UpdateBody, stored: &Document) -> Result<TypedUpdate, Error> {
        let shown = self.members(stored)?;
        let mut changes = Map::new();
        for (name, value) in body.doc.iter().flatten() {
            let value = match (shown.get(name), value) {
                (Some(Value::Object(own)), Value::Object(part)) => {
                    let mut own = own.clone();
                    if !merge(&mut own, part) {
                        continue;
                    }
                    Value::Object(own)
                }
                (Some(own), value) if own == value => continue,
                (None, Value::Null) => continue,
                (_, value) => value.clone(),
            };
            changes.insert(name.clone(), json!({ "assign": value }));
        }
        match (changes.is_empty(), body.detect_noop) {
            (true, true) => Ok(TypedUpdate::Nothing),
            (true, false) => Ok(TypedUpdate::Write(stored.clone())),
            (false, _) => self.changed(changes, stored),
        }
    }

    /// A stored document with changes of its fields.
    fn changed(&self, changes: Map<String, Value>, stored: &Document) -> Result<TypedUpdate, Error> {
        let text = json!({ "fields": changes }).to_string();
        let OperationAction::Update(update) = self.operation(OperationKind::Update, &text)?.action else {
            return Err(Error::Internal("an update was read as another operation".to_owned()));
        };
        self.apply(&update, stored.clone()).map(TypedUpdate::Write)
    }

    /// Fields of a document as they are shown.
    fn members(&self, document: &Document) -> Result<Map<String, Value>, Error> {
        let kind = &self.binding.kind;
        let text = typed_text(kind, &kind.shown(document), &FieldSet::Document)?;
        serde_json::from_str(&text).map_err(|error| Error::Internal(error.to_string()))
    }

    /// Member `get` of the answer of an update.
    fn shown(&self, document: &Document, shown: &ShownUpdate) -> Result<Value, Error> {
        // A document type shows all of its fields.
        shown.get(0, &Map::new(), &self.members(document)?)
    }

    fn apply(&self, update: &DocumentUpdate, stored: Document) -> Result<Document, Error> {
        let kind = &self.binding.kind;
        let updated = update.apply(Some(stored), self.binding.document_type());
        let updated = updated.map_err(|error| self.misfit(error))?;
        kind.change_shown(updated, |shown| kind.scripts.run_update(shown, update, &caller()))
            .map_err(not_indexed)
    }

    /// Result of a put.
    pub(super) fn put_result(&self, existed: bool) -> WriteResult {
        match existed {
            true => self.result("updated", 200),
            false => self.result("created", 201),
        }
    }

    /// Result of a removal.
    pub(super) fn removal_result(&self, existed: bool) -> WriteResult {
        match existed {
            true => self.result("deleted", 200),
            false => self.result("not_found", 404),
        }
    }

    fn result(&self, result: &'static str, status: u16) -> WriteResult {
        WriteResult {
            index: self.binding.name().to_owned(),
            id: self.binding.shown_id(&self.id),
            version: 0,
            seq_no: 0,
            result,
            status,
            get: None,
            unmapped: None,
        }
    }
}

/// Caller of indexing statements.
fn caller() -> IndexingCaller {
    IndexingCaller { deadline: Some(storage::deadline()), ..IndexingCaller::default() }
}

fn not_indexed(error: millrace_indexing::Error) -> Error {
    match error {
        millrace_indexing::Error::Component { failure: ComponentFailure::Overloaded(_), .. } => {
            Error::Rejected(error.to_string())
        }
        millrace_indexing::Error::Component { failure: ComponentFailure::Timeout(_), .. } => {
            Error::Unavailable(error.to_string())
        }
        other => Error::document(other.to_string()),
    }
}
