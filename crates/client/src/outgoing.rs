use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;

/// Body of a request that is written while it is sent. It ends when its sender is dropped.
#[derive(Debug)]
pub struct StreamedBody(mpsc::Receiver<Bytes>);

impl StreamedBody {
    /// Creates a body with its sender, which holds up to `parts` parts that have not been sent.
    pub fn new(parts: usize) -> (mpsc::Sender<Bytes>, Self) {
        let (sender, receiver) = mpsc::channel(parts);
        (sender, StreamedBody(receiver))
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}
