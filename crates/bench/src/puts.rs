//! Puts through `/document/v1/`: prepared bodies, ids that never repeat.

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
}

impl PutBody {
    fn make(self, maker: &mut DocumentMaker) -> Vec<u8> {
        match self {
            PutBody::Vector => maker.embedded_json(),
            PutBody::Small => maker.mail_json(250),
        }
    }
}

/// Puts of different documents, one for each number, and the average bytes of their bodies.
pub(crate) fn puts(body: PutBody) -> Result<(Requests, usize), Error> {
    let mut maker = DocumentMaker::new()?;
    let bodies: Vec<Bytes> = (0..BODIES).map(|_| Bytes::from(body.make(&mut maker))).collect();
    let average = bodies.iter().map(Bytes::len).sum::<usize>() / bodies.len();
    let request = move |number: u64| {
        let body = bodies[number as usize % bodies.len()].clone();
        OutgoingRequest::new(Method::POST, application::path(number % GROUPS, number))
            .body("application/json", body)
    };
    Ok((Arc::new(request), average))
}
