//! Memory that the results of a query may take while it runs.
//!
//! The size of a request says little about that of its results: the hits of a small request can have
//! gigabytes of values. So the data that grows with the documents is counted while it is made: the matches of
//! its leaves with their positions, values and features of hits, groups, and the shares of other nodes. A
//! query that would take more than its part ends with an error.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Default maximum memory of the results of one query, in bytes.
pub const QUERY_MEMORY_MAX: usize = 256 << 20;

/// Bytes by which a query takes memory from the ledger of all, so that small queries seldom meet there.
const LEDGER_STEP: usize = 1 << 20;

/// Reason why the results of a query get no more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueryMemoryError {
    /// The results take more than one query may.
    #[error(
        "the results of this query take more than {limit} bytes of memory; ask for fewer documents, words, hits, fields or features, or raise query-memory-max"
    )]
    OfQuery {
        /// Maximum memory of a query, in bytes.
        limit: usize,
    },
    /// The results of other queries take all memory of queries.
    #[error(
        "no room for the results of this query now: others take all of queries-memory-max, {limit} bytes; try again later, with fewer at a time"
    )]
    OfAll {
        /// Maximum memory of all queries, in bytes.
        limit: usize,
    },
}

/// The memory that the results of all queries of a node take.
#[derive(Debug)]
pub struct QueryMemoryLedger {
    limit: usize,
    taken: AtomicUsize,
}

impl QueryMemoryLedger {
    /// Allows this many bytes for all queries together.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(QueryMemoryLedger { limit, taken: AtomicUsize::new(0) })
    }

    /// Returns the number of bytes that queries have taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> Result<(), QueryMemoryError> {
        add_up_to(&self.taken, bytes, self.limit)
            .map(drop)
            .ok_or(QueryMemoryError::OfAll { limit: self.limit })
    }
}

/// The memory of one query: shared by all its schemas and sources, and given back when it is dropped.
#[derive(Debug)]
pub struct QueryMemory {
    limit: usize,
    taken: AtomicUsize,
    /// Bytes taken from the ledger; at least `taken`.
    reserved: AtomicUsize,
    ledger: Arc<QueryMemoryLedger>,
    refused: OnceLock<QueryMemoryError>,
}

impl QueryMemory {
    /// Allows this many bytes, as far as the ledger has them.
    pub fn new(limit: usize, ledger: Arc<QueryMemoryLedger>) -> Arc<Self> {
        let (taken, reserved) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(QueryMemory { limit, taken, reserved, ledger, refused: OnceLock::new() })
    }

    /// The memory of a query that does not share the ledger with others.
    pub fn standalone() -> Arc<Self> {
        QueryMemory::new(QUERY_MEMORY_MAX, QueryMemoryLedger::new(usize::MAX))
    }

    /// Takes bytes, before or while they are allocated.
    ///
    /// # Errors
    /// The query, or all queries, would have more than they may; nothing is taken then.
    pub fn take(&self, bytes: usize) -> Result<(), QueryMemoryError> {
        let outcome = self.try_take(bytes);
        if let Err(error) = outcome {
            self.refused.get_or_init(|| error);
        }
        outcome
    }

    fn try_take(&self, bytes: usize) -> Result<(), QueryMemoryError> {
        let taken = add_up_to(&self.taken, bytes, self.limit);
        let taken = taken.ok_or(QueryMemoryError::OfQuery { limit: self.limit })?;
        let reserved = self.reserved.load(Ordering::Relaxed);
        if taken > reserved {
            let more = taken.next_multiple_of(LEDGER_STEP) - reserved;
            if let Err(error) = self.ledger.take(more) {
                self.taken.fetch_sub(bytes, Ordering::Relaxed);
                return Err(error);
            }
            self.reserved.fetch_add(more, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the number of bytes that it has.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Gives back bytes that it has taken, for what lives shorter than the query.
    pub fn give_back(&self, bytes: usize) {
        let before = self.taken.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "a query gives back {bytes} bytes of memory, and has taken {before}");
    }

    /// Returns the first refusal, for callers whose own errors do not have it.
    pub fn refused(&self) -> Option<QueryMemoryError> {
        self.refused.get().copied()
    }
}

impl Drop for QueryMemory {
    fn drop(&mut self) {
        self.ledger.taken.fetch_sub(*self.reserved.get_mut(), Ordering::Relaxed);
    }
}

/// Adds to a counter, and returns the sum; `None` if it would exceed the limit.
fn add_up_to(counter: &AtomicUsize, bytes: usize, limit: usize) -> Option<usize> {
    let sum = |before: usize| before.checked_add(bytes).filter(|sum| *sum <= limit);
    let before = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).ok()?;
    Some(before + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_take_no_more_than_their_own_part_and_that_of_all() {
        let (mb, ledger) = (1 << 20, QueryMemoryLedger::new(5 << 20));
        let one = QueryMemory::new(3 * mb, Arc::clone(&ledger));
        assert_eq!(one.take(10), Ok(()));
        assert_eq!(ledger.taken(), mb, "by steps");
        assert_eq!(one.take(2 * mb), Ok(()));
        assert_eq!(one.refused(), None);
        assert_eq!(one.take(mb), Err(QueryMemoryError::OfQuery { limit: 3 * mb }));
        assert_eq!(one.take(usize::MAX), Err(QueryMemoryError::OfQuery { limit: 3 * mb }));
        assert_eq!(one.refused(), Some(QueryMemoryError::OfQuery { limit: 3 * mb }));
        one.give_back(2 * mb);
        assert_eq!((one.take(mb), ledger.taken()), (Ok(()), 3 * mb), "what is reserved is used again");
        let other = QueryMemory::new(3 * mb, Arc::clone(&ledger));
        assert_eq!(other.take(2 * mb), Ok(()));
        assert_eq!(other.take(1), Err(QueryMemoryError::OfAll { limit: 5 * mb }));
        drop(one);
        assert_eq!(other.take(mb), Ok(()), "a refusal takes nothing");
        drop(other);
        assert_eq!(ledger.taken(), 0);
    }

    #[test]
    #[should_panic(expected = "gives back 2 bytes")]
    fn a_query_gives_back_what_it_has_taken() {
        let memory = QueryMemory::standalone();
        memory.take(1).expect("there is room");
        memory.give_back(2);
    }
}
