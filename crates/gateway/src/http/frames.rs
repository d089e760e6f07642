//! Sequences of values in a body, each sent when it is ready: four bytes with the length of the value, then
//! the value as CBOR.

use std::sync::Arc;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::body::Bytes;
use millrace_plan::QueryMemory;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::budget::BudgetReservation;

/// Fault of a sequence of values.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameFault {
    #[error(transparent)]
    Encode(#[from] ciborium::ser::Error<std::io::Error>),
    #[error(transparent)]
    Decode(#[from] ciborium::de::Error<std::io::Error>),
    #[error("more than 4 GB cannot be sent")]
    TooMuch,
    #[error("a value of {length} bytes is longer than {limit}")]
    TooLong { length: usize, limit: usize },
    #[error(transparent)]
    Memory(#[from] millrace_node::Error),
    #[error(transparent)]
    QueryMemory(#[from] millrace_plan::QueryMemoryError),
    #[error(transparent)]
    Body(#[from] axum::Error),
    #[error("it broke off")]
    BrokenOff,
}

/// Encodes a value as a frame.
///
/// # Errors
/// The value cannot be serialized, or is too long.
pub(crate) fn frame(value: &impl Serialize) -> Result<Bytes, FrameFault> {
    let mut bytes = vec![0; 4];
    ciborium::into_writer(value, &mut bytes)?;
    let length = u32::try_from(bytes.len() - 4).map_err(|_| FrameFault::TooMuch)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes.into())
}

/// Reader of the values in a body.
pub(crate) struct BodyValueReader {
    body: Body,
    read: Vec<u8>,
    /// Maximum size of one value, in bytes.
    limit: usize,
    /// Size of the longest value so far, in bytes.
    longest: usize,
    memory: FrameMemory,
}

/// Memory for the longest value of a sequence so far.
pub(crate) enum FrameMemory {
    /// A share of the budget of bodies, for a sender that may be anyone. It waits for room.
    Bodies(BudgetReservation),
    /// That of the results of a query, for which another node sends its share.
    Results(Arc<QueryMemory>),
}

impl BodyValueReader {
    pub(crate) fn new(body: Body, limit: usize, memory: FrameMemory) -> Self {
        BodyValueReader { body, read: Vec::new(), limit, longest: 0, memory }
    }

    async fn grow_to(&mut self, bytes: usize) -> Result<(), FrameFault> {
        match &mut self.memory {
            FrameMemory::Bodies(share) => share.grow_to(bytes).await?,
            FrameMemory::Results(memory) => {
                let more = bytes.saturating_sub(self.longest);
                memory.take(more)?;
            }
        }
        self.longest = self.longest.max(bytes);
        Ok(())
    }

    /// Returns the next value; `None` at the end.
    ///
    /// # Errors
    /// The body broke off, or a value is too long or has another type.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameFault> {
        loop {
            if let Some(length) = self.read.first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                if length > self.limit {
                    return Err(FrameFault::TooLong { length, limit: self.limit });
                }
                if self.read.len() >= 4 + length {
                    let frame: Vec<u8> = self.read.drain(..4 + length).collect();
                    return Ok(Some(ciborium::from_reader(&frame[4..])?));
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.grow_to(self.read.len() + data.len()).await?;
                        self.read.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => return Err(error.into()),
                None if self.read.is_empty() => return Ok(None),
                None => return Err(FrameFault::BrokenOff),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millrace_plan::QueryMemoryLedger;

    use super::super::budget::{BudgetBounds, RequestBudget};
    use super::*;

    #[tokio::test]
    async fn values_come_out_as_they_went_in() {
        let all: Vec<u8> =
            ["one", "", "three"].iter().flat_map(|text| frame(text).expect("a text").to_vec()).collect();
        let patience = Duration::ZERO;
        let bounds = BudgetBounds { bodies: 1000, work: 0, answers: 0, patience, return_memory: || {} };
        let budget = RequestBudget::new(bounds);
        let mut frames =
            BodyValueReader::new(Body::from(all.clone()), 100, FrameMemory::Bodies(budget.share()));
        for text in ["one", "", "three"] {
            assert_eq!(frames.next().await.expect("a value"), Some(text.to_owned()));
        }
        assert_eq!(frames.next::<String>().await.expect("the end"), None);
        let mut broken = BodyValueReader::new(
            Body::from(all[..all.len() - 1].to_vec()),
            100,
            FrameMemory::Bodies(budget.share()),
        );
        assert!(broken.next::<String>().await.is_ok());
        assert!(broken.next::<String>().await.is_ok());
        assert!(broken.next::<String>().await.is_err());
        let memory = QueryMemory::new(5, QueryMemoryLedger::new(usize::MAX));
        let mut results =
            BodyValueReader::new(Body::from(all), 100, FrameMemory::Results(Arc::clone(&memory)));
        assert!(results.next::<String>().await.is_err(), "they do not fit");
        assert!(memory.refused().is_some());
        let mut long =
            BodyValueReader::new(Body::from(vec![255; 8]), 100, FrameMemory::Bodies(budget.share()));
        assert!(long.next::<String>().await.is_err());
    }
}
