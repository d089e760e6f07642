//! Heads of requests, which are in memory before anything is known of their senders.

use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::header::HeaderMap;
use millrace_node::Error;

use super::{BudgetReservation, RequestBudget, SMALL_PART};

/// Size of a head, in bytes in memory, up to which it is not counted.
const FREE_BYTES: usize = 4 << 10;

/// Memory of a header in bytes, beside its text.
const HEADER_BYTES: usize = 72;

/// Size of the head of a request in memory, in bytes.
fn bytes_of<B>(request: &Request<B>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    target + header_bytes(request.headers())
}

fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| HEADER_BYTES + name.as_str().len() + value.len()).sum()
}

impl RequestBudget {
    /// Counts the head of a request among the bodies, if it is large. One for which there is no room does not
    /// wait: it would be in memory meanwhile.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if there is none.
    pub(crate) fn head<B>(
        self: &Arc<Self>,
        request: &Request<B>,
    ) -> Result<Option<BudgetReservation>, Error> {
        let bytes = bytes_of(request);
        if bytes <= FREE_BYTES {
            return Ok(None);
        }
        let bodies = &self.bodies;
        // The last part is for small bodies.
        let limit = bodies.capacity - bodies.capacity / SMALL_PART;
        if !bodies.take_within(bytes, limit) {
            return Err(bodies.refuse(0, Duration::ZERO));
        }
        let mut share = self.share();
        share.bytes = bytes;
        Ok(Some(share))
    }
}

#[cfg(test)]
mod tests {
    use super::super::BudgetBounds;
    use super::*;

    fn request(name: &str, value: &str, times: usize) -> Request<()> {
        let mut request = Request::get("/search/");
        for _ in 0..times {
            request = request.header(name, value);
        }
        request.body(()).expect("its headers are valid")
    }

    #[test]
    fn large_heads_are_counted_and_do_not_wait() {
        let bounds = BudgetBounds {
            bodies: 320_000,
            work: 0,
            answers: 0,
            wait_max: Duration::from_secs(3600),
            return_memory: || {},
        };
        let budget = RequestBudget::new(bounds);
        assert!(budget.head(&request("a", "b", 40)).expect("it is small").is_none());
        let large = request("a", &"x".repeat(100_000), 1);
        let first = budget.head(&large).expect("there is room").expect("it is counted");
        assert_eq!(budget.of_bodies().reserved, 100_000 + HEADER_BYTES + "a".len() + "/search/".len());
        // Many headers of a byte take memory, too.
        let many = budget.head(&request("a", "", 1000)).expect("there is room").expect("it is counted");
        let second = budget.head(&large).expect("there is room");
        let refused = budget.head(&large).err().expect("no room");
        assert!(matches!(refused, Error::NoRoom { setting: "bodies-bytes-max", .. }), "{refused}");
        drop((first, many, second));
        assert_eq!(budget.of_bodies().reserved, 0);
    }
}
