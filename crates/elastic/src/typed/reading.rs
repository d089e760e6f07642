//! Reads of documents of types: one by its id, and those of groups.

use std::ops::ControlFlow;

use millrace_access::WantedGroups;
use millrace_cluster::BUCKET_PAGES;
use millrace_document::{Document, DocumentGroup, DocumentId, Timestamp};
use millrace_schema::DocumentMode;

use super::{TypeBinding, group_of, routing_for};
use crate::Error;
use crate::service::ElasticService;
use crate::storage::{self, DocumentScan, StoredSource};

/// Reads a document.
///
/// # Errors
/// Its group is not named, or the caller may not use it; the store cannot be read.
pub(crate) fn find(
    service: &ElasticService,
    binding: &TypeBinding,
    id: &str,
    routing: Option<&str>,
) -> Result<Option<StoredSource>, Error> {
    let id = binding.document_id(id, routing_for(service, binding, Some(id), routing).as_deref())?;
    let permit = service.caller.permit(id.group())?;
    service.caller.admit_group(id.group())?;
    let found = storage::get_document(&service.node, &permit, &id)?;
    Ok(found.map(|(document, timestamp)| binding.source(document, timestamp)))
}

/// Calls `visit` with each document after a place of the groups that routing values name, until it breaks off
/// or returns an error. Without routing values, all documents are in reach of a caller for all groups.
///
/// # Errors
/// The groups are not named, or the caller may not use one; the store cannot be read.
pub(crate) fn scan(
    service: &ElasticService,
    binding: &TypeBinding,
    routing: Option<&[String]>,
    after: Option<&str>,
    mut visit: impl FnMut(StoredSource, &DocumentId) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let each = |document: Document, timestamp: Timestamp| {
        let id = document.id.clone();
        visit(binding.source(document, timestamp), &id)
    };
    let (node, document_type) = (&service.node, binding.name());
    match scope_of(service, binding, routing)? {
        Some(groups) => {
            let permit = &service.caller.permit_wanted(WantedGroups::These(&groups))?;
            let turns = groups.iter().map(|group| service.caller.turn_of_group(group));
            let _turns = turns.collect::<Result<Vec<_>, Error>>()?;
            DocumentScan { node, permit, document_type, after }.of_groups(groups, each)
        }
        None => {
            check_protocol(service, binding)?;
            let permit = &service.caller.permit_wanted(WantedGroups::All)?;
            DocumentScan { node, permit, document_type, after }.of_all(each)
        }
    }
}

/// Refuses a search of all groups in a cluster whose nodes do not all read documents of all groups for each
/// other.
fn check_protocol(service: &ElasticService, binding: &TypeBinding) -> Result<(), Error> {
    let Some(cluster) = service.node.cluster().view()? else { return Ok(()) };
    if cluster.state()?.protocol() >= BUCKET_PAGES {
        return Ok(());
    }
    Err(Error::IllegalArgument(format!(
        "[{}] is a document type of the application; until all nodes of the cluster speak protocol {BUCKET_PAGES}, its \
         documents are searched here by the routing values of their groups: name them, or search all groups at \
         /search/",
        binding.name()
    )))
}

/// Groups that are searched; `None` for all.
fn scope_of(
    service: &ElasticService,
    binding: &TypeBinding,
    routing: Option<&[String]>,
) -> Result<Option<Vec<DocumentGroup>>, Error> {
    let mut groups: Vec<DocumentGroup> = match routing.unwrap_or_default() {
        [] => routing_for(service, binding, None, None).iter().map(|routing| group_of(routing)).collect(),
        named => named.iter().map(|routing| group_of(routing)).collect(),
    };
    groups.sort();
    groups.dedup();
    if groups.is_empty() {
        let mut clusters = binding.kind.clusters.iter();
        let has_no_groups = clusters.all(|cluster| cluster.mode == DocumentMode::Index);
        if !has_no_groups && !service.caller.has_all_groups() {
            return Err(binding.routing_missing(format!(
                "routing is required to search [{}] with a credential for some groups: it names the groups whose documents \
                 are searched",
                binding.name()
            )));
        }
        service.caller.permit_all()?;
        return Ok(None);
    }
    for group in &groups {
        service.caller.permit(group)?;
        service.caller.admit_group(group)?;
    }
    Ok(Some(groups))
}
