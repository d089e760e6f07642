//! Writes that were on their way when their bucket got another owner: the new one ends each under the timestamp that it has, and the client
//! hears that it is written.

use std::time::{Duration, Instant};

use millrace_cluster::distributor::{Change, RequestError, Unfinished, Written};
use millrace_cluster::{Failure, Fence, NodeKey, Refused, Reply, Request, Response};

use crate::machine::{Driver, Input, ReplyTo, WriteDone};

/// Who does not own the bucket may only not have heard of it yet: it is asked again after so long.
const AGAIN: Duration = Duration::from_millis(100);

/// The owner before gives up after so long at the latest; so need this one.
const PATIENCE: Duration = Duration::from_secs(10);

/// A write that another node is to end.
pub(crate) struct Finishing {
    pub(crate) unfinished: Unfinished,
    pub(crate) deadline: Instant,
    pub(crate) done: WriteDone,
}

impl Driver {
    /// Asks the owner to end it, as soon as there is one.
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

    /// The owner has answered, or will not. Where it did not end the write, that is tried again for as long as the client waits.
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
                    // By the newest state, this node finds who owns the bucket; it can be itself. The machine may have stopped.
                    let _ = inputs.send(Input::Write { change: Change::Finish(unfinished), deadline, done });
                });
            }
        }
    }

    /// Ends what the owner before has begun.
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
