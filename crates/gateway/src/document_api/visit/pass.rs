//! Passes over the store: the documents that a request reads, step by step.

use std::borrow::Cow;
use std::sync::Arc;

use millrace_access::{CallerGroups, RequestCaller};
use millrace_bucket::BucketId;
use millrace_document::{Document, DocumentGroup, DocumentId, Timestamp};
use millrace_node::pool::WorkFlow;
use millrace_node::search;
use millrace_node::{CompiledApplication, Error};
use millrace_schema::ContentCluster;
use millrace_selection::DocumentSelection;
use millrace_store::{Store, StoreVisit, ViewScope, VisitFilter, VisitPage, VisitSlice, VisitedVersion};

use super::PAGE;
use super::sliced;
use crate::document_api::DocumentCall;
use crate::document_api::path::DocumentScope;
use crate::document_api::write::holds;

/// A pass over the documents of a request.
#[derive(Clone)]
pub(in crate::document_api) struct VisitPass {
    pub(in crate::document_api) deployment: Arc<CompiledApplication>,
    store: Store,
    visit: StoreVisit,
    /// Group named by the path.
    group: Option<DocumentGroup>,
    /// Namespace of the documents; `None` for all.
    namespace: Option<String>,
    selection: Option<DocumentSelection>,
    /// Group that ids in the answer leave out.
    implied_group: Option<DocumentGroup>,
    /// True if another node asks for one bucket: its positions are those of the store.
    is_part: bool,
}

/// All documents of one type and namespace in a group, or in one bucket of it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::document_api) struct WholeGroup {
    pub(in crate::document_api) namespace: String,
    pub(in crate::document_api) document_type: String,
    pub(in crate::document_api) group: DocumentGroup,
    /// Bucket, if restricted to one.
    pub(in crate::document_api) part: Option<BucketId>,
}

/// Selected documents of one step of a pass, by their ids.
pub(in crate::document_api) struct SelectedIds {
    pub(in crate::document_api) ids: Vec<DocumentId>,
    /// Start of the next step; `None` at the end.
    pub(in crate::document_api) continuation: Option<String>,
}

/// Result of one step of a pass.
pub(in crate::document_api) struct VisitFound {
    pub(in crate::document_api) documents: Vec<VisitedVersion>,
    /// Start of the next step; `None` at the end.
    pub(in crate::document_api) continuation: Option<String>,
}

impl VisitPass {
    /// Creates the pass from the path and the parameters of a request.
    pub(in crate::document_api) fn new(call: &DocumentCall, documents: DocumentScope) -> Result<Self, Error> {
        let deployment = call.deployment()?;
        let parameters = &call.parameters;
        let cluster = parameters.get("cluster").map(|id| deployment.cluster(id)).transpose()?;
        let document_type = documents.namespace_and_type.as_ref().map(|(_, document_type)| &**document_type);
        let document_types = visited_types(&deployment, document_type, cluster)?;
        let is_global = is_global(call)?;
        let selection = permitted_selection(call, &deployment)?;
        let group = documents.group.clone();
        let slice = sliced::slice(&call.parameters, &call.stage)?;
        let is_part = call.stage.part().is_some();
        let continuation = parameters.get("continuation").filter(|text| !text.is_empty());
        let continuation = match continuation {
            Some(text) if !is_part => Some(sliced::position(text, slice)?.to_owned()),
            text => text.map(str::to_owned),
        };
        let filter = selection.clone().filter(|selection| !selection.selects_all());
        let filter = filter.map(|selection| filter_of(&deployment, &document_types, selection));
        let visit = StoreVisit {
            document_types: if is_global { Vec::new() } else { document_types },
            scope: visited_scope(call, documents.group, selection.as_ref()),
            slice,
            continuation,
            wanted: PAGE,
            filter,
            tombstones: parameters.flag("includeRemoves")?.unwrap_or(false),
            ..with_timestamps(call, StoreVisit::all(&[]))?
        };
        let namespace = documents.namespace_and_type.map(|(namespace, _)| namespace);
        let store = call.node.store(&call.permit, search::wanted_groups(&visit.scope)).clone();
        let implied_group = call.implied_group().cloned();
        Ok(VisitPass { deployment, store, visit, group, namespace, selection, implied_group, is_part })
    }

    /// The pass over documents of which these fields at least are shown; `None`: all.
    pub(in crate::document_api) fn with_fields(mut self, fields: Option<Vec<String>>) -> Self {
        self.visit.fields = fields;
        self
    }

    /// Types of the documents that it reads.
    pub(in crate::document_api) fn document_types(&self) -> Vec<&str> {
        self.visit.document_types.iter().map(String::as_str).collect()
    }

    /// Continues from `continuation` for up to `wanted` documents of the store, and returns the selected
    /// ones.
    pub(in crate::document_api) fn step(
        &self,
        continuation: Option<String>,
        wanted: usize,
    ) -> Result<VisitFound, Error> {
        let visit = StoreVisit { continuation, wanted: wanted.clamp(1, PAGE), ..self.visit.clone() };
        let page = self.page(&visit)?;
        let mut documents = page.visited;
        documents.retain(|visited| self.wants_id(visited.id()));
        for visited in &mut documents {
            if let VisitedVersion::Document(document, _) = visited {
                self.deployment.kind(document.id.document_type())?.show_only(document);
            }
        }
        Ok(VisitFound { documents, continuation: page.continuation })
    }

    /// Continues from `continuation` for up to `wanted` selected documents, and returns their ids.
    pub(in crate::document_api) fn ids(
        &self,
        continuation: Option<String>,
        wanted: usize,
    ) -> Result<SelectedIds, Error> {
        let fields = Some(Vec::new());
        let visit = StoreVisit { continuation, wanted, fields, tombstones: false, ..self.visit.clone() };
        let page = self.page(&visit)?;
        let ids = page.visited.into_iter().filter_map(|visited| match visited {
            VisitedVersion::Document(document, _) => Some(document.id),
            VisitedVersion::Removed(..) => None,
        });
        let ids = ids.filter(|id| self.wants_id(id)).collect();
        Ok(SelectedIds { ids, continuation: page.continuation })
    }

    /// A page of the selected documents.
    fn page(&self, visit: &StoreVisit) -> Result<VisitPage, Error> {
        if visit.document_types.is_empty() {
            return Ok(VisitPage { visited: Vec::new(), continuation: None, progress: 1.0 });
        }
        Ok(self.store.visit(visit)?)
    }

    /// Start of the step that follows a document of [`VisitPass::ids`].
    pub(in crate::document_api) fn continuation_after(&self, id: &DocumentId) -> Option<String> {
        self.visit.continuation_after(id)
    }

    /// Restricts the pass to one bucket.
    pub(in crate::document_api) fn within(&self, bucket: BucketId) -> VisitPass {
        let visit =
            StoreVisit { scope: within(Some(bucket), self.visit.scope.clone()), ..self.visit.clone() };
        VisitPass { visit, ..self.clone() }
    }

    /// Group that the request covers as a whole, if it covers all documents of a group with its type and
    /// namespace: no part of the request narrows it. A request that continues from a later position has
    /// skipped some documents.
    pub(in crate::document_api) fn whole_group(&self, from: Option<&str>) -> Option<WholeGroup> {
        let (group, part) = self.undivided_group(from)?;
        match (&self.visit.document_types[..], &self.namespace) {
            ([document_type], Some(namespace)) => Some(WholeGroup {
                namespace: namespace.clone(),
                document_type: document_type.clone(),
                group,
                part,
            }),
            _ => None,
        }
    }

    /// Group that the request covers as a whole, with all types and namespaces, and the bucket that it is
    /// restricted to.
    pub(in crate::document_api) fn everything_of_group(&self) -> Option<(DocumentGroup, Option<BucketId>)> {
        self.undivided_group(None).filter(|_| self.namespace.is_none())
    }

    /// The only group of the request, if nothing but types and namespaces narrows it; and the bucket that it
    /// is restricted to.
    fn undivided_group(&self, from: Option<&str>) -> Option<(DocumentGroup, Option<BucketId>)> {
        // Each field is examined here: one that is added later must not be ignored.
        let VisitPass {
            deployment: _,
            store: _,
            visit,
            group: _,
            namespace: _,
            selection,
            implied_group: _,
            is_part: _,
        } = self;
        // Tombstones and fields are irrelevant: earlier removals say nothing of a removal, and all of a
        // document goes.
        let StoreVisit {
            document_types: _,
            scope,
            from: first,
            to: last,
            slice,
            continuation: _,
            wanted: _,
            // It is the selection.
            filter: _,
            tombstones: _,
            fields: _,
        } = visit;
        let is_narrowed = from.is_some()
            || (*first, *last) != (Timestamp(0), Timestamp(u64::MAX))
            || !slice.is_whole()
            || !selection.as_ref().is_none_or(DocumentSelection::selects_all);
        let (group, part) = match scope {
            ViewScope::Groups(groups) => (groups, None),
            ViewScope::GroupsIn(groups, buckets) => match &buckets[..] {
                [bucket] => (groups, Some(*bucket)),
                _ => return None,
            },
            ViewScope::Buckets(_) | ViewScope::All => return None,
        };
        match &group[..] {
            [group] if !is_narrowed && *group != DocumentGroup::None => Some((group.clone(), part)),
            _ => None,
        }
    }

    /// Text of an id in the answer.
    pub(in crate::document_api) fn shown_id<'i>(&self, id: &'i DocumentId) -> Cow<'i, str> {
        id.shown_within(self.implied_group.as_ref())
    }

    /// Group of the request, if its path names one.
    pub(in crate::document_api) fn group(&self) -> Option<&DocumentGroup> {
        self.group.as_ref()
    }

    /// Queue of its work: that of its groups, or of all groups.
    pub(in crate::document_api) fn flow(&self) -> WorkFlow {
        WorkFlow::of_scope(&self.visit.scope)
    }

    /// Start of the request.
    pub(in crate::document_api) fn start(&self) -> Option<String> {
        self.visit.continuation.clone()
    }

    /// Continuation for the sender of the request, which ends with its slice unless it has all documents.
    pub(in crate::document_api) fn continuation(&self, position: Option<String>) -> Option<String> {
        let slice = if self.is_part { VisitSlice::WHOLE } else { self.visit.slice };
        position.map(|position| sliced::continuation(position, slice))
    }

    /// Position in a continuation that another node has returned for this request.
    ///
    /// # Errors
    /// It is not one of the slice of the request.
    pub(in crate::document_api) fn position(&self, continuation: &str) -> Result<String, Error> {
        let slice = if self.is_part { VisitSlice::WHOLE } else { self.visit.slice };
        sliced::position(continuation, slice).map(str::to_owned)
    }

    /// True if the request addresses a stored document, by the values that its schema shows.
    pub(in crate::document_api) fn wants(&self, document: &Document) -> bool {
        let Ok(kind) = self.deployment.kind(document.id.document_type()) else { return false };
        self.wants_id(&document.id)
            && self.selection.as_ref().is_none_or(|selection| holds(selection, &kind.shown(document)))
    }

    /// Like [`VisitPass::wants`], for a version of the document: one that was rewritten since it was found
    /// can be outside of the request's time range.
    pub(in crate::document_api) fn wants_version(&self, document: &Document, timestamp: Timestamp) -> bool {
        (self.visit.from..=self.visit.to).contains(&timestamp) && self.wants(document)
    }

    fn wants_id(&self, id: &DocumentId) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == id.namespace())
    }
}

/// Types of the documents of a request: that of its path, or those of its cluster.
///
/// # Errors
/// The cluster does not have the type, or neither is given.
fn visited_types(
    deployment: &CompiledApplication,
    document_type: Option<&str>,
    cluster: Option<&ContentCluster>,
) -> Result<Vec<String>, Error> {
    match (document_type, cluster) {
        (Some(document_type), cluster) => {
            let kind = deployment.kind(document_type)?;
            let has = |cluster: &&ContentCluster| cluster.document(document_type).is_some();
            match cluster.filter(|cluster| !has(cluster)) {
                Some(cluster) => Err(Error::parameter(
                    "cluster",
                    format!(
                        "document type '{document_type}' is in cluster {}, not in '{}'",
                        kind.cluster_names(),
                        cluster.id
                    ),
                )),
                None => Ok(vec![document_type.to_owned()]),
            }
        }
        (None, Some(cluster)) => {
            Ok(cluster.documents.iter().map(|document| document.document_type.to_string()).collect())
        }
        (None, None) => Err(Error::parameter(
            "cluster",
            "must be set to a content cluster when visiting at the root /document/v1/ level",
        )),
    }
}

/// True if a request is about documents of global types. They would be in a space of their own; there are
/// none.
fn is_global(call: &DocumentCall) -> Result<bool, Error> {
    match call.parameters.get("bucketSpace") {
        None | Some("default") => Ok(false),
        Some("global") => Ok(true),
        Some(other) => {
            Err(Error::parameter("bucketSpace", format!("expected default or global, got '{other}'")))
        }
    }
}

/// The selection of a request, if it has one.
///
/// # Errors
/// It is invalid, or asks for documents that the caller may not use.
fn permitted_selection(
    call: &DocumentCall,
    deployment: &CompiledApplication,
) -> Result<Option<DocumentSelection>, Error> {
    let text = call.parameters.get("selection").filter(|text| !text.trim().is_empty());
    let Some(text) = text else { return Ok(None) };
    let selection = deployment.selection(&call.selection_text(text)?)?;
    let caller = call.caller.as_ref().expect("a visit begins with its caller");
    permit_selection(caller, &selection)?;
    Ok(Some(selection))
}

/// The part of the store that a request reads.
fn visited_scope(
    call: &DocumentCall,
    group: Option<DocumentGroup>,
    selection: Option<&DocumentSelection>,
) -> ViewScope {
    let selected = selection.filter(|_| call.node.paths().is_fast());
    let scope = match (group, selected.and_then(DocumentSelection::groups)) {
        (Some(group), _) => ViewScope::Groups(vec![group]),
        // Nothing of other groups is read.
        (None, Some(groups)) => ViewScope::Groups(groups.into_iter().collect()),
        (None, None) => ViewScope::All,
    };
    within(call.stage.part(), scope)
}

/// Permits a caller to select documents. Those of other groups would be passed over in silence.
///
/// # Errors
/// The selection asks for documents of a group that the caller may not use.
fn permit_selection(caller: &RequestCaller, selection: &DocumentSelection) -> Result<(), Error> {
    let CallerGroups::Only(groups) = &caller.groups else { return Ok(()) };
    match selection.foreign_group_condition(groups) {
        None => Ok(()),
        Some(condition) => Err(caller.refuse_selection(condition).into()),
    }
}

/// The condition of a selection on stored documents, by the values that their schemas show.
fn filter_of(
    deployment: &Arc<CompiledApplication>,
    document_types: &[String],
    selection: DocumentSelection,
) -> VisitFilter {
    let fields = document_types.iter().flat_map(|document_type| selection.fields(document_type));
    let fields = fields.map(str::to_owned).collect();
    let deployment = Arc::clone(deployment);
    VisitFilter::new(fields, move |document| {
        let kind = deployment.kind(document.id.document_type());
        kind.is_ok_and(|kind| holds(&selection, &kind.shown(document)))
    })
}

/// Restricts a scope to a bucket, if there is one.
fn within(bucket: Option<BucketId>, scope: ViewScope) -> ViewScope {
    match (bucket, scope) {
        (Some(bucket), ViewScope::Groups(mut groups)) => {
            groups.retain(|group: &DocumentGroup| bucket.intersects(group));
            ViewScope::GroupsIn(groups, vec![bucket])
        }
        (Some(bucket), ViewScope::GroupsIn(groups, _)) => ViewScope::GroupsIn(groups, vec![bucket]),
        (Some(bucket), _) => ViewScope::Buckets(vec![bucket]),
        (None, scope) => scope,
    }
}

/// Parses `fromTimestamp` (inclusive) and `toTimestamp` (exclusive; 0 stands for no end).
fn with_timestamps(call: &DocumentCall, visit: StoreVisit) -> Result<StoreVisit, Error> {
    let from = call.parameters.number("fromTimestamp", 0, u64::MAX)?.unwrap_or(0);
    let to = call.parameters.number("toTimestamp", 0, u64::MAX)?.unwrap_or(0);
    if to != 0 && to < from {
        return Err(Error::parameter("toTimestamp", "must not be less than fromTimestamp"));
    }
    let to = if to == 0 { u64::MAX } else { to - 1 };
    Ok(StoreVisit { from: Timestamp(from), to: Timestamp(to), ..visit })
}
