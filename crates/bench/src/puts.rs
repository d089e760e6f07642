//! Puts through `/document/v1/`, and batches of them through `/feed/v1`: prepared bodies, ids that never
//! repeat.

use std::sync::Arc;

use hyper::Method;
use hyper::body::Bytes;
use millrace_client::OutgoingRequest;

use crate::Error;
use crate::application::{self, DocumentMaker};
use crate::clients::Requests;

/// Number of different bodies; more would not change the result.
const BODIES: usize = 1024;
/// Number of groups; documents with successive numbers go to different groups.
pub(crate) const GROUPS: u64 = 1000;

/// Kind of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutBody {
    /// A short text, a date and 384 floats.
    Vector,
    /// About 300 bytes of JSON.
    Small,
    /// About 500 bytes of JSON.
    Line,
}

impl PutBody {
    fn make(self, maker: &mut DocumentMaker) -> Vec<u8> {
        match self {
            PutBody::Vector => maker.embedded_json(),
            PutBody::Small => maker.mail_json(250),
            PutBody::Line => maker.mail_json(450),
        }
    }
}

/// Bodies of puts.
pub(crate) fn bodies(body: PutBody) -> Result<Vec<Vec<u8>>, Error> {
    let mut maker = DocumentMaker::new()?;
    Ok((0..BODIES).map(|_| body.make(&mut maker)).collect())
}

/// Puts of different documents, one for each number, and the average bytes of their bodies.
pub(crate) fn puts(body: PutBody) -> Result<(Requests, usize), Error> {
    let bodies: Vec<Bytes> = bodies(body)?.into_iter().map(Bytes::from).collect();
    let average = bodies.iter().map(Bytes::len).sum::<usize>() / bodies.len();
    let request = move |number: u64| {
        let body = bodies[number as usize % bodies.len()].clone();
        OutgoingRequest::new(Method::POST, application::path(number % GROUPS, number))
            .body("application/json", body)
    };
    Ok((Arc::new(request), average))
}

/// Groups of the documents of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchGroups {
    /// Each document is in another group.
    Many,
    /// All documents of a batch are in one group, those of the next batch in another.
    One,
}

/// Number of documents in a batch.
pub(crate) const BATCH: u64 = 1000;

/// Lines of puts, made from prepared bodies.
#[derive(Clone)]
pub(crate) struct PutLines {
    /// Bodies without their opening brace.
    bodies: Arc<Vec<Vec<u8>>>,
    groups: BatchGroups,
}

impl PutLines {
    pub(crate) fn new(body: PutBody, groups: BatchGroups) -> Result<Self, Error> {
        let mut maker = DocumentMaker::new()?;
        let bodies = (0..BODIES).map(|_| body.make(&mut maker).split_off(1)).collect();
        Ok(PutLines { bodies: Arc::new(bodies), groups })
    }

    /// Appends the put of the document with this number.
    pub(crate) fn write(&self, number: u64, lines: &mut Vec<u8>) {
        let group = match self.groups {
            BatchGroups::Many => number % GROUPS,
            BatchGroups::One => number / BATCH % GROUPS,
        };
        let id = format!("id:bench:{}:g={}:{number}", application::TYPE, application::group_name(group));
        lines.extend_from_slice(format!("{{\"put\":\"{id}\",").as_bytes());
        lines.extend_from_slice(&self.bodies[number as usize % self.bodies.len()]);
        lines.push(b'\n');
    }

    /// The batch with this number, as JSON lines.
    pub(crate) fn batch(&self, batch: u64) -> Vec<u8> {
        let mut lines = Vec::new();
        (batch * BATCH..(batch + 1) * BATCH).for_each(|number| self.write(number, &mut lines));
        lines
    }
}

/// Streams of one batch each, one for each number, and the bytes of the first.
pub(crate) fn batches(body: PutBody, groups: BatchGroups) -> Result<(Requests, usize), Error> {
    let lines = PutLines::new(body, groups)?;
    let bytes = lines.batch(0).len();
    let request = move |number: u64| {
        OutgoingRequest::new(Method::POST, "/feed/v1").body("application/jsonl", lines.batch(number))
    };
    Ok((Arc::new(request), bytes))
}
