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
use millrace_cluster::NodeFailure;
use millrace_document::DroppedScope;
use millrace_peer::{ParcelHead, PeerAddress, TransferConnection};
use millrace_store::{ArrivedSegment, ParcelBucket, SegmentImport, Store};
use millrace_trust::NodeTrust;

use crate::incoming::IncomingTransfer;
use crate::{TransferThrottle, storage};

/// Number of pieces between the threads: data that arrives while a file is synced.
const PIECES: usize = 64;
/// Number of attempts to reconnect without receiving a byte, each after a longer pause.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Request to receive buckets.
pub(crate) struct ReceiveRequest<'a> {
    pub(crate) store: &'a Store,
    pub(crate) throttle: &'a TransferThrottle,
    pub(crate) trust: Option<&'a NodeTrust>,
    pub(crate) transfer: &'a IncomingTransfer,
    /// The node that has them.
    pub(crate) peer: &'a PeerAddress,
    pub(crate) buckets: &'a [BucketId],
}

/// Observer of the progress. It may be called on different threads.
pub(crate) trait ReceiveListener: Sync {
    /// Receives drops that the sending node remembers, and this one does not. Called before any plan, again
    /// with each connection.
    fn dropped(&self, bucket: BucketId, drops: Vec<DroppedScope>);

    /// Receives the parcels to come, except those that have arrived. A later plan replaces the previous one.
    fn planned(&self, parcels: &[(Option<u64>, &[ParcelBucket])]);

    /// Receives a parcel, which is durable and checked.
    fn arrived(&self, identity: Option<u64>, parcel: ArrivedSegment);

    /// True if the result is not wanted any more.
    fn is_cancelled(&self) -> bool;
}

/// Reason of an early end.
#[derive(Debug)]
pub(crate) enum ReceiveEnd {
    /// No longer wanted.
    Cancelled,
    /// The connection broke.
    Broken(millrace_peer::Error),
    Failed(NodeFailure),
}

impl From<millrace_peer::Error> for ReceiveEnd {
    fn from(error: millrace_peer::Error) -> Self {
        match error {
            millrace_peer::Error::Connection { .. } => ReceiveEnd::Broken(error),
            error => ReceiveEnd::Failed(NodeFailure::Storage { reason: error.to_string() }),
        }
    }
}

impl From<millrace_store::Error> for ReceiveEnd {
    fn from(error: millrace_store::Error) -> Self {
        ReceiveEnd::Failed(storage::failure(error))
    }
}

/// Message between the threads.
enum ReceiveStep {
    Begin(Option<u64>, SegmentImport),
    Bytes(Vec<u8>),
    /// End of the file.
    End,
}

/// State that is kept from one connection to the next.
#[derive(Default)]
struct ReceiveProgress {
    /// Parcels that have arrived.
    done: HashSet<u64>,
    /// A partly received file, with its identity.
    part: Option<(u64, SegmentImport)>,
    bytes: u64,
}

impl ReceiveRequest<'_> {
    /// Receives all that the node has of the buckets. Returns when everything has arrived, or cannot be
    /// fetched.
    pub(crate) fn run(&self, listener: &dyn ReceiveListener) -> Result<(), ReceiveEnd> {
        let mut progress = ReceiveProgress::default();
        let mut attempt = 0;
        loop {
            let before = progress.bytes;
            match self.attempt(&mut progress, listener) {
                Err(ReceiveEnd::Broken(_)) if attempt < ATTEMPTS && !listener.is_cancelled() => {
                    attempt = if progress.bytes > before { 1 } else { attempt + 1 };
                    thread::sleep(PAUSE * 2_u32.pow(attempt));
                }
                outcome => return outcome,
            }
        }
    }

    fn attempt(
        &self,
        progress: &mut ReceiveProgress,
        listener: &dyn ReceiveListener,
    ) -> Result<(), ReceiveEnd> {
        let mut bulk = TransferConnection::connect(self.peer, self.trust)?;
        for bucket in self.buckets {
            let known = self.store.drops(*bucket)?;
            let mut drops = bulk.drops(*bucket)?;
            drops.retain(|drop| !known.contains(drop));
            listener.dropped(*bucket, drops);
        }
        let heads = bulk.export(self.buckets)?;
        let is_done =
            |head: &ParcelHead| head.identity.is_some_and(|identity| progress.done.contains(&identity));
        let announced: Vec<AnnouncedParcel> = heads
            .iter()
            .enumerate()
            .filter(|(_, head)| !is_done(head))
            .map(|(place, head)| AnnouncedParcel {
                place,
                identity: head.identity,
                shares: self.shares(head),
            })
            .filter(|parcel| !parcel.shares.is_empty())
            .collect();
        let bytes = |head: &ParcelHead| {
            head.bytes.unwrap_or_else(|| head.shares.iter().map(|(_, bytes, _)| bytes).sum())
        };
        self.transfer.set_total(heads.iter().map(bytes).sum());
        let plan: Vec<_> = announced.iter().map(|parcel| (parcel.identity, &parcel.shares[..])).collect();
        listener.planned(&plan);
        let part = progress.part.take();
        let (steps, queue) = mpsc::sync_channel(PIECES);
        let (spare, spares) = mpsc::channel();
        let writer = ReceiveWriter { steps, spares };
        let (read, written) = thread::scope(|scope| {
            let writing = scope.spawn(move || write(&queue, &spare, progress, listener));
            let read = self.read(&mut bulk, &announced, part, &writer, listener);
            drop(writer);
            (read, writing.join())
        });
        match written {
            // If both have ended early, this one was first.
            Ok(Err(ended)) => Err(ended),
            Ok(Ok(())) => read,
            Err(_) => {
                let reason = "a thread that writes what comes has ended; see the log".to_owned();
                Err(ReceiveEnd::Failed(NodeFailure::Storage { reason }))
            }
        }
    }

    /// The requested part of a parcel: a file can contain more.
    fn shares(&self, head: &ParcelHead) -> Vec<ParcelBucket> {
        let own = head.shares.iter().filter(|(bucket, ..)| self.buckets.contains(bucket));
        own.map(|(bucket, bytes, documents)| ParcelBucket {
            bucket: *bucket,
            bytes: *bytes,
            documents: *documents,
        })
        .collect()
    }

    /// Reads the parcels from the connection.
    fn read(
        &self,
        bulk: &mut TransferConnection,
        announced: &[AnnouncedParcel],
        mut part: Option<(u64, SegmentImport)>,
        writer: &ReceiveWriter,
        listener: &dyn ReceiveListener,
    ) -> Result<(), ReceiveEnd> {
        // If the other thread has ended, it reports the reason.
        let send = |step| writer.steps.send(step).map_err(|_| ReceiveEnd::Cancelled);
        let begun = |parcel: &AnnouncedParcel| {
            part.as_ref().filter(|(identity, _)| parcel.identity == Some(*identity))
        };
        let from: Vec<u64> =
            announced.iter().map(|parcel| begun(parcel).map_or(0, |(_, import)| import.bytes())).collect();
        for (number, parcel) in announced.iter().enumerate() {
            // The next parcel is requested while this one is received.
            for requested in if number == 0 { 0..2 } else { number + 1..number + 2 } {
                if let Some(next) = announced.get(requested) {
                    bulk.request(next.place, from[requested])?;
                }
            }
            let outline = bulk.outline()?;
            let import = match part.take_if(|(identity, _)| parcel.identity == Some(*identity)) {
                Some((_, import)) => import,
                None => self.store.import(&parcel.shares, outline)?,
            };
            send(ReceiveStep::Begin(parcel.identity, import))?;
            loop {
                let mut piece = writer.spares.try_recv().unwrap_or_default();
                if !bulk.piece(&mut piece)? {
                    break;
                }
                if listener.is_cancelled() {
                    return Err(ReceiveEnd::Cancelled);
                }
                self.throttle.pass(piece.len() as u64);
                self.transfer.add_bytes(piece.len() as u64);
                send(ReceiveStep::Bytes(piece))?;
            }
            send(ReceiveStep::End)?;
        }
        Ok(())
    }
}

/// The thread that writes what is read: steps go to it, and the buffers of written pieces come back.
struct ReceiveWriter {
    steps: SyncSender<ReceiveStep>,
    spares: Receiver<Vec<u8>>,
}

/// A requested parcel.
struct AnnouncedParcel {
    /// Index in the export.
    place: usize,
    identity: Option<u64>,
    shares: Vec<ParcelBucket>,
}

/// Writes the data that arrives, until its end.
fn write(
    queue: &Receiver<ReceiveStep>,
    spare: &Sender<Vec<u8>>,
    progress: &mut ReceiveProgress,
    listener: &dyn ReceiveListener,
) -> Result<(), ReceiveEnd> {
    let mut current: Option<(Option<u64>, SegmentImport)> = None;
    for step in queue {
        match step {
            ReceiveStep::Begin(identity, import) => {
                assert!(current.is_none(), "a parcel begins when the one before it has ended");
                current = Some((identity, import));
            }
            ReceiveStep::Bytes(piece) => {
                let (_, import) =
                    current.as_mut().expect("bytes come between the begin of a parcel and its end");
                import.append(&piece)?;
                progress.bytes += piece.len() as u64;
                // The buffer may not be needed any more.
                let _ = spare.send(piece);
            }
            ReceiveStep::End => {
                let (identity, import) = current.take().expect("a parcel ends once, after it has begun");
                listener.arrived(identity, import.arrive()?);
                progress.done.extend(identity);
            }
        }
    }
    progress.part = current.and_then(|(identity, import)| Some((identity?, import)));
    Ok(())
}
