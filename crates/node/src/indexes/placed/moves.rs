//! Copies on their way as files: offers to other nodes, and imports of their offers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millrace_index::{
    CopyHeader, CopyImport, CopyParcel, Error as CopyError, IndexCopy, IndexOptions, PARCEL_BYTES,
    ParcelPosition,
};
use millrace_index_feed::CopyMarks;
use millrace_index_placement::SliceId;
use tokio::task::JoinHandle;
use tokio::time::error::Elapsed;

use super::copies::{DueFlush, ImportOrder, ImportOutcome};
use super::message::{MessageBytes, PlacedAnswer, PlacedQuestion};
use super::service::PlacedService;
use crate::Error;

/// Time without a parcel after which an import is given up.
const PARCEL_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause before an import goes on after an error.
const RETRY: Duration = Duration::from_secs(1);

/// Parcels of an import that are on their way at a time: some come while others are written.
const PARCELS: usize = 8;

/// Interval at which an import looks for a slot among those that may run.
const TURN: Duration = Duration::from_millis(200);

/// Error of an attempt to import.
enum AttemptError {
    /// A passing error: another attempt may succeed.
    Again(String),
    /// The copy cannot be had by file.
    Refused(String),
    /// The disk of this node.
    Disk(CopyError),
}

impl AttemptError {
    fn from_copy_error(error: CopyError) -> Self {
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

/// Answer to a question for a parcel.
type ParcelAnswer = Result<Result<PlacedAnswer, Error>, Elapsed>;

/// Parcels that were asked for, in their order.
#[derive(Default)]
struct ParcelsAhead {
    requested: VecDeque<(ParcelPosition, JoinHandle<ParcelAnswer>)>,
}

impl ParcelsAhead {
    /// Asks for the parcels from a position on, but for those that are on their way.
    fn ask(
        &mut self,
        header: &CopyHeader,
        position: ParcelPosition,
        mut ask: impl FnMut(ParcelPosition) -> JoinHandle<ParcelAnswer>,
    ) {
        if self.requested.front().is_some_and(|(first, _)| *first != position) {
            // Those of a run that is here already are not needed.
            self.give_up();
        }
        let last = self.requested.back().map(|(last, _)| *last);
        let mut next = last.map_or(Some(position), |last| header.position_after(last));
        while self.requested.len() < PARCELS
            && let Some(position) = next
        {
            self.requested.push_back((position, ask(position)));
            next = header.position_after(position);
        }
    }

    /// Waits for the first one.
    async fn next(&mut self) -> Result<CopyParcel, AttemptError> {
        let again = AttemptError::Again;
        let Some((position, parcel)) = self.requested.pop_front() else {
            return Err(again("no parcel was asked for".to_owned()));
        };
        let answer = parcel.await.map_err(|error| again(error.to_string()))?;
        let answer = answer.map_err(|_| again("no parcel has come in time".to_owned()))?;
        match answer.map_err(|error| again(error.to_string()))? {
            PlacedAnswer::Parcel(MessageBytes(bytes)) => Ok(CopyParcel { position, bytes }),
            _ => Err(again("another node answers with something else".to_owned())),
        }
    }

    fn give_up(&mut self) {
        self.requested.drain(..).for_each(|(_, parcel)| parcel.abort());
    }
}

impl Drop for ParcelsAhead {
    fn drop(&mut self) {
        self.give_up();
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
            let parcel = offer.parcel(ParcelPosition { run, offset })?;
            cluster.pace(parcel.bytes.len() as u64);
            Ok::<_, CopyError>(parcel)
        };
        let read = tokio::task::spawn_blocking(read).await;
        let parcel = read.map_err(|error| Error::Internal(error.to_string()))??;
        Ok(PlacedAnswer::Parcel(MessageBytes(parcel.bytes)))
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
                    let kept = self.place.received_copy(order.copy, &order.definition, copy);
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
            if is_cancelled() || last_progress.0.elapsed() > PARCEL_TIMEOUT {
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
        let offer = tokio::time::timeout(PARCEL_TIMEOUT, self.cluster.ask(order.from, question)).await;
        let offer = offer.map_err(|_| AttemptError::Again("no offer has come in time".to_owned()))?;
        let PlacedAnswer::Exported { export, header, marks } = offer.map_err(again)? else {
            return Err(AttemptError::Again("another node answers with something else".to_owned()));
        };
        let header = CopyHeader::decode(&header.0).map_err(AttemptError::from_copy_error)?;
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
        let mut import = opened.map_err(AttemptError::from_copy_error)?;
        let ask = |ParcelPosition { run, offset }: ParcelPosition| {
            let question = PlacedQuestion::Parcel { export, run, offset };
            // The other node paces what it sends.
            let answer = self.cluster.ask(order.from, question);
            self.runtime.spawn(tokio::time::timeout(PARCEL_TIMEOUT, answer))
        };
        let mut ahead = ParcelsAhead::default();
        while let Some(position) = import.next() {
            let progress = import.progress();
            order.status.bytes.store(progress.bytes, Ordering::Relaxed);
            order.status.received.store(progress.received, Ordering::Relaxed);
            if is_cancelled() {
                return Err(AttemptError::Refused("it is not wanted any more".to_owned()));
            }
            ahead.ask(import.header(), position, ask);
            let parcel = ahead.next().await?;
            let (cluster, source) = (Arc::clone(&self.cluster), Arc::clone(&self.source));
            let taken = blocking(move || {
                cluster.pace(parcel.bytes.len() as u64);
                import.set_disk_free(!source.store().is_in_use());
                (import.accept(&parcel), import)
            });
            let (accepted, same) = taken.await?;
            import = same;
            accepted.map_err(AttemptError::from_copy_error)?;
        }
        let finished = blocking(move || import.finish()).await?;
        finished.map_err(AttemptError::from_copy_error)
    }
}

#[cfg(test)]
mod tests {
    use millrace_index::{ExportedRun, SliceRange};

    use super::*;

    /// Header of runs of so many parcels each.
    fn header(parcels: &[u64]) -> CopyHeader {
        let run = |parcels: &u64| ExportedRun { length: *parcels, checksums: vec![0; *parcels as usize] };
        CopyHeader {
            definition: 1,
            complete_until: 0,
            built: true,
            slice: SliceRange::default(),
            parcel_bytes: 1,
            runs: parcels.iter().map(run).collect(),
        }
    }

    #[tokio::test]
    async fn parcels_are_asked_for_before_those_of_before_are_taken() {
        let (header, mut ahead, mut requested) = (header(&[10, 3, 2]), ParcelsAhead::default(), Vec::new());
        let mut position = header.first_position();
        let mut came = Vec::new();
        while let Some(ParcelPosition { run, offset }) = position {
            ahead.ask(&header, ParcelPosition { run, offset }, |position| {
                requested.push((position.run, position.offset));
                let bytes = MessageBytes(vec![position.run as u8, position.offset as u8]);
                tokio::spawn(async move { Ok(Ok(PlacedAnswer::Parcel(bytes))) })
            });
            let left = 15 - came.len();
            assert_eq!(requested.len() - came.len(), PARCELS.min(left), "on their way at {run} {offset}");
            let parcel = ahead.next().await.unwrap_or_else(|_| panic!("the parcel at {run} {offset} comes"));
            assert_eq!(parcel.bytes, [parcel.position.run as u8, parcel.position.offset as u8]);
            came.push((parcel.position.run, parcel.position.offset));
            position = header.position_after(ParcelPosition { run, offset });
        }
        let all = [(10, 0), (3, 1), (2, 2)].map(|(parcels, run)| (0..parcels).map(move |at| (run, at)));
        let all: Vec<(u32, u64)> = all.into_iter().flatten().collect();
        assert_eq!((&came, &requested), (&all, &all), "each once, in their order");
    }

    #[tokio::test]
    async fn parcels_of_a_run_that_is_here_are_given_up() {
        let (header, mut ahead) = (header(&[2, 3, 2]), ParcelsAhead::default());
        let ask = |position: ParcelPosition| {
            let bytes = MessageBytes(vec![position.run as u8, position.offset as u8]);
            tokio::spawn(async move { Ok(Ok(PlacedAnswer::Parcel(bytes))) })
        };
        for run in [0, 2] {
            ahead.ask(&header, ParcelPosition { run, offset: 0 }, ask);
            let came = ahead.next().await.map(|parcel| parcel.bytes);
            assert!(came.is_ok_and(|bytes| bytes == [run as u8, 0]), "run {run}");
        }
        assert_eq!(ahead.requested.len(), 1, "one is left of the last run");
    }
}
