//! Receiving of files from another node: one thread reads bytes from the connection, while another writes,
//! checks and syncs the previous ones. The next file is requested during the current one, so neither end
//! waits for the other's disk.
//!
//! A broken connection is made again, and received parts of a file are not sent twice.

use std::collections::HashSet;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::Failure;
use millrace_document::Drop;
use millrace_peer::{Bulk, Head};
use millrace_store::{Arrived, Import, Share, Store};
use millrace_trust::Trust;

use crate::incoming::Transfer;
use crate::{Throttle, storage};

/// Number of pieces between the threads: data that arrives while a file is synced.
const PIECES: usize = 64;
/// Number of attempts to reconnect without receiving a byte, each after a longer pause.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Request to receive buckets.
pub(crate) struct Receive<'a> {
    pub(crate) store: &'a Store,
    pub(crate) throttle: &'a Throttle,
    pub(crate) trust: Option<&'a Trust>,
    pub(crate) transfer: &'a Transfer,
    /// Address of the node that has them, `host:port`.
    pub(crate) address: &'a str,
    pub(crate) buckets: &'a [BucketId],
}

/// Observer of the progress. It may be called on different threads.
pub(crate) trait Listener: Sync {
    /// Receives drops that the sending node remembers, and this one does not. Called before any plan, again
    /// with each connection.
    fn dropped(&self, bucket: BucketId, drops: Vec<Drop>);

    /// Receives the parcels to come, except those that have arrived. A later plan replaces the previous one.
    fn planned(&self, parcels: &[(Option<u64>, &[Share])]);

    /// Receives a parcel, which is durable and checked.
    fn arrived(&self, identity: Option<u64>, parcel: Arrived);

    /// True if the result is not wanted any more.
    fn is_cancelled(&self) -> bool;
}

/// Reason of an early end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It is not wanted any more.
    Cancelled,
    /// The connection broke.
    Broken(millrace_peer::Error),
    Failed(Failure),
}

impl From<millrace_peer::Error> for Ended {
    fn from(error: millrace_peer::Error) -> Self {
        match error {
            millrace_peer::Error::Connection { .. } => Ended::Broken(error),
            error => Ended::Failed(Failure::Storage { reason: error.to_string() }),
        }
    }
}

impl From<millrace_store::Error> for Ended {
    fn from(error: millrace_store::Error) -> Self {
        Ended::Failed(storage::failure(error))
    }
}

/// Message between the threads.
enum Step {
    Begin(Option<u64>, Import),
    Bytes(Vec<u8>),
    /// End of the file.
    End,
}

/// State that is kept from one connection to the next.
#[derive(Default)]
struct Progress {
    /// Parcels that have arrived.
    done: HashSet<u64>,
    /// A partly received file, with its identity.
    part: Option<(u64, Import)>,
    bytes: u64,
}

impl Receive<'_> {
    /// Receives all that the node has of the buckets. Returns when everything has arrived, or cannot be
    /// fetched.
    pub(crate) fn run(&self, listener: &dyn Listener) -> Result<(), Ended> {
        let mut progress = Progress::default();
        let mut attempt = 0;
        loop {
            let before = progress.bytes;
            match self.attempt(&mut progress, listener) {
                Err(Ended::Broken(_)) if attempt < ATTEMPTS && !listener.is_cancelled() => {
                    attempt = if progress.bytes > before { 1 } else { attempt + 1 };
                    thread::sleep(PAUSE * 2_u32.pow(attempt));
                }
                outcome => return outcome,
            }
        }
    }

    fn attempt(&self, progress: &mut Progress, listener: &dyn Listener) -> Result<(), Ended> {
        let mut bulk = Bulk::connect(self.address, self.trust)?;
        for bucket in self.buckets {
            let known = self.store.drops(*bucket)?;
            let mut drops = bulk.drops(*bucket)?;
            drops.retain(|drop| !known.contains(drop));
            listener.dropped(*bucket, drops);
        }
        let heads = bulk.export(self.buckets)?;
        let is_done = |head: &Head| head.identity.is_some_and(|identity| progress.done.contains(&identity));
        let coming: Vec<Coming> = heads
            .iter()
            .enumerate()
            .filter(|(_, head)| !is_done(head))
            .map(|(place, head)| Coming { place, identity: head.identity, shares: self.shares(head) })
            .filter(|coming| !coming.shares.is_empty())
            .collect();
        let bytes =
            |head: &Head| head.bytes.unwrap_or_else(|| head.shares.iter().map(|(_, bytes, _)| bytes).sum());
        self.transfer.set_total(heads.iter().map(bytes).sum());
        let plan: Vec<_> = coming.iter().map(|coming| (coming.identity, &coming.shares[..])).collect();
        listener.planned(&plan);
        let part = progress.part.take();
        let (steps, queue) = mpsc::sync_channel(PIECES);
        let (spare, spares) = mpsc::channel();
        let (read, written) = thread::scope(|scope| {
            let writing = scope.spawn(move || write(&queue, &spare, progress, listener));
            let read = self.read(&mut bulk, &coming, part, &steps, &spares, listener);
            drop(steps);
            (read, writing.join())
        });
        match written {
            // If both have ended early, this one was first.
            Ok(Err(ended)) => Err(ended),
            Ok(Ok(())) => read,
            Err(_) => {
                let reason = "a thread that writes what comes has ended; see the log".to_owned();
                Err(Ended::Failed(Failure::Storage { reason }))
            }
        }
    }

    /// The requested part of a parcel: a file can contain more.
    fn shares(&self, head: &Head) -> Vec<Share> {
        let own = head.shares.iter().filter(|(bucket, ..)| self.buckets.contains(bucket));
        own.map(|(bucket, bytes, documents)| Share { bucket: *bucket, bytes: *bytes, documents: *documents })
            .collect()
    }

    /// Reads the parcels from the connection.
    fn read(
        &self,
        bulk: &mut Bulk,
        coming: &[Coming],
        mut part: Option<(u64, Import)>,
        steps: &SyncSender<Step>,
        spares: &Receiver<Vec<u8>>,
        listener: &dyn Listener,
    ) -> Result<(), Ended> {
        // If the other thread has ended, it reports the reason.
        let hand_on = |step| steps.send(step).map_err(|_| Ended::Cancelled);
        let begun = |of: &Coming| part.as_ref().filter(|(identity, _)| of.identity == Some(*identity));
        let from: Vec<u64> =
            coming.iter().map(|of| begun(of).map_or(0, |(_, import)| import.bytes())).collect();
        for (at, of) in coming.iter().enumerate() {
            for asked in if at == 0 { 0..2 } else { at + 1..at + 2 } {
                if let Some(next) = coming.get(asked) {
                    bulk.request(next.place, from[asked])?;
                }
            }
            let outline = bulk.outline()?;
            let import = match part.take_if(|(identity, _)| of.identity == Some(*identity)) {
                Some((_, import)) => import,
                None => self.store.import(&of.shares, outline)?,
            };
            hand_on(Step::Begin(of.identity, import))?;
            loop {
                let mut piece = spares.try_recv().unwrap_or_default();
                if !bulk.piece(&mut piece)? {
                    break;
                }
                if listener.is_cancelled() {
                    return Err(Ended::Cancelled);
                }
                self.throttle.pass(piece.len() as u64);
                self.transfer.add_bytes(piece.len() as u64);
                hand_on(Step::Bytes(piece))?;
            }
            hand_on(Step::End)?;
        }
        Ok(())
    }
}

/// A requested parcel.
struct Coming {
    /// Index in the export.
    place: usize,
    identity: Option<u64>,
    shares: Vec<Share>,
}

/// Writes the data that arrives, until its end.
fn write(
    queue: &Receiver<Step>,
    spare: &Sender<Vec<u8>>,
    progress: &mut Progress,
    listener: &dyn Listener,
) -> Result<(), Ended> {
    let mut current: Option<(Option<u64>, Import)> = None;
    for step in queue {
        match step {
            Step::Begin(identity, import) => current = Some((identity, import)),
            Step::Bytes(piece) => {
                if let Some((_, import)) = &mut current {
                    import.append(&piece)?;
                }
                progress.bytes += piece.len() as u64;
                // The buffer may not be needed any more.
                let _ = spare.send(piece);
            }
            Step::End => {
                let Some((identity, import)) = current.take() else { continue };
                listener.arrived(identity, import.arrive()?);
                progress.done.extend(identity);
            }
        }
    }
    progress.part = current.and_then(|(identity, import)| Some((identity?, import)));
    Ok(())
}
