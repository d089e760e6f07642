//! Pauses of requests by query whose callers have written too much.

use std::collections::BTreeSet;
use std::time::Duration;

use millrace_node::pool;
use millrace_store::WriterId;
use parking_lot::Mutex;

use crate::Error;
use crate::service::ElasticService;

/// Time after which it is looked again whether the client has left.
const ALLOWANCE_PAUSE: Duration = Duration::from_millis(100);

/// Number of requests at a time that wait for the allowances of their callers. Each keeps its thread, and its
/// slot among the requests of the service.
const PACED_MAX: usize = 16;

/// Clients with such a request, of which each has one.
static PACED: Mutex<BTreeSet<WriterId>> = Mutex::new(BTreeSet::new());

/// Turn of a client whose request waits for an allowance, until this is dropped.
struct PacedTurn(WriterId);

impl PacedTurn {
    /// Takes the turn of a client.
    ///
    /// # Errors
    /// It has another request that waits, or too many others have one.
    fn take(client: WriterId) -> Result<Self, Error> {
        let mut paced = PACED.lock();
        if paced.len() >= PACED_MAX || !paced.insert(client) {
            return Err(millrace_node::Error::Overloaded.into());
        }
        Ok(PacedTurn(client))
    }
}

impl Drop for PacedTurn {
    fn drop(&mut self) {
        PACED.lock().remove(&self.0);
    }
}

/// Waits until the documents written before are paid back, by the limit of the caller on written bytes.
///
/// # Errors
/// The client has left; too many requests wait like this one.
pub(super) fn await_allowance(service: &ElasticService) -> Result<(), Error> {
    let Some(rewrites) = service.caller.rewrites(None) else { return Ok(()) };
    if rewrites.wait().is_zero() {
        return Ok(());
    }
    let _turn = PacedTurn::take(service.caller.client())?;
    pool::wait_without_slot(|| {
        loop {
            let wait = rewrites.wait();
            if wait.is_zero() {
                return Ok(());
            }
            service.check_client()?;
            std::thread::sleep(wait.min(ALLOWANCE_PAUSE));
        }
    })
}
