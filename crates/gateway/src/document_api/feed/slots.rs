//! Slots of streams that are in flight, and the clients that have them: streams of `/feed/v1` and of
//! `_bulk/stream`, with the memory that each may take.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::iter::Sum;
use std::sync::LazyLock;

use millrace_access::RequestCaller;
use millrace_node::Error;
use millrace_node::cluster::ForwardKind;
use millrace_store::WriterId;
use parking_lot::Mutex;

use super::STREAM_BYTES;
use crate::access_log::ConnectionPeer;
use crate::quota::client_network;

/// Part of the memory for bodies, as a divisor, that streams of clients may reserve.
const STREAMS_PART: usize = 2;

/// The same for streams of other nodes.
const NODE_STREAMS_PART: usize = 4;

/// Number of streams at a time, however much memory there is.
const STREAMS_MAX: usize = 256;

/// Number of streams at a time that have a thread of their own.
const THREADS_MAX: usize = 32;

/// Maximum number of streams at a time. They may stop reading their bodies for long: while the store is slow,
/// or while their clients do not read.
pub(crate) fn streams_max(bodies_bytes_max: usize) -> usize {
    (bodies_bytes_max / STREAMS_PART / STREAM_BYTES).clamp(1, STREAMS_MAX)
}

/// The client of a request: its credential, or its network where there are no credentials.
pub(crate) fn writer_of(caller: &RequestCaller, peer: Option<&ConnectionPeer>) -> WriterId {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let network = peer.filter(|_| caller.is_anonymous()).map(|peer| client_network(&peer.address));
    WriterId(HASHER.hash_one((&caller.name, network)))
}

/// Streams, their threads, and the memory in bytes that they may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StreamUse {
    streams: usize,
    threads: usize,
    bytes: usize,
}

impl StreamUse {
    /// A stream of `/feed/v1`, which has a thread of its own, and may take `bytes` bytes.
    pub(crate) const fn of_feed(bytes: usize) -> Self {
        StreamUse { streams: 1, threads: 1, bytes }
    }

    /// A stream of `_bulk/stream`, which may take `bytes` bytes.
    pub(crate) const fn of_bulks(bytes: usize) -> Self {
        StreamUse { streams: 1, threads: 0, bytes }
    }

    fn and(self, other: Self) -> Self {
        StreamUse {
            streams: self.streams + other.streams,
            threads: self.threads + other.threads,
            bytes: self.bytes + other.bytes,
        }
    }

    fn without(self, other: Self) -> Self {
        StreamUse {
            streams: self.streams.saturating_sub(other.streams),
            threads: self.threads.saturating_sub(other.threads),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// True if there is as much as this of everything of which it wants some.
    fn fits(self, free: Self) -> bool {
        self.streams <= free.streams && self.threads <= free.threads && self.bytes <= free.bytes
    }
}

impl Sum for StreamUse {
    fn sum<I: Iterator<Item = Self>>(uses: I) -> Self {
        uses.fold(StreamUse::default(), StreamUse::and)
    }
}

/// Streams of each client, in this process.
static CLIENTS: Mutex<BTreeMap<WriterId, StreamUse>> = Mutex::new(BTreeMap::new());

/// Streams of other nodes. They have slots of their own: streams of clients wait for them, and they wait for
/// none.
static NODES: Mutex<BTreeMap<WriterId, StreamUse>> = Mutex::new(BTreeMap::new());

/// Slot of a stream among those that may be in flight.
pub(crate) struct StreamSlot {
    taken: &'static Mutex<BTreeMap<WriterId, StreamUse>>,
    writer: WriterId,
    own: StreamUse,
}

impl StreamSlot {
    /// Takes a slot for a stream of a client, or of another node.
    ///
    /// # Errors
    /// [`Error::TooManyStreams`]: all are taken, or a client has as many, or as much memory, as it would
    /// leave to others.
    pub(crate) fn take(
        stage: &ForwardKind,
        writer: WriterId,
        wanted: StreamUse,
        bodies_bytes_max: usize,
    ) -> Result<Self, Error> {
        let is_client = matches!(stage, ForwardKind::Client);
        let (streams, part) = if is_client { (&CLIENTS, STREAMS_PART) } else { (&NODES, NODE_STREAMS_PART) };
        let bytes = bodies_bytes_max / part;
        let limit = StreamUse { streams: STREAMS_MAX, threads: THREADS_MAX, bytes };
        let mut taken = streams.lock();
        let own = taken.get(&writer).copied().unwrap_or_default();
        if !admits(own, taken.values().copied().sum(), wanted, limit, is_client) {
            let number = if wanted.threads > 0 { THREADS_MAX } else { STREAMS_MAX };
            return Err(Error::TooManyStreams { max: number, bytes });
        }
        taken.insert(writer, own.and(wanted));
        Ok(StreamSlot { taken: streams, writer, own: wanted })
    }
}

/// True if a client that has `own` gets what it wants beside all that is `taken`. It gets at most as much as
/// it leaves free, so that there is a slot for a client that comes later; nodes relay for many clients, and
/// share all of them. A stream that is alone is admitted however little memory there is.
fn admits(own: StreamUse, taken: StreamUse, wanted: StreamUse, limit: StreamUse, is_client: bool) -> bool {
    let free = limit.without(taken);
    let mut needed = if is_client { own.and(wanted) } else { wanted };
    if wanted.threads == 0 {
        // Its other streams need not leave threads to it.
        needed.threads = 0;
    }
    taken.streams == 0 || needed.fits(free)
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        if let Some(left) = taken.get_mut(&self.writer) {
            *left = left.without(self.own);
            if left.streams == 0 {
                taken.remove(&self.writer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::HttpError;

    const MB: usize = 1 << 20;

    /// Streams of clients that try to take a slot one after another, each for so many bytes, until none gets
    /// one.
    fn shares(limit: StreamUse, clients: &[usize]) -> Vec<usize> {
        let mut own = vec![StreamUse::default(); clients.len()];
        let mut was_admitted = true;
        while was_admitted {
            was_admitted = false;
            for (client, bytes) in clients.iter().enumerate() {
                let wanted = StreamUse::of_bulks(*bytes);
                if admits(own[client], own.iter().copied().sum(), wanted, limit, true) {
                    own[client] = own[client].and(wanted);
                    was_admitted = true;
                }
            }
        }
        own.into_iter().map(|own| own.streams).collect()
    }

    #[test]
    fn a_client_leaves_slots_to_others() {
        let limit = |streams| StreamUse { streams, threads: 4, bytes: 1000 * MB };
        assert_eq!(shares(limit(256), &[0]), [128]);
        assert_eq!(shares(limit(32), &[0]), [16]);
        assert_eq!(shares(limit(32), &[0; 2]), [11, 11]);
        assert_eq!(shares(limit(32), &[0; 7]), [4; 7]);
        assert_eq!(shares(limit(1), &[0]), [1]);
        // One that had all that it gets, and another that comes then.
        let admits = |own: usize, taken: usize, is_client: bool| {
            let of = |streams: usize| StreamUse { streams, threads: 0, bytes: 0 };
            super::admits(of(own), of(taken), of(1), limit(32), is_client)
        };
        assert!(!admits(16, 16, true) && admits(0, 16, true) && admits(7, 23, true) && !admits(8, 24, true));
        assert!(admits(31, 31, false) && !admits(0, 32, false));
    }

    #[test]
    fn streams_with_threads_leave_slots_to_those_without() {
        let limit = StreamUse { streams: 8, threads: 4, bytes: MB };
        let [feed, bulks] = [StreamUse::of_feed(0), StreamUse::of_bulks(0)];
        let admits = |own, taken, wanted| super::admits(own, taken, wanted, limit, true);
        let feeds = feed.and(feed);
        assert!(admits(feed, feed, feed) && !admits(feeds, feeds, feed), "it leaves two threads free");
        assert!(admits(feeds, feeds, bulks), "it needs no thread");
        let all = feeds.and(feeds);
        assert!(!admits(StreamUse::default(), all, feed) && admits(StreamUse::default(), all, bulks));
    }

    #[test]
    fn a_client_leaves_memory_to_others() {
        let limit = StreamUse { streams: 32, threads: 32, bytes: 48 * MB };
        assert_eq!(shares(limit, &[3 * MB]), [8]);
        // Those that are packed by zstd take more, and leave room for some that are not.
        assert_eq!(shares(limit, &[19 * MB]), [1]);
        assert_eq!(shares(limit, &[19 * MB, 19 * MB, 3 * MB]), [1, 1, 2]);
        // One alone is admitted in any case.
        let little = StreamUse { streams: 32, threads: 32, bytes: MB };
        assert_eq!(shares(little, &[19 * MB, 3 * MB]), [1, 0]);
        assert_eq!([1, 96, 6000].map(|megabytes| streams_max(megabytes * MB)), [1, 16, STREAMS_MAX]);
    }

    #[test]
    fn a_slot_is_given_back_with_its_memory() {
        let [one, other] = [WriterId(u64::MAX), WriterId(u64::MAX - 1)];
        let take = |writer, bytes| {
            StreamSlot::take(&ForwardKind::Share, writer, StreamUse::of_feed(bytes), 4 * 10 * MB)
        };
        let first = take(one, 6 * MB).expect("all is free");
        let refused = take(other, 6 * MB).err().expect("4 MB are free");
        assert_eq!(refused.status(), hyper::StatusCode::TOO_MANY_REQUESTS);
        assert!(refused.retry_after().is_some() && refused.to_string().contains("32 at a time"), "{refused}");
        let second = take(other, 4 * MB).expect("4 MB are free");
        drop(first);
        let third = take(one, 6 * MB).expect("it was given back");
        drop((second, third));
        assert!(NODES.lock().is_empty());
    }

    #[test]
    fn clients_are_distinguished_by_credential_else_by_network() {
        let peer = |address: &str| ConnectionPeer {
            address: address.parse().expect("an address"),
            local_port: 8080,
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
