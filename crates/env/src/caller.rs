use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Purpose of a call to a model or to another service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequencePurpose {
    /// A query that waits for the result.
    Query,
    /// A document write.
    Feed,
}

/// A waiting caller, with its deadline.
#[derive(Debug, Clone)]
pub struct ModelCaller {
    /// Purpose of the call.
    pub purpose: SequencePurpose,
    /// Time after which the result is not needed.
    pub deadline: Option<Instant>,
    /// Set by another thread when the caller has left.
    pub gone: Arc<AtomicBool>,
}

impl ModelCaller {
    /// A caller without a deadline.
    pub fn without_deadline(purpose: SequencePurpose) -> Self {
        ModelCaller { purpose, deadline: None, gone: Arc::default() }
    }
}
