//! Calls of the cluster that panic, writes that owners do not begin yet, and answers of nodes that are lost.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use millrace_node::cluster::BatchedWrite;

use super::{TestCluster, TestNodes, wait_until};

/// A call of the cluster that panics.
pub struct InjectedPanic {
    /// Name of the function.
    pub call: &'static str,
    /// Number of calls that return before.
    pub after: usize,
}

/// Writes that an owner has received together.
pub(super) struct HeldBatch {
    pub(super) owner: u16,
    pub(super) writes: Vec<BatchedWrite>,
    pub(super) deadline: Instant,
}

impl TestCluster {
    /// Panics if this call is to. Calls of a node's work in the background, which come at any time, do not
    /// count.
    pub(super) fn enter(&self, call: &str) {
        const IN_BACKGROUND: [&str; 4] = ["garbage", "reindex", "models", "indexes"];
        if std::thread::current().name().is_some_and(|name| IN_BACKGROUND.contains(&name)) {
            return;
        }
        let mut panics = self.panics.lock();
        let Some(injected) = panics.as_mut().filter(|injected| injected.call == call) else { return };
        match injected.after.checked_sub(1) {
            Some(after) => injected.after = after,
            None => {
                *panics = None;
                drop(panics);
                panic!("injected: {call} panics");
            }
        }
    }
}

impl TestNodes {
    /// Answers a request in the place of a node with these bytes, once the request has the mark, and ends;
    /// then the node is at its own address again. Without bytes the answer is lost.
    pub fn stand_in(&self, node: usize, mark: &'static [u8], answer: &'static [u8]) -> JoinHandle<()> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let own = std::mem::replace(&mut self.world.addresses.lock()[node], address);
        let world = Arc::clone(&self.world);
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a node connects");
            // An empty SETTINGS frame.
            stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).expect("it reads");
            let (mut read, mut came) = ([0; 4096], Vec::new());
            while !came.windows(mark.len()).any(|bytes| bytes == mark) {
                let length = stream.read(&mut read).expect("it sends");
                assert!(length > 0, "the request has no mark");
                came.extend_from_slice(&read[..length]);
            }
            world.addresses.lock()[node] = own;
            stream.write_all(answer).expect("it reads");
            stream.shutdown(Shutdown::Write).expect("it is open");
            // Until the other end has received it, otherwise the written data may be lost.
            while stream.read(&mut read).is_ok_and(|length| length > 0) {}
        })
    }

    /// Holds all batches of writes from now on.
    pub fn hold_writes(&self) {
        *self.world.held.lock() = Some(Vec::new());
    }

    /// Waits until so many batches are held.
    pub fn await_held(&self, count: usize) {
        let held = || self.world.held.lock().as_ref().map_or(0, Vec::len);
        wait_until("batches of writes come", || held() == count);
    }

    /// Begins one of the batches that are held.
    pub fn begin_held(&self, at: usize) {
        let batch = self.world.held.lock().as_mut().expect("writes are held").remove(at);
        self.members[usize::from(batch.owner)].begin(batch);
    }

    /// Begins all batches that are held, and holds no more.
    pub fn begin_all_held(&self) {
        let held = self.world.held.lock().take().expect("writes are held");
        for batch in held {
            self.members[usize::from(batch.owner)].begin(batch);
        }
    }
}
