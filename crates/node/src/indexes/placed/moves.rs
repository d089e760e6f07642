//! Copies on their way as files: offers to other nodes, and imports of their offers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millrace_index::{
    CopyHeader, CopyImport, CopyParcel, Error as CopyError, IndexCopy, IndexOptions, PARCEL_BYTES,
    ParcelPlace,
};
use millrace_index_feed::CopyMarks;
use millrace_index_placement::SliceId;

use super::copies::{DueFlush, ImportOrder, ImportOutcome};
use super::message::{MessageBytes, PlacedAnswer, PlacedQuestion};
use super::service::PlacedService;
use crate::Error;

/// Time without a parcel after which an import is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause before an import goes on after an error.
const RETRY: Duration = Duration::from_secs(1);

/// Interval at which an import looks for a place among those that may run.
const TURN: Duration = Duration::from_millis(200);

/// Error of an attempt to import.
enum AttemptError {
    /// It may succeed later.
    Again(String),
    /// The copy cannot be had by file.
    Refused(String),
    /// The disk of this node.
    Disk(CopyError),
}

impl AttemptError {
    fn of(error: CopyError) -> Self {
        match error {
            CopyError::DamagedTransfer { .. } | CopyError::OtherParcel { .. } => {
                AttemptError::Again(error.to_string())
            }
            CopyError::OtherDefinition { .. }
            | CopyError::OtherSlice
            | CopyError::DamagedSource { .. }
            | CopyError::Unfinished { .. } => AttemptError::Refused(error.to_string()),
            error => AttemptError::Disk(error),
        }
    }
}

/// Runs work that may wait for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, AttemptError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| AttemptError::Again(format!("the work broke off: {error}")))
}

impl PlacedService {
    /// Offers the copy of a slice as it is now.
    ///
    /// # Errors
    /// The node has no copy of it that has everything; it sends as many as it may; a file cannot be read.
    pub async fn export(self: &Arc<Self>, slice: SliceId) -> Result<PlacedAnswer, Error> {
        let service = Arc::clone(self);
        let offer = move || {
            {
                let mut exports = service.exports.lock();
                exports.expire(service.base.elapsed());
                if exports.len() >= usize::from(service.settings().transfers_per_node) {
                    let reason = "this node sends as many copies of indexes as it may; ask again later";
                    return Err(Error::Unsettled(reason.to_owned()));
                }
            }
            let missing = || Error::NotFound(format!("no copy of {slice} is ready on this node"));
            let DueFlush { copy, kept, marks } = service.copies.lock().exported(slice).ok_or_else(missing)?;
            let offered = kept.write(&marks).and_then(|()| kept.copy.export(PARCEL_BYTES));
            let offered = offered.inspect_err(|error| service.failed(copy, error))?;
            let header = MessageBytes(offered.header().encode());
            let export = service.exports.lock().add(offered, service.base.elapsed());
            Ok(PlacedAnswer::Exported { export, header, marks })
        };
        let offered = tokio::task::spawn_blocking(offer).await;
        offered.unwrap_or_else(|error| Err(Error::Internal(error.to_string())))
    }

    /// A parcel of an offer.
    ///
    /// # Errors
    /// The offer was closed; no parcel begins there; a file cannot be read or is damaged.
    pub async fn parcel(&self, export: u64, run: u32, offset: u64) -> Result<PlacedAnswer, Error> {
        let offer = self.exports.lock().get(export, self.base.elapsed());
        let offer = offer.ok_or_else(|| Error::NotFound("the offer of this copy was closed".to_owned()))?;
        let cluster = Arc::clone(&self.cluster);
        let read = move || {
            let parcel = offer.parcel(ParcelPlace { run, offset })?;
            cluster.pace(parcel.bytes.len() as u64);
            Ok::<_, CopyError>(parcel)
        };
        let read = tokio::task::spawn_blocking(read).await;
        let parcel = read.map_err(|error| Error::Internal(error.to_string()))??;
        Ok(PlacedAnswer::Parcel(MessageBytes(parcel.encode())))
    }

    /// Takes over the copy of another node. Few imports run at a time.
    pub async fn import(self: &Arc<Self>, order: &ImportOrder) -> ImportOutcome {
        let is_cancelled = || order.status.is_cancelled.load(Ordering::SeqCst) || self.is_stopped();
        let takes_turn = || {
            let at_once = usize::from(self.settings().transfers_per_node);
            let more = |running: usize| (running < at_once).then_some(running + 1);
            self.importing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
        };
        while !takes_turn() {
            if is_cancelled() {
                return ImportOutcome::Refused("it is not wanted any more".to_owned());
            }
            tokio::time::sleep(TURN).await;
        }
        let outcome = self.import_in_turn(order, &is_cancelled).await;
        self.importing.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    async fn import_in_turn(
        self: &Arc<Self>,
        order: &ImportOrder,
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> ImportOutcome {
        let mut last_progress = (Instant::now(), 0);
        loop {
            let error = match self.attempt(order, is_cancelled).await {
                Ok((copy, marks)) => {
                    let kept = self.place.kept(order.copy, &order.definition, copy);
                    let (kept, written) = {
                        let marks = marks.clone();
                        let write = move || (kept.write_marks(&marks), kept);
                        match blocking(write).await {
                            Ok((written, kept)) => (kept, written),
                            Err(_) => return ImportOutcome::Refused("its writing broke off".to_owned()),
                        }
                    };
                    return match written {
                        Ok(()) => ImportOutcome::Received(kept, marks),
                        Err(error) => ImportOutcome::Failed(error),
                    };
                }
                Err(AttemptError::Refused(reason)) => return ImportOutcome::Refused(reason),
                Err(AttemptError::Disk(error)) => return ImportOutcome::Failed(error),
                Err(AttemptError::Again(reason)) => reason,
            };
            let received = order.status.received.load(Ordering::Relaxed);
            if received > last_progress.1 {
                last_progress = (Instant::now(), received);
            }
            if is_cancelled() || last_progress.0.elapsed() > PATIENCE {
                return ImportOutcome::Refused(error);
            }
            tracing::debug!(reason = error, copy = order.copy.0, "a copy of an index is asked for again");
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Receives the copy once, from what is there already.
    async fn attempt(
        self: &Arc<Self>,
        order: &ImportOrder,
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<(IndexCopy, CopyMarks), AttemptError> {
        let again = |error: Error| AttemptError::Again(error.to_string());
        let question = PlacedQuestion::Export { slice: order.slice };
        // It is written before it is offered.
        let offer = tokio::time::timeout(PATIENCE, self.cluster.ask(order.from, question)).await;
        let offer = offer.map_err(|_| AttemptError::Again("no offer has come in time".to_owned()))?;
        let PlacedAnswer::Exported { export, header, marks } = offer.map_err(again)? else {
            return Err(AttemptError::Again("another node answers with something else".to_owned()));
        };
        let header = CopyHeader::decode(&header.0).map_err(AttemptError::of)?;
        let options = self.place.options(order.copy, &order.definition);
        let received = self.receive(order, export, options, header, is_cancelled).await;
        // The other node closes it anyway after some time.
        let closed = self.cluster.ask(order.from, PlacedQuestion::CloseExport { export });
        self.runtime.spawn(async move { drop(closed.await) });
        Ok((received?, marks))
    }

    async fn receive(
        self: &Arc<Self>,
        order: &ImportOrder,
        export: u64,
        options: IndexOptions,
        header: CopyHeader,
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<IndexCopy, AttemptError> {
        let opened = blocking(move || CopyImport::open(options, header)).await?;
        let mut import = opened.map_err(AttemptError::of)?;
        while let Some(ParcelPlace { run, offset }) = import.next() {
            let progress = import.progress();
            order.status.bytes.store(progress.bytes, Ordering::Relaxed);
            order.status.received.store(progress.received, Ordering::Relaxed);
            if is_cancelled() {
                return Err(AttemptError::Refused("it is not wanted any more".to_owned()));
            }
            let question = PlacedQuestion::Parcel { export, run, offset };
            // The other node paces what it sends.
            let answer = tokio::time::timeout(PATIENCE, self.cluster.ask(order.from, question)).await;
            let answer = answer.map_err(|_| AttemptError::Again("no parcel has come in time".to_owned()))?;
            let answer = answer.map_err(|error| AttemptError::Again(error.to_string()))?;
            let PlacedAnswer::Parcel(bytes) = answer else {
                return Err(AttemptError::Again("another node answers with something else".to_owned()));
            };
            let cluster = Arc::clone(&self.cluster);
            let taken = blocking(move || {
                cluster.pace(bytes.0.len() as u64);
                let accepted = CopyParcel::decode(&bytes.0).and_then(|parcel| import.accept(&parcel));
                (accepted, import)
            });
            let (accepted, same) = taken.await?;
            import = same;
            accepted.map_err(AttemptError::of)?;
        }
        let finished = blocking(move || import.finish()).await?;
        finished.map_err(AttemptError::of)
    }
}
