//! Completion of writes that were in progress when their bucket got another owner: the new owner completes
//! each under its timestamp, and the client gets its acknowledgement.

use std::time::{Duration, Instant};

use millrace_cluster::distributor::{Change, RequestError, Unfinished, Written};
use millrace_cluster::{Failure, Fence, NodeKey, Refused, Reply, Request, Response};

use crate::machine::{Driver, Input, ReplyTo, WriteDone};

/// Delay before a node that does not own the bucket is asked again: it may not have received the state yet.
const AGAIN: Duration = Duration::from_millis(100);

/// Maximum time after which the previous owner gives up; this one needs no longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A write that another node is to complete.
pub(crate) struct Finishing {
    pub(crate) unfinished: Unfinished,
    pub(crate) deadline: Instant,
    pub(crate) done: WriteDone,
}

impl Driver {
    /// Asks the owner to complete it, as soon as there is one.
    pub(crate) fn finish_elsewhere(&self, owner: Option<NodeKey>, version: u64, finishing: Finishing) {
        let inputs = self.inputs.clone();
        let request = Request::Finish(finishing.unfinished.clone());
        let answered = move |reply: Option<Reply>| {
            // The machine may have stopped.
            let _ = inputs.send(Input::Finished { finishing, reply });
        };
        let fence = Fence { from: self.parts.me, version, number: 0, void_below: 0 };
        match owner.and_then(|owner| self.address(owner)) {
            Some(address) => self.parts.peers.send(&address, fence, request, answered),
            None => answered(None),
        }
    }

    /// Handles the owner's answer, or its absence. If the owner did not complete the write, it is retried for
    /// as long as the client waits.
    pub(crate) fn finished(&self, finishing: Finishing, reply: Option<Reply>) {
        let Finishing { unfinished, deadline, done } = finishing;
        match reply.map(|reply| reply.response) {
            Some(Response::Finished(replicas)) => {
                let timestamp = unfinished.content.timestamp();
                done(Ok(Written { timestamp, existed: None, changed: true, replicas }));
            }
            Some(Response::Failed(Failure::Differs)) => done(Err(RequestError::Overtaken)),
            _ if Instant::now() + AGAIN >= deadline => done(Err(RequestError::Unknown)),
            _ => {
                let inputs = self.inputs.clone();
                self.parts.runtime.spawn(async move {
                    tokio::time::sleep(AGAIN).await;
                    // By the newest state, this node determines the owner of the bucket, possibly itself. The
                    // machine may have stopped.
                    let _ = inputs.send(Input::Write { change: Change::Finish(unfinished), deadline, done });
                });
            }
        }
    }

    /// Completes a write of the previous owner.
    pub(crate) fn finish_here(&mut self, fence: Fence, unfinished: Unfinished, reply: ReplyTo) {
        let version = self.state.as_ref().map_or(0, |state| state.version());
        if fence.version > version {
            self.fetch_state();
            return reply(Reply { version, response: Response::Refused(Refused::Busy) });
        }
        let done = Box::new(move |outcome: Result<Written, RequestError>| {
            let response = match outcome {
                Ok(written) => Response::Finished(written.replicas),
                Err(RequestError::Moved { .. }) => Response::Refused(Refused::NotOwner),
                Err(RequestError::Overloaded) => Response::Refused(Refused::Busy),
                Err(RequestError::Failed(failure)) => Response::Failed(failure),
                Err(RequestError::Overtaken) => Response::Failed(Failure::Differs),
                Err(RequestError::Late | RequestError::Unknown | RequestError::Refused(_)) => {
                    Response::Failed(Failure::Interrupted)
                }
            };
            reply(Reply { version, response });
        });
        self.take(Input::Write {
            change: Change::Finish(unfinished),
            deadline: Instant::now() + PATIENCE,
            done,
        });
    }
}
