//! Work whose size decides the thread that does it.

use super::WorkPool;
use crate::Error;

/// Maximum number of bytes for unpacking a body, and parsing a document, on the thread that receives it:
/// handing it to another thread costs more.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// Like [`INLINE_BYTES_MAX`], for the text of a query, which takes longer to parse.
const INLINE_QUERY_BYTES_MAX: usize = 16 << 10;

/// The size of work over the bytes of a request, and the size from which on it is done in the pool.
#[derive(Debug, Clone, Copy)]
pub struct BodySizeClass {
    bytes: usize,
    inline_max: usize,
}

impl BodySizeClass {
    /// Work of unpacking to this many bytes, or of parsing a document of this size.
    pub fn of_document(bytes: usize) -> Self {
        BodySizeClass { bytes, inline_max: INLINE_BYTES_MAX }
    }

    /// Work of parsing the parameters or the text of a query of this many bytes.
    pub fn of_query(bytes: usize) -> Self {
        BodySizeClass { bytes, inline_max: INLINE_QUERY_BYTES_MAX }
    }
}

impl WorkPool {
    /// Runs work over the bytes of a request: on this thread if they are few, else in the pool.
    ///
    /// # Errors
    /// Of work in the pool, as for [`WorkPool::run_in`]. Work on this thread has none, and its panics are the
    /// caller's.
    pub async fn run_sized<T: Send + 'static>(
        &self,
        size: BodySizeClass,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if size.bytes <= size.inline_max { Ok(work()) } else { self.run(work).await }
    }
}
