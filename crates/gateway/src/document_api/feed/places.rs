//! Places of streams that are under way, and the clients that have them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use millrace_access::RequestCaller;
use millrace_node::Error;
use millrace_node::cluster::ForwardKind;
use millrace_store::WriterId;
use parking_lot::Mutex;

use super::STREAM_BYTES;
use crate::access_log::ConnectionPeer;
use crate::quota::client_network;

/// Part of the memory for bodies, as a divisor, that streams may reserve.
const STREAMS_PART: usize = 2;

/// Number of streams at a time, however much memory there is: each has a thread of its own.
const STREAMS_MAX: usize = 32;

/// The client of a request: its credential, or its network where there are no credentials.
pub(super) fn writer_of(caller: &RequestCaller, peer: Option<&ConnectionPeer>) -> WriterId {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let network = peer.filter(|_| caller.is_anonymous()).map(|peer| client_network(&peer.address));
    WriterId(HASHER.hash_one((&caller.name, network)))
}

/// Streams of each client, in this process.
static CLIENTS: Mutex<BTreeMap<WriterId, usize>> = Mutex::new(BTreeMap::new());

/// Streams of other nodes. They have places of their own: streams of clients wait for them, and they wait for
/// none.
static NODES: Mutex<BTreeMap<WriterId, usize>> = Mutex::new(BTreeMap::new());

/// Place of a stream among those that may be under way.
pub(super) struct StreamPlace {
    streams: &'static Mutex<BTreeMap<WriterId, usize>>,
    writer: WriterId,
}

impl StreamPlace {
    /// Takes a place for a stream of a client, or of another node.
    ///
    /// # Errors
    /// [`Error::Overloaded`]: all are taken, or a client has as many as it would leave to others.
    pub(super) fn take(hop: &ForwardKind, writer: WriterId, bodies_bytes_max: usize) -> Result<Self, Error> {
        let (streams, part) = match hop {
            ForwardKind::Client => (&CLIENTS, STREAMS_PART),
            _ => (&NODES, STREAMS_PART * 2),
        };
        let most = (bodies_bytes_max / part / STREAM_BYTES).clamp(1, STREAMS_MAX);
        let mut taken = streams.lock();
        let own = taken.get(&writer).copied().unwrap_or(0);
        let free = most.saturating_sub(taken.values().sum());
        if !admits(own, free, matches!(hop, ForwardKind::Client)) {
            return Err(Error::Overloaded);
        }
        taken.insert(writer, own + 1);
        Ok(StreamPlace { streams, writer })
    }
}

/// True if a client with `own` streams gets one of the free places. It leaves as many free as it has, so that
/// there is a place for a client that comes later; nodes relay for many clients, and share all of them.
fn admits(own: usize, free: usize, is_client: bool) -> bool {
    if is_client { own < free } else { free > 0 }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut taken = self.streams.lock();
        if let Some(own) = taken.get_mut(&self.writer) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.writer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams of clients that try to take a place one after another, until none gets one.
    fn shares(most: usize, clients: usize) -> Vec<usize> {
        let mut own = vec![0; clients];
        let mut was_admitted = true;
        while was_admitted {
            was_admitted = false;
            for client in 0..clients {
                if admits(own[client], most - own.iter().sum::<usize>(), true) {
                    own[client] += 1;
                    was_admitted = true;
                }
            }
        }
        own
    }

    #[test]
    fn a_client_leaves_places_to_others() {
        assert_eq!(shares(32, 1), [16]);
        assert_eq!(shares(32, 2), [11, 11]);
        assert_eq!(shares(32, 7), [4; 7]);
        assert_eq!(shares(1, 1), [1]);
        // One that had all that it gets, and another that comes then.
        assert!(!admits(16, 16, true) && admits(0, 16, true) && admits(7, 9, true) && !admits(8, 8, true));
        assert!(admits(31, 1, false) && !admits(0, 0, false));
    }

    #[test]
    fn clients_are_told_apart_by_credential_else_by_network() {
        let peer = |address: &str| ConnectionPeer {
            address: address.parse().expect("an address"),
            tls: false,
            is_node: false,
            certificate: None,
        };
        let of =
            |name: &str, address: &str| writer_of(&RequestCaller::unrestricted(name), Some(&peer(address)));
        assert_eq!(of("anonymous", "192.0.2.1:1"), of("anonymous", "192.0.2.1:2"));
        assert_ne!(of("anonymous", "192.0.2.1:1"), of("anonymous", "192.0.2.2:1"));
        assert_eq!(of("ann", "192.0.2.1:1"), of("ann", "192.0.2.2:1"));
        assert_ne!(of("ann", "192.0.2.1:1"), of("bob", "192.0.2.1:1"));
    }
}
