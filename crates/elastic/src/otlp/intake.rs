//! Records on their way to the store.
//!
//! Writes are begun one after the other and share their syncs, and no more of them are under way than
//! [`UNDER_WAY_BYTES`] allows. Those that the store has no room for are begun again together, up to
//! [`TRIES`] times without success: records of a request that are stored cannot be taken back, and a client
//! that repeats the request would store them twice.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::ExportOutcome;
use super::record::LogDocument;
use crate::Error;
use crate::door::{ElasticDoor, PlacedWrite};
use crate::writing::{PendingSingle, SingleWrite, WriteAction, WriteConditions};

/// Bytes of documents whose writes are under way for one request.
const UNDER_WAY_BYTES: usize = 2 << 20;

/// Writes that are under way for one request.
const UNDER_WAY_MAX: usize = 2_000;

/// Pause before writes are begun again.
const PAUSE: Duration = Duration::from_millis(20);

/// Times that writes are begun again, 10 s of pauses in all, while no record of the request is stored.
const TRIES: u32 = 500;

/// Source of documents: calls its argument with each, or with the reason for which a record has none.
pub(super) type DocumentSource<'s> =
    dyn FnMut(&mut dyn FnMut(Result<LogDocument, Error>) -> Result<(), Error>) -> Result<(), Error> + 's;

/// Stores documents, and waits until they are durable.
///
/// # Errors
/// The store has no room, or fails. The message has the number of records that are stored.
pub(super) fn store(door: &ElasticDoor, source: &mut DocumentSource<'_>) -> Result<ExportOutcome, Error> {
    let mut intake = RecordIntake {
        door,
        under_way: VecDeque::new(),
        refused: Vec::new(),
        bytes: 0,
        stored: 0,
        misfits: 0,
        misfit: String::new(),
        tries_left: TRIES,
        outcome: ExportOutcome::default(),
    };
    let read = source(&mut |document| intake.take(document));
    let outcome = match read {
        Ok(()) => intake.end(),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => Ok(intake.told()),
        Err(error) => {
            // The first error is returned; those after it change only the number of stored records.
            let _ = intake.settle_all();
            Err(intake.after_some(error))
        }
    }
}

/// A write that is under way, with what is needed to begin it again.
struct WriteUnderWay {
    pending: PendingSingle,
    again: PlacedWrite,
    bytes: usize,
}

/// The records of one request.
struct RecordIntake<'d> {
    door: &'d ElasticDoor,
    under_way: VecDeque<WriteUnderWay>,
    /// Writes that the store had no room for.
    refused: Vec<PlacedWrite>,
    bytes: usize,
    stored: u64,
    /// Stored records with values that do not fit the mapping of their stream.
    misfits: u64,
    /// First reason of these.
    misfit: String,
    /// Times that refused writes are begun again before they are given up, if no record is stored.
    tries_left: u32,
    outcome: ExportOutcome,
}

impl RecordIntake<'_> {
    /// Begins the write of a record, or counts it as rejected.
    fn take(&mut self, document: Result<LogDocument, Error>) -> Result<(), Error> {
        match document.and_then(|document| self.place(document)) {
            Ok(placed) => self.begin(placed),
            Err(error) => self.reject(error),
        }
    }

    fn place(&mut self, document: LogDocument) -> Result<PlacedWrite, Error> {
        let write = SingleWrite {
            action: WriteAction::Create,
            id: None,
            routing: None,
            conditions: WriteConditions::default(),
            source: Arc::from(document.text()),
            update: None,
            shown: None,
        };
        let (placed, misfit) = self.door.place_record(&document.stream, &document.fields, write)?;
        if let Some(misfit) = misfit {
            self.misfits += 1;
            if self.misfit.is_empty() {
                self.misfit = format!("[{}]: {misfit}", document.stream);
            }
        }
        Ok(placed)
    }

    fn begin(&mut self, placed: PlacedWrite) -> Result<(), Error> {
        let bytes = placed.write.source.len();
        while !self.under_way.is_empty()
            && (self.under_way.len() >= UNDER_WAY_MAX || self.bytes + bytes > UNDER_WAY_BYTES)
        {
            self.settle_oldest()?;
        }
        // They stay within the bounds: nothing else is under way when they are begun.
        while !self.refused.is_empty() {
            self.begin_again()?;
        }
        self.push(placed)
    }

    fn push(&mut self, placed: PlacedWrite) -> Result<(), Error> {
        let bytes = placed.write.source.len();
        let pending = self.door.begin(placed.clone())?;
        self.bytes += bytes;
        self.under_way.push_back(WriteUnderWay { pending, again: placed, bytes });
        Ok(())
    }

    /// Waits for the oldest write.
    fn settle_oldest(&mut self) -> Result<(), Error> {
        let Some(WriteUnderWay { pending, again, bytes }) = self.under_way.pop_front() else {
            return Ok(());
        };
        self.bytes -= bytes;
        match pending.wait() {
            Ok(_) => {
                self.stored += 1;
                self.tries_left = TRIES;
                Ok(())
            }
            Err(Error::Rejected(_)) if self.tries_left > 0 => {
                self.refused.push(again);
                Ok(())
            }
            Err(error) => self.reject(error),
        }
    }

    /// Waits for all writes, and begins those again that the store had no room for; waits for these too.
    fn begin_again(&mut self) -> Result<(), Error> {
        self.settle_all()?;
        if !self.refused.is_empty() {
            std::thread::sleep(PAUSE);
            self.tries_left = self.tries_left.saturating_sub(1);
        }
        for placed in std::mem::take(&mut self.refused) {
            self.push(placed)?;
        }
        self.settle_all()
    }

    /// Counts a record that can never be stored; passes other errors on, which end the request.
    fn reject(&mut self, error: Error) -> Result<(), Error> {
        match error.status() {
            400..500 if error.status() != 429 => {
                self.outcome.rejected += 1;
                if self.outcome.reason.is_empty() {
                    self.outcome.reason = error.to_string();
                }
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Waits for all writes, also after one that failed; returns the first error.
    fn settle_all(&mut self) -> Result<(), Error> {
        let mut outcome = Ok(());
        while !self.under_way.is_empty() {
            let settled = self.settle_oldest();
            if outcome.is_ok() {
                outcome = settled;
            }
        }
        outcome
    }

    /// Waits until no write is left.
    fn end(&mut self) -> Result<(), Error> {
        self.settle_all()?;
        while !self.refused.is_empty() {
            self.begin_again()?;
        }
        Ok(())
    }

    /// Outcome with the warning for values that do not fit.
    fn told(self) -> ExportOutcome {
        let mut outcome = self.outcome;
        if outcome.rejected == 0 && self.misfits > 0 {
            outcome.reason = format!(
                "all records are stored, {} of them with values that are not found by their fields; data stream {}",
                self.misfits, self.misfit
            );
        }
        outcome
    }

    /// Error of a request, some records of which may be stored already.
    fn after_some(&self, error: Error) -> Error {
        match (self.stored, error.status()) {
            (0, _) => error,
            (stored, 429 | 503) => Error::Unavailable(format!(
                "{error}; {stored} records of the request are stored, and are stored again if it is repeated"
            )),
            (stored, _) => Error::Internal(format!("{error}; {stored} records of the request are stored")),
        }
    }
}
