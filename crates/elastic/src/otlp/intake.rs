//! Records on their way to the store, which takes many at a time.
//!
//! Those that the store has no room for are tried again for a while: records of a request that are stored
//! cannot be taken back, and a client that repeats the request would store them twice.

use std::sync::Arc;

use super::ExportOutcome;
use super::record::LogDocument;
use crate::Error;
use crate::placing::{PlacedWrite, WritePlacer};
use crate::service::ElasticService;
use crate::writing::{self, SingleWrite, WriteAction, WriteConditions};

/// Bytes of documents, and number of them, that are gathered before they are stored.
const GATHERED_BYTES: usize = 2 << 20;
const GATHERED_MAX: usize = 2_000;

/// Source of documents: calls its argument with each, or with the reason for which a record has none.
pub(super) type DocumentSource<'s> =
    dyn FnMut(&mut dyn FnMut(Result<LogDocument, Error>) -> Result<(), Error>) -> Result<(), Error> + 's;

/// Stores documents, and waits until they are durable.
///
/// # Errors
/// The store has no room, or fails. The message has the number of records that are stored.
pub(super) fn store(
    service: &ElasticService,
    source: &mut DocumentSource<'_>,
) -> Result<ExportOutcome, Error> {
    let mut intake = RecordIntake {
        service,
        placer: WritePlacer::new(service),
        gathered: Vec::new(),
        bytes: 0,
        stored: 0,
        misfits: 0,
        misfit: String::new(),
        outcome: ExportOutcome::default(),
    };
    let read = source(&mut |document| intake.take(document));
    match read.and_then(|()| intake.store()) {
        Ok(()) => Ok(intake.into_outcome()),
        Err(error) => Err(intake.after_some(error)),
    }
}

/// The records of one request.
struct RecordIntake<'d> {
    service: &'d ElasticService,
    placer: WritePlacer<'d>,
    /// Writes that are not begun yet.
    gathered: Vec<PlacedWrite>,
    bytes: usize,
    stored: u64,
    /// Stored records with values that do not fit the mapping of their stream.
    misfits: u64,
    /// First reason of these.
    misfit: String,
    outcome: ExportOutcome,
}

impl RecordIntake<'_> {
    /// Gathers the write of a record, or counts it as rejected.
    fn take(&mut self, document: Result<LogDocument, Error>) -> Result<(), Error> {
        let placed = match document.and_then(|document| self.place(document)) {
            Ok(placed) => placed,
            Err(error) => return self.reject(error),
        };
        let bytes = placed.write.source.len();
        if self.gathered.len() >= GATHERED_MAX || self.bytes + bytes > GATHERED_BYTES {
            self.store()?;
        }
        self.bytes += bytes;
        self.gathered.push(placed);
        Ok(())
    }

    /// Stores what was gathered; returns the first error that ends the request.
    fn store(&mut self) -> Result<(), Error> {
        let written = writing::write_all(self.service, &self.gathered);
        self.gathered.clear();
        self.bytes = 0;
        let mut outcome = Ok(());
        for result in written {
            let counted = match result {
                Ok(_) => {
                    self.stored += 1;
                    Ok(())
                }
                Err(error) => self.reject(error),
            };
            outcome = outcome.and(counted);
        }
        outcome
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
            answer: None,
            size: None,
        };
        let (placed, misfit) = self.placer.place_record(&document.stream, &document.fields, write)?;
        if let Some(misfit) = misfit {
            self.misfits += 1;
            if self.misfit.is_empty() {
                self.misfit = format!("[{}]: {misfit}", document.stream);
            }
        }
        Ok(placed)
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

    /// Outcome with the warning for values that do not fit.
    fn into_outcome(self) -> ExportOutcome {
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
        let error = match error {
            // Other replicas may have the records: the request was not refused as a whole.
            Error::PartlyFull(reason) => Error::Unavailable(reason),
            error => error,
        };
        match (self.stored, error.status()) {
            (0, _) => error,
            (stored, 429 | 503) => Error::Unavailable(format!(
                "{error}; {stored} records of the request are stored, and are stored again if it is repeated"
            )),
            (stored, _) => Error::Internal(format!("{error}; {stored} records of the request are stored")),
        }
    }
}
