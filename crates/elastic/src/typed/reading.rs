//! Reads of documents of types: one by its id, and those of groups.

use std::ops::ControlFlow;

use millrace_document::DocumentGroup;
use millrace_schema::DocumentMode;
use millrace_store::{StoreVisit, ViewScope, VisitedVersion};

use super::{TypeBinding, check_alone, group_of, routing_for};
use crate::Error;
use crate::door::ElasticDoor;
use crate::shelf::{PAGE, StoredSource};

/// Reads a document.
///
/// # Errors
/// Its group is not named, or the caller may not use it; the store cannot be read.
pub(crate) fn find(
    door: &ElasticDoor,
    binding: &TypeBinding,
    id: &str,
    routing: Option<&str>,
) -> Result<Option<StoredSource>, Error> {
    check_alone(door, binding)?;
    let id = binding.document_id(id, routing_for(door, binding, Some(id), routing).as_deref())?;
    door.caller.permit(id.group())?;
    door.caller.admit_group(id.group())?;
    let found = door.node.store().get(&id)?;
    found.map(|(document, timestamp)| binding.source(document, timestamp)).transpose()
}

/// Calls `visit` with each document of the groups that routing values name, until it breaks off or returns an
/// error. All documents are in reach only where a query needs no group.
///
/// # Errors
/// The groups are not named, or the caller may not use one; the store cannot be read.
pub(crate) fn scan(
    door: &ElasticDoor,
    binding: &TypeBinding,
    routing: Option<&[String]>,
    mut visit: impl FnMut(StoredSource) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    check_alone(door, binding)?;
    let mut pass = StoreVisit {
        scope: scope_of(door, binding, routing)?,
        wanted: PAGE,
        ..StoreVisit::all(&[binding.name()])
    };
    loop {
        let page = door.node.store().visit(&pass)?;
        for visited in page.visited {
            if let VisitedVersion::Document(document, timestamp) = visited
                && visit(binding.source(document, timestamp)?)?.is_break()
            {
                return Ok(());
            }
        }
        match page.continuation {
            Some(continuation) => pass.continuation = Some(continuation),
            None => return Ok(()),
        }
    }
}

fn scope_of(
    door: &ElasticDoor,
    binding: &TypeBinding,
    routing: Option<&[String]>,
) -> Result<ViewScope, Error> {
    let mut groups: Vec<DocumentGroup> = match routing.unwrap_or_default() {
        [] => routing_for(door, binding, None, None).iter().map(|routing| group_of(routing)).collect(),
        named => named.iter().map(|routing| group_of(routing)).collect(),
    };
    groups.sort();
    groups.dedup();
    if groups.is_empty() {
        let mut clusters = binding.kind.clusters.iter();
        if clusters.all(|cluster| cluster.mode == DocumentMode::Index) {
            door.caller.permit_all()?;
            return Ok(ViewScope::All);
        }
        return Err(binding.routing_missing(format!(
            "routing is required to search [{}]: it names the groups whose documents are searched",
            binding.name()
        )));
    }
    for group in &groups {
        door.caller.permit(group)?;
        door.caller.admit_group(group)?;
    }
    Ok(ViewScope::Groups(groups))
}
