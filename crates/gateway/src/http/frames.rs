//! Sequences of messages in a body, each sent when it is ready: four bytes with the length of the message,
//! then the message.

use std::sync::Arc;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::body::Bytes;
use millrace_plan::QueryMemory;

use super::budget::BudgetReservation;

/// Fault of a sequence of messages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameFault {
    #[error(transparent)]
    Codec(#[from] millrace_codec::Error),
    #[error("more than 4 GB cannot be sent")]
    TooMuch,
    #[error("a message of {length} bytes is longer than {limit}")]
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

/// Returns a frame with the message that `append` writes after other bytes.
///
/// # Errors
/// The message is not one that is sent, or is too long.
pub(crate) fn frame(
    append: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, millrace_codec::Error>,
) -> Result<Bytes, FrameFault> {
    let mut bytes = append(vec![0; 4])?;
    let length = u32::try_from(bytes.len() - 4).map_err(|_| FrameFault::TooMuch)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes.into())
}

/// Reader of the messages in a body.
pub(crate) struct BodyMessageReader {
    body: Body,
    read: Vec<u8>,
    /// Maximum size of one message, in bytes.
    limit: usize,
    /// Size of the longest message so far, in bytes.
    longest: usize,
    memory: FrameMemory,
}

/// Memory for the longest message of a sequence so far.
pub(crate) enum FrameMemory {
    /// A share of the budget of bodies, for a sender that may be anyone. It waits for room.
    Bodies(BudgetReservation),
    /// Memory of the results of a query, for which another node sends its share.
    Results(Arc<QueryMemory>),
}

impl BodyMessageReader {
    pub(crate) fn new(body: Body, limit: usize, memory: FrameMemory) -> Self {
        BodyMessageReader { body, read: Vec::new(), limit, longest: 0, memory }
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

    /// Returns the bytes of the next message; `None` at the end.
    ///
    /// # Errors
    /// The body broke off, or a message is too long.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, FrameFault> {
        loop {
            if let Some(length) = self.read.first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                if length > self.limit {
                    return Err(FrameFault::TooLong { length, limit: self.limit });
                }
                if self.read.len() >= 4 + length {
                    let rest = self.read.split_off(4 + length);
                    let frame = std::mem::replace(&mut self.read, rest);
                    return Ok(Some(Bytes::from(frame).slice(4..)));
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
    async fn messages_come_out_as_they_went_in() {
        let framed = |text: &str| {
            frame(|out| Ok([&out[..], text.as_bytes()].concat())).expect("a short message").to_vec()
        };
        let all: Vec<u8> = ["one", "", "three"].into_iter().flat_map(framed).collect();
        let wait_max = Duration::ZERO;
        let bounds = BudgetBounds { bodies: 1000, work: 0, answers: 0, wait_max, return_memory: || {} };
        let budget = RequestBudget::new(bounds);
        let reader = |bytes: &[u8], memory| BodyMessageReader::new(Body::from(bytes.to_vec()), 100, memory);
        let bodies = || FrameMemory::Bodies(budget.share());
        let mut frames = reader(&all, bodies());
        for text in ["one", "", "three"] {
            assert_eq!(frames.next().await.expect("a message"), Some(Bytes::from(text)));
        }
        assert_eq!(frames.next().await.expect("the end"), None);
        let mut broken = reader(&all[..all.len() - 1], bodies());
        assert!(broken.next().await.is_ok());
        assert!(broken.next().await.is_ok());
        assert!(broken.next().await.is_err());
        let memory = QueryMemory::new(5, QueryMemoryLedger::new(usize::MAX));
        let mut results = reader(&all, FrameMemory::Results(Arc::clone(&memory)));
        assert!(results.next().await.is_err(), "they do not fit");
        assert!(memory.refused().is_some());
        let mut long = reader(&[255; 8], bodies());
        assert!(long.next().await.is_err());
    }
}
