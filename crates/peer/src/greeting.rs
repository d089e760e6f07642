//! First bytes of a connection: a word of 8 bytes, whose last one is the number of the protocol, then the
//! length of a [`ConnectionGreeting`] in 4 bytes, and the greeting. In protocol 1 a word alone.

use std::io::{self, Read};

use millrace_cluster::{Incarnation, PROTOCOL};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::protocol::ConnectionProtocol;
use crate::{Error, codec, protocol_1};

/// First word of a connection, from protocol 2 on.
const WORD: &[u8; 8] = b"MILLNOD\x02";

/// Maximum length of a greeting, in bytes.
const GREETING_BYTES_MAX: u32 = 1 << 10;

/// Address of a node, the run of its process that is to answer there, and the protocol that it speaks.
///
/// Addresses are given again: after a restart, or to a node of another cluster. A process refuses connections
/// that are for another run, before it reads any request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerAddress {
    /// `host:port` of its port for nodes.
    pub address: String,
    /// The run; `None`: any process that listens at the address. Nodes do not read it in protocol 1: any
    /// process answers.
    pub incarnation: Option<Incarnation>,
    /// Protocol in use, see [`PROTOCOL`].
    pub protocol: u16,
}

impl PeerAddress {
    /// Any process of this version that listens at `address`.
    pub fn of_any_run(address: &str) -> Self {
        PeerAddress { address: address.to_owned(), incarnation: None, protocol: PROTOCOL }
    }

    pub(crate) fn connection_protocol(&self) -> ConnectionProtocol {
        ConnectionProtocol::of(self.protocol)
    }

    /// First bytes of a connection to it.
    pub(crate) fn greeting(&self, channel: PeerChannel) -> Vec<u8> {
        match self.connection_protocol() {
            ConnectionProtocol::First => protocol_1::write_greeting(channel).to_vec(),
            ConnectionProtocol::Second => {
                let greeting = codec::encode(&ConnectionGreeting { channel, receiver: self.incarnation }, 16);
                // Some bytes.
                let length = (greeting.len() as u32).to_le_bytes();
                [&WORD[..], &length, &greeting].concat()
            }
        }
    }
}

/// Kind of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PeerChannel {
    Requests,
    Bulk,
}

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConnectionGreeting {
    pub(crate) channel: PeerChannel,
    /// Run that it is for; `None`: any.
    pub(crate) receiver: Option<Incarnation>,
}

impl ConnectionGreeting {
    /// Reads the first bytes of a connection.
    ///
    /// # Errors
    /// It broke, or is not from a node of a known version.
    pub(crate) async fn read(
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<(ConnectionProtocol, ConnectionGreeting)> {
        let mut word = [0; 8];
        stream.read_exact(&mut word).await?;
        if let Some(greeting) = protocol_1_greeting(&word)? {
            return Ok(greeting);
        }
        let mut greeting = vec![0; length_of(stream.read_u32_le().await?)?];
        stream.read_exact(&mut greeting).await?;
        Ok((ConnectionProtocol::Second, codec::decode(&greeting).map_err(io::Error::other)?))
    }

    /// Does the same on a thread that may block.
    pub(crate) fn read_blocking(
        stream: &mut impl Read,
    ) -> io::Result<(ConnectionProtocol, ConnectionGreeting)> {
        let (mut word, mut length) = ([0; 8], [0; 4]);
        stream.read_exact(&mut word)?;
        if let Some(greeting) = protocol_1_greeting(&word)? {
            return Ok(greeting);
        }
        stream.read_exact(&mut length)?;
        let mut greeting = vec![0; length_of(u32::from_le_bytes(length))?];
        stream.read_exact(&mut greeting)?;
        Ok((ConnectionProtocol::Second, codec::decode(&greeting).map_err(io::Error::other)?))
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

/// Greeting of protocol 1, which is a word alone; `None` if more follows.
fn protocol_1_greeting(word: &[u8; 8]) -> io::Result<Option<(ConnectionProtocol, ConnectionGreeting)>> {
    if word == WORD {
        return Ok(None);
    }
    let Some(channel) = protocol_1::read_greeting(word) else {
        let error = match word.starts_with(&WORD[..7]) {
            true => Error::Unknown("a connection is of a protocol that is not known here"),
            false => Error::Message("a connection does not begin as one of a node"),
        };
        return Err(io::Error::other(error));
    };
    Ok(Some((ConnectionProtocol::First, ConnectionGreeting { channel, receiver: None })))
}

fn length_of(length: u32) -> io::Result<usize> {
    match length <= GREETING_BYTES_MAX {
        true => Ok(length as usize),
        false => Err(io::Error::other(Error::Message("a greeting is longer than any"))),
    }
}

/// Parses bytes as the beginning of a connection.
pub(crate) fn fuzz(mut bytes: &[u8]) {
    // The result does not matter: parsing must end.
    let _ = ConnectionGreeting::read_blocking(&mut bytes);
}
