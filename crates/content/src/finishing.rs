//! Completion of writes that were in progress when their bucket got another owner: the new owner completes
//! each under its timestamp, and the client gets its acknowledgement.

use std::time::{Duration, Instant};

use millrace_cluster::{
    ClusterVersion, FenceRefusal, NodeFailure, NodeKey, NodeReply, NodeRequest, NodeResponse, RequestFence,
    UnfinishedRow,
};
use millrace_replication::distributor::{DocumentChange, DurableWrite, RequestError};

use crate::machine::{MachineDriver, MachineInput, MachineWrite, OwnerWriteCallback, ReplyTo};

/// Delay before a node that does not own the bucket is asked again: it may not have received the state yet.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Maximum time after which the previous owner gives up; this one needs no longer.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// A write that another node is to complete.
pub(crate) struct HandedOverWrite {
    pub(crate) unfinished: UnfinishedRow,
    pub(crate) deadline: Instant,
    pub(crate) done: OwnerWriteCallback,
}

impl MachineDriver {
    /// Asks the owner to complete it, as soon as there is one.
    pub(crate) fn finish_at_owner(
        &self,
        owner: Option<NodeKey>,
        version: ClusterVersion,
        finishing: HandedOverWrite,
    ) {
        let inputs = self.inputs.clone();
        let request = NodeRequest::Finish(finishing.unfinished.clone());
        let answered = move |reply: Option<NodeReply>| {
            // The machine may have stopped.
            let _ = inputs.send(MachineInput::Finished { finishing, reply });
        };
        let fence = RequestFence { from: self.parts.me, version, number: 0, void_below: 0 };
        match owner.and_then(|owner| self.peer(owner)) {
            Some(peer) => self.parts.peers.send(&peer, fence, request, answered),
            None => answered(None),
        }
    }

    /// Handles the owner's answer, or its absence. If the owner did not complete the write, it is retried for
    /// as long as the client waits.
    pub(crate) fn finished(&self, finishing: HandedOverWrite, reply: Option<NodeReply>) {
        let HandedOverWrite { unfinished, deadline, done } = finishing;
        match reply.map(|reply| reply.response) {
            Some(NodeResponse::Finished(replicas)) => {
                let timestamp = unfinished.content.timestamp();
                done(Ok(DurableWrite { timestamp, existed: None, changed: true, replicas }));
            }
            Some(NodeResponse::Failed(NodeFailure::Differs)) => done(Err(RequestError::Overtaken)),
            _ if Instant::now() + RETRY_PAUSE >= deadline => done(Err(RequestError::Unknown)),
            _ => {
                let inputs = self.inputs.clone();
                self.parts.runtime.spawn(async move {
                    tokio::time::sleep(RETRY_PAUSE).await;
                    // By the newest state, this node determines the owner of the bucket, possibly itself. The
                    // machine may have stopped.
                    let write = MachineWrite { change: DocumentChange::Finish(unfinished), done };
                    let _ = inputs.send(MachineInput::Write { write, deadline });
                });
            }
        }
    }

    /// Completes a write of the previous owner.
    pub(crate) fn finish_here(&mut self, fence: RequestFence, unfinished: UnfinishedRow, reply: ReplyTo) {
        let version = self.state.as_ref().map_or(ClusterVersion::NONE, |state| state.version());
        if fence.version > version {
            self.fetch_state();
            return reply(NodeReply { version, response: NodeResponse::Refused(FenceRefusal::Busy) });
        }
        let done = Box::new(move |outcome: Result<DurableWrite, RequestError>| {
            let response = match outcome {
                Ok(written) => NodeResponse::Finished(written.replicas),
                Err(RequestError::Moved { .. }) => NodeResponse::Refused(FenceRefusal::NotOwner),
                Err(RequestError::Overloaded) => NodeResponse::Refused(FenceRefusal::Busy),
                Err(RequestError::Failed(failure) | RequestError::Partial(failure)) => {
                    NodeResponse::Failed(failure)
                }
                Err(RequestError::Overtaken) => NodeResponse::Failed(NodeFailure::Differs),
                Err(RequestError::Late | RequestError::Unknown | RequestError::Refused(_)) => {
                    NodeResponse::Failed(NodeFailure::Interrupted)
                }
            };
            reply(NodeReply { version, response });
        });
        let write = MachineWrite { change: DocumentChange::Finish(unfinished), done };
        self.apply(MachineInput::Write { write, deadline: Instant::now() + FINISH_TIMEOUT });
    }
}
