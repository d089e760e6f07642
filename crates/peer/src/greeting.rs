//! First bytes of a connection: a word of 8 bytes for its kind, and from protocol 2 on the run of the process
//! that it is for, in 8 bytes.

use std::io;

use millrace_cluster::Incarnation;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::Error;

/// Address of a node, and the run of its process that is to answer there.
///
/// Addresses are given again: after a restart, or to a node of another cluster. A process refuses connections
/// that are for another run, before it reads any request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerAddress {
    /// `host:port` of its port for nodes.
    pub address: String,
    /// The run; `None` where protocol 1 is spoken, whose nodes do not read it: any process that listens at
    /// the address answers.
    pub incarnation: Option<Incarnation>,
}

impl PeerAddress {
    /// Any process that listens at `address`.
    pub fn of_any_run(address: &str) -> Self {
        PeerAddress { address: address.to_owned(), incarnation: None }
    }
}

/// Kind of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerChannel {
    Requests,
    Bulk,
}

/// First bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionGreeting {
    pub(crate) channel: PeerChannel,
    pub(crate) receiver: Option<Incarnation>,
}

impl ConnectionGreeting {
    pub(crate) fn to(channel: PeerChannel, peer: &PeerAddress) -> Self {
        ConnectionGreeting { channel, receiver: peer.incarnation }
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        let word = match (self.channel, self.receiver.is_some()) {
            (PeerChannel::Requests, false) => b"MILLREQ\x01",
            (PeerChannel::Requests, true) => b"MILLREQ\x02",
            (PeerChannel::Bulk, false) => b"MILLBLK\x02",
            (PeerChannel::Bulk, true) => b"MILLBLK\x03",
        };
        let mut bytes = word.to_vec();
        bytes.extend(self.receiver.iter().flat_map(|run| run.number().to_le_bytes()));
        bytes
    }

    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut word = [0; 8];
        stream.read_exact(&mut word).await?;
        let (channel, names_receiver) = match &word {
            b"MILLREQ\x01" => (PeerChannel::Requests, false),
            b"MILLREQ\x02" => (PeerChannel::Requests, true),
            b"MILLBLK\x02" => (PeerChannel::Bulk, false),
            b"MILLBLK\x03" => (PeerChannel::Bulk, true),
            _ => return Err(io::Error::other("it does not begin as one of this protocol")),
        };
        let receiver =
            if names_receiver { Some(Incarnation::new(stream.read_u64_le().await?)) } else { None };
        Ok(ConnectionGreeting { channel, receiver })
    }

    /// Checks that the connection is for the run `own`.
    ///
    /// # Errors
    /// [`Error::OtherRun`] if it is for another one.
    pub(crate) fn is_for(self, own: Incarnation) -> Result<(), Error> {
        match self.receiver {
            Some(receiver) if receiver != own => Err(Error::OtherRun { receiver, own }),
            _ => Ok(()),
        }
    }
}
