//! Selection of the node that answers a request for one location.

use std::pin::pin;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_cluster::ClusterVersion;
use millrace_document::{DocumentGroup, Location};

use super::{
    BucketReaders, ClusterView, ForwardAnswer, ForwardKind, ForwardableRequest, HeldBucket, NodeAddress,
    RemoteNode, ReplicaCompleteness,
};
use crate::{Error, Node};

/// Kind of access that a request needs to its location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// Read one document. If no node is known to have its newest version, its owner reads it at all of them.
    Get,
    /// Read the documents of a group or of a bucket.
    Read,
    /// Read like [`AccessKind::Get`]; but if the nodes that have all of the documents do not answer within
    /// half of the time, a partial answer of others is accepted.
    Search,
    /// Change one document.
    Write,
    /// Change documents that must be found first.
    Sweep,
    /// Read at the owner, which gathers what it needs from other nodes.
    OwnerRead,
    /// The same for a read that must not be repeated, such as that of the next page of a scroll.
    OwnerReadOnce,
}

impl AccessKind {
    fn changes(self) -> bool {
        matches!(self, AccessKind::Write | AccessKind::Sweep)
    }

    /// True if a request can be sent again after a node may have answered it.
    fn repeats(self) -> bool {
        !self.changes() && self != AccessKind::OwnerReadOnce
    }

    /// True if only the owner answers.
    fn is_of_owner(self) -> bool {
        matches!(self, AccessKind::Write | AccessKind::OwnerRead | AccessKind::OwnerReadOnce)
    }
}

/// Pause between two checks while a request waits for the cluster to agree on the node that answers it.
pub const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Additional time after the deadline of a request for the answer of another node: its results up to then
/// must be written and transmitted.
const GRACE: Duration = Duration::from_secs(1);

/// Maximum pause of [`RouteBackoff`]: owners change within some tenths of a second.
const PAUSE_MAX: Duration = Duration::from_millis(160);

/// Pauses of a request that is routed again, each twice as long as the previous one.
pub struct RouteBackoff {
    next: Duration,
    deadline: Instant,
}

impl RouteBackoff {
    /// Creates the pauses of a request that can be answered until `deadline`.
    pub fn until(deadline: Instant) -> Self {
        RouteBackoff { next: RETRY_PAUSE, deadline }
    }

    /// Waits for the next pause. Returns false, without waiting, if there is no time for another attempt.
    pub async fn pause(&mut self) -> bool {
        let pause = self.next;
        if Instant::now() + pause >= self.deadline {
            return false;
        }
        self.next = PAUSE_MAX.min(pause * 2);
        tokio::time::sleep(pause).await;
        true
    }
}

/// Node that answers a request.
pub enum RoutingDecision<A> {
    /// This node; its reads count if the fence holds afterwards.
    Local(ReadFence),
    /// Another node, which has answered.
    Forwarded(A),
    /// These nodes, by this version of the cluster state: the node that forwarded the request asks them.
    Readers(ClusterVersion, BucketReaders),
    /// No single node: the requested group is divided.
    Divided,
}

/// Documents of a request, as far as they decide the node that answers it.
#[derive(Debug, Clone, Copy)]
pub struct RouteSubject<'a> {
    /// A location of the documents: it selects the bucket.
    pub location: Location,
    /// Group, if the request covers all of it.
    pub group: Option<&'a DocumentGroup>,
    /// Bucket to which the request is restricted.
    pub part: Option<BucketId>,
}

/// Condition that must hold when a read is done; otherwise its result does not count: another owner may have
/// accepted writes meanwhile, or the replica may have been deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadFence {
    /// Expected version of the cluster state.
    version: Option<ClusterVersion>,
    /// Bucket that this node must have.
    bucket: Option<BucketId>,
    /// True if the replica may be incomplete.
    partial: bool,
}

impl ReadFence {
    /// Condition that the cluster state has this version.
    pub fn of_version(version: ClusterVersion) -> Self {
        ReadFence { version: Some(version), ..ReadFence::default() }
    }

    /// Condition that the cluster state has a version, and that this node has a bucket.
    pub(super) fn of_bucket(held: HeldBucket) -> Self {
        ReadFence { version: Some(held.version), bucket: Some(held.bucket), partial: false }
    }

    /// True if this node has all of the documents that serving nodes have.
    pub fn is_full(self) -> bool {
        !self.partial
    }

    /// Checks the condition after all reads.
    ///
    /// # Errors
    /// It does not hold: the reads must be repeated.
    pub fn check(self, node: &Node) -> Result<(), Error> {
        let Some(cluster) = node.cluster().view()? else { return Ok(()) };
        if self.version.is_some_and(|version| !cluster.confirms(version)) {
            return Err(Error::Unsettled(
                "the cluster state has changed while the documents were read".to_owned(),
            ));
        }
        check_held(cluster, self.bucket.as_slice())
    }
}

/// Checks after a read that this node has the buckets that were read.
///
/// # Errors
/// The node does not have them, or no longer has them.
pub(crate) fn check_held(cluster: &dyn ClusterView, buckets: &[BucketId]) -> Result<(), Error> {
    match buckets.iter().all(|bucket| cluster.holds(*bucket)) {
        true => Ok(()),
        false => Err(Error::Unsettled("this node has given the documents up".to_owned())),
    }
}

/// Forwards a request until a node answers it, at most until `deadline`.
///
/// If the nodes do not agree, or one cannot be reached, the request is routed again: the cluster is about to
/// agree on another node. A request that may have changed something is not sent again.
///
/// # Errors
/// No node could answer in time.
pub async fn forward_request<R: ForwardableRequest>(
    node: &Node,
    subject: RouteSubject<'_>,
    access: AccessKind,
    stage: &ForwardKind,
    request: &R,
    deadline: Instant,
) -> Result<RoutingDecision<R::Answer>, Error> {
    let Some(cluster) = node.cluster().view()? else {
        return Ok(RoutingDecision::Local(ReadFence::default()));
    };
    let RouteSubject { location, group, part } = subject;
    let requested = RoutedRequest { node, cluster, location, access, stage, part, request, deadline };
    let mut backoff = RouteBackoff::until(deadline);
    let half = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
    loop {
        // A bucket that has all of the group by the state of one node is only one of several by that of
        // another.
        let divided = |group| cluster.buckets_of(group).is_ok_and(|buckets| buckets.len() > 1);
        if part.is_none() && stage.part().is_none() && group.is_some_and(divided) {
            return match stage {
                ForwardKind::Client => Ok(RoutingDecision::Divided),
                _ => Err(Error::Unsettled("the group that is asked for has been divided".to_owned())),
            };
        }
        let routed = match access {
            AccessKind::Search if *stage == ForwardKind::Client => requested.route_within(half).await,
            _ => requested.route().await,
        };
        let error = match routed {
            Ok(decision) => return Ok(decision),
            Err(error) => error,
        };
        let may_have_arrived = matches!(error, Error::Unreachable { sent: true, .. });
        // Only the node that the client asked tries again: the others' answers come back to it.
        let may_look_again = *stage == ForwardKind::Client && (!may_have_arrived || access.repeats());
        if !(may_look_again && backoff.pause().await) {
            return Err(if access.changes() { error.of_change() } else { error });
        }
    }
}

/// A request that is being routed.
struct RoutedRequest<'a, R> {
    node: &'a Node,
    cluster: &'a dyn ClusterView,
    location: Location,
    access: AccessKind,
    stage: &'a ForwardKind,
    part: Option<BucketId>,
    request: &'a R,
    deadline: Instant,
}

impl<R: ForwardableRequest> RoutedRequest<'_, R> {
    async fn route(&self) -> Result<RoutingDecision<R::Answer>, Error> {
        let RoutedRequest { cluster, location, stage, .. } = *self;
        if let ForwardKind::Reader(all, part) = stage {
            // The forwarding node has decided.
            let (bucket, version) = match part {
                Some((bucket, version)) => (*bucket, Some(*version)),
                None => (self.bucket()?, None),
            };
            let partial = *all == ReplicaCompleteness::Perhaps;
            return Ok(RoutingDecision::Local(ReadFence { version, bucket: Some(bucket), partial }));
        }
        let owner = match self.part.or(stage.part()) {
            Some(bucket) => cluster.owner_of(bucket),
            None => cluster.owner(location),
        };
        match (owner?, stage) {
            (NodeAddress::Local, _) => self.as_owner().await,
            (NodeAddress::Remote(remote), ForwardKind::Client) => {
                let me = cluster.own().key;
                match self.send(&remote, &ForwardKind::Owner(me, self.part)).await? {
                    SentAnswer::Readers(version, readers) => self.read_at(Some(version), &readers).await,
                    SentAnswer::Answer(answer) => Ok(RoutingDecision::Forwarded(answer)),
                }
            }
            (NodeAddress::Remote(_), _) => {
                Err(Error::Unsettled("the nodes do not agree yet who owns the documents".to_owned()))
            }
        }
    }

    fn bucket(&self) -> Result<BucketId, Error> {
        Ok(self.part.map_or_else(|| self.cluster.bucket(self.location), Ok)?)
    }

    /// Routes the request with this node as the owner.
    async fn as_owner(&self) -> Result<RoutingDecision<R::Answer>, Error> {
        if self.access.is_of_owner() {
            return Ok(RoutingDecision::Local(ReadFence::default()));
        }
        let me = self.cluster.own().key;
        let (near, part) = match self.stage {
            ForwardKind::Owner(near, part) => (*near, *part),
            _ => (me, self.part),
        };
        let bucket = part.map_or_else(|| self.bucket(), Ok)?;
        let (version, readers) = self.cluster.readers(Some(&[bucket]), near)?;
        let Some(readers) = readers.into_iter().find(|readers| !readers.nodes.is_empty()) else {
            // An empty answer can be given here.
            return Ok(RoutingDecision::Local(ReadFence::of_version(version)));
        };
        if self.access == AccessKind::Get && !readers.full {
            return Ok(RoutingDecision::Local(ReadFence {
                version: Some(version),
                bucket: None,
                partial: true,
            }));
        }
        // A node that was absent may be the best to ask, and miss the writes of that time.
        if readers.soon && !readers.full {
            return Err(Error::Unsettled("the replicas of the documents are being compared".to_owned()));
        }
        let is_here = if self.access == AccessKind::Sweep {
            readers.nodes.contains(&me)
        } else {
            readers.nodes.first() == Some(&me)
        };
        match self.stage {
            _ if is_here => Ok(RoutingDecision::Local(ReadFence {
                version: Some(version),
                bucket: Some(bucket),
                partial: !readers.full,
            })),
            _ if self.access == AccessKind::Sweep => Err(Error::Unsettled(
                "the documents are on their way to the node that orders their changes".to_owned(),
            )),
            ForwardKind::Client => self.read_at(Some(version), &readers).await,
            _ => Ok(RoutingDecision::Readers(version, readers)),
        }
    }

    /// Routes the request. If there is no route after half of the time, or no answer, the answer of another
    /// node is used if that comes first.
    async fn route_within(&self, half: Instant) -> Result<RoutingDecision<R::Answer>, Error> {
        let mut routed = pin!(self.route());
        if let Ok(outcome) = tokio::time::timeout_at(half.into(), &mut routed).await {
            return match outcome {
                Err(error) if Instant::now() >= half => self.read_at_any_replica().await.map_err(|_| error),
                outcome => outcome,
            };
        }
        let (mut another, mut has_failed) = (pin!(self.read_at_any_replica()), false);
        loop {
            tokio::select! {
                outcome = &mut routed => return match outcome {
                    Err(error) if !has_failed => another.await.map_err(|_| error),
                    outcome => outcome,
                },
                outcome = &mut another, if !has_failed => match outcome {
                    Ok(answer) => return Ok(answer),
                    Err(_) => has_failed = true,
                },
            }
        }
    }

    /// The answer of a node that should have the documents. Some may be missing: the owner has not confirmed
    /// that it has all.
    async fn read_at_any_replica(&self) -> Result<RoutingDecision<R::Answer>, Error> {
        let bucket = self.bucket()?;
        let me = self.cluster.own().key;
        let mut nodes = self.cluster.replicas(bucket)?;
        nodes.retain(|node| *node != me || self.cluster.holds(bucket));
        nodes.sort_by_key(|node| *node != me);
        let readers = BucketReaders { bucket, nodes, full: false, soon: false, documents: 0 };
        match self.read_at(None, &readers).await? {
            RoutingDecision::Forwarded(answer) => match R::refusal(&answer) {
                Some(refusal) => Err(Error::Unsettled(format!("another node refuses: {refusal}"))),
                None => Ok(RoutingDecision::Forwarded(answer)),
            },
            decision => Ok(decision),
        }
    }

    /// Reads at the first of these nodes that answers; by a cluster state of this version, if one is given.
    /// A refusal for want of room is the answer only if all others refuse, too, or do not answer.
    async fn read_at(
        &self,
        version: Option<ClusterVersion>,
        readers: &BucketReaders,
    ) -> Result<RoutingDecision<R::Answer>, Error> {
        let mut last = Error::Unsettled("no node has all of the documents now".to_owned());
        let mut busy = None;
        let all = if readers.full { ReplicaCompleteness::Yes } else { ReplicaCompleteness::Perhaps };
        for node in &readers.nodes {
            let outcome = match self.cluster.address(*node) {
                Ok(NodeAddress::Local) => {
                    let (bucket, partial) = (Some(readers.bucket), !readers.full);
                    return Ok(RoutingDecision::Local(ReadFence { version, bucket, partial }));
                }
                Ok(NodeAddress::Remote(remote)) => {
                    let part = self.part.zip(version);
                    self.send(&remote, &ForwardKind::Reader(all, part)).await
                }
                Err(error) => Err(error.into()),
            };
            match outcome {
                Ok(SentAnswer::Answer(answer)) if R::is_busy(&answer) => busy = Some(answer),
                Ok(SentAnswer::Answer(answer)) => {
                    ReadFence { version, ..ReadFence::default() }.check(self.node)?;
                    return Ok(RoutingDecision::Forwarded(answer));
                }
                Ok(SentAnswer::Readers(..)) => {
                    last = Error::Unsettled("the nodes do not agree yet who has the documents".to_owned());
                }
                Err(error) => last = error,
            }
        }
        busy.map_or(Err(last), |answer| Ok(RoutingDecision::Forwarded(answer)))
    }

    async fn send(&self, remote: &RemoteNode, stage: &ForwardKind) -> Result<SentAnswer<R::Answer>, Error> {
        let answer = self.request.send(remote, stage);
        let answer = tokio::time::timeout_at((self.deadline + GRACE).into(), answer).await;
        let silent = |_| Error::Unreachable {
            address: remote.address.clone(),
            reason: "it has not answered in time".to_owned(),
            sent: true,
        };
        match answer.map_err(silent)?? {
            ForwardAnswer::Answer(answer) => Ok(SentAnswer::Answer(answer)),
            ForwardAnswer::Readers(version, readers) => Ok(SentAnswer::Readers(version, readers)),
            ForwardAnswer::Unsettled => {
                Err(Error::Unsettled(format!("node {remote} cannot answer for the documents yet")))
            }
        }
    }
}

/// Answer of another node that the cluster agrees to.
enum SentAnswer<A> {
    Answer(A),
    /// Nodes to ask instead.
    Readers(ClusterVersion, BucketReaders),
}
