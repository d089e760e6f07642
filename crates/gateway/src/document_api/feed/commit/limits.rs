//! Limits of clients on the operations of a wave, by which it waits or refuses some of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_document::{DocumentGroup, OperationKind};
use millrace_node::Error;
use millrace_node::cluster::{ForwardKind, RemoteNode};

use super::{DocumentCall, ForwardedOperation, WaveWrite};

/// Pause before the quota of a group is asked again.
const QUOTA_PAUSE: Duration = Duration::from_millis(50);

/// Time between two looks at the credential of a stream that waits.
const CREDENTIAL_PAUSE: Duration = Duration::from_millis(500);

/// Waits for something, or until the credential of the stream is not valid any more.
pub(super) async fn while_valid(call: &DocumentCall, awaited: impl Future<Output = ()>) {
    let is_invalid = async {
        loop {
            tokio::time::sleep(CREDENTIAL_PAUSE).await;
            if call.check_credential().is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = awaited => {}
        () = is_invalid => {}
    }
}

/// Waits until the quotas of the groups of a wave admit its operations.
pub(super) async fn await_quotas(
    call: &DocumentCall,
    origins: &[WaveWrite],
    relayed: &BTreeMap<RemoteNode, Vec<ForwardedOperation>>,
) {
    if call.stage != ForwardKind::Client {
        // The node that the client sent them to has counted them.
        return;
    }
    for origin in origins {
        await_quota(call, origin.id.group()).await;
    }
    for operation in relayed.values().flatten() {
        await_quota(call, operation.single.id().group()).await;
    }
}

async fn await_quota(call: &DocumentCall, group: &DocumentGroup) {
    while call.node.quotas().admit_group(group, Instant::now(), call.node.metrics()).is_err() {
        tokio::time::sleep(QUOTA_PAUSE).await;
    }
}

/// Waits until the caller and the groups of updates have paid back what those before them have written again.
/// A stream of another node goes on in time for its answer.
pub(super) async fn await_rewrites(
    call: &DocumentCall,
    origins: &[WaveWrite],
    forwarded: &[ForwardedOperation],
) {
    let caller = call.caller.as_deref().expect("a feed begins with its caller");
    let limits = call.node.quotas().fed();
    if !limits.limits(caller) {
        return;
    }
    let together = origins.iter().map(|origin| (origin.kind, origin.id.group()));
    let single = forwarded.iter().map(|ForwardedOperation { single, .. }| {
        let kind = single.operation.kind;
        (kind, single.id().group())
    });
    let updates = together.chain(single).filter(|(kind, _)| *kind == OperationKind::Update);
    let groups: BTreeSet<&DocumentGroup> = updates.map(|(_, group)| group).collect();
    let wait = async {
        for group in groups {
            limits.wait_for_rewrite(caller, group).await;
        }
    };
    if call.stage == ForwardKind::Client {
        wait.await;
    } else {
        // What exceeds the limit is paid back before the next ones. All waves of the stream have one time.
        let until = call.started + call.timeout / 2;
        let _ = tokio::time::timeout_at(until.into(), wait).await;
    }
}

/// Reasons for which groups of updates take nothing more: those before them can have written large documents
/// again since these were admitted. The updates do not fill their groups by their own bytes.
///
/// # Errors
/// The pool takes no work.
pub(super) async fn full_groups(
    call: &DocumentCall,
    origins: &mut [WaveWrite],
) -> Result<BTreeMap<DocumentGroup, Error>, Error> {
    let limits = call.caller.as_ref().map(|caller| caller.limits).unwrap_or_default();
    let mut own: BTreeMap<&DocumentGroup, usize> = BTreeMap::new();
    for write in origins.iter().filter(|write| write.kind == OperationKind::Update) {
        // Only what is limited has a share.
        if let Some(size) = &write.size {
            let bytes = own.entry(write.id.group()).or_default();
            *bytes = bytes.saturating_add(size.bytes());
        }
    }
    let sizes = call.node.quotas().group_sizes();
    own.retain(|group, bytes| sizes.may_be_full(group, &limits, *bytes));
    if own.is_empty() {
        return Ok(BTreeMap::new());
    }
    let groups: BTreeSet<DocumentGroup> = own.into_keys().cloned().collect();
    for write in origins.iter_mut().filter(|write| write.kind == OperationKind::Update) {
        if groups.contains(write.id.group()) {
            // The group is measured without it.
            write.size = None;
        }
    }
    let (node, permit) = (Arc::clone(&call.node), call.permit.clone());
    let measure = move || {
        let full = |group: DocumentGroup| {
            let error = node.admit_growth(&limits, &permit, &group, 0).err()?;
            Some((group, error))
        };
        groups.into_iter().filter_map(full).collect()
    };
    call.node.pool().run(measure).await
}
