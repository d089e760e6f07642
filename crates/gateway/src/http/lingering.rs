//! The close of a connection whose client may still be sending.
//!
//! A system that closes a socket with unread data, or gets data after it, resets the connection, and the
//! client loses the response that it has not read yet. So the server ends its own side first, and reads and
//! discards what the client sends until the client closes, is silent, or its time is over (RFC 9112, 9.6).

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::connections::ConnectionActivity;

/// Time limits of a close.
struct CloseLimits {
    /// Maximum time that the client may be silent.
    silence: Duration,
    /// Maximum time in total.
    total: Duration,
}

const LIMITS: CloseLimits = CloseLimits { silence: Duration::from_secs(2), total: Duration::from_secs(10) };

/// Maximum number of reads before other tasks of the thread have their turn.
const READS_MAX: usize = 16;

/// A stream that reads and discards what a client is still sending when it is closed.
pub(crate) struct LingeringConnection<S> {
    pub(crate) stream: S,
    pub(crate) activity: Arc<ConnectionActivity>,
    limits: CloseLimits,
    closing: Option<PendingClose>,
}

/// A close that has begun: its latest end, and the end of the client's silence or that end.
struct PendingClose {
    latest: Instant,
    end: Pin<Box<Sleep>>,
}

impl<S> LingeringConnection<S> {
    /// Wraps an open stream.
    pub(crate) fn new(stream: S, activity: Arc<ConnectionActivity>) -> Self {
        LingeringConnection { stream, activity, limits: LIMITS, closing: None }
    }
}

impl<S: AsyncRead + Unpin> LingeringConnection<S> {
    /// Ready when the client has closed its side or failed, or the time is over.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let CloseLimits { silence, total } = self.limits;
        let closing = self.closing.get_or_insert_with(|| PendingClose {
            latest: Instant::now() + total,
            end: Box::pin(tokio::time::sleep(silence.min(total))),
        });
        let mut discarded = [MaybeUninit::uninit(); 16 << 10];
        for _ in 0..READS_MAX {
            let mut buffer = ReadBuf::uninit(&mut discarded);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                // Only now is the client silent: what it has sent may have waited while the server was busy.
                Poll::Pending => return closing.end.as_mut().poll(context),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    let now = Instant::now();
                    if now >= closing.latest {
                        return Poll::Ready(());
                    }
                    closing.end.as_mut().reset((now + silence).min(closing.latest));
                }
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringConnection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.closing.is_none() {
            std::task::ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            if !self.activity.may_be_receiving_body() {
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_discard(context).map(Ok)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const NEVER: Duration = Duration::from_secs(3600);
    const SOON: Duration = Duration::from_millis(20);

    /// Closes a connection with these limits, of silence and in total; the test fails if that never ends.
    async fn close(has_body: bool, limits: (Duration, Duration), stream: DuplexStream) {
        let activity = Arc::new(ConnectionActivity::default());
        activity.expect_body(has_body);
        let limits = CloseLimits { silence: limits.0, total: limits.1 };
        let mut connection = LingeringConnection { limits, ..LingeringConnection::new(stream, activity) };
        tokio::time::timeout(NEVER / 36, connection.shutdown()).await.expect("it ends").expect("it is open");
    }

    #[tokio::test]
    async fn data_is_discarded_until_the_client_closes() {
        let (stream, mut client) = tokio::io::duplex(100);
        let sends = async move {
            assert_eq!(
                client.read(&mut [0; 10]).await.expect("it is open"),
                0,
                "the server's side has ended"
            );
            for _ in 0..100 {
                client.write_all(&[b'a'; 10_000]).await.expect("it is read");
            }
        };
        tokio::join!(close(true, (NEVER, NEVER), stream), sends);
    }

    #[tokio::test]
    async fn a_client_has_its_time() {
        let (stream, _silent) = tokio::io::duplex(100);
        close(true, (SOON, NEVER), stream).await;
        let (stream, mut client) = tokio::io::duplex(100);
        let sends = tokio::spawn(async move { while client.write_all(b"a").await.is_ok() {} });
        close(true, (NEVER, SOON), stream).await;
        sends.await.expect("it ends with the connection");
    }

    #[tokio::test]
    async fn a_client_is_not_silent_because_the_server_was_busy() {
        let (stream, mut client) = tokio::io::duplex(100);
        let limits = CloseLimits { silence: SOON, total: NEVER };
        let activity = Arc::new(ConnectionActivity::default());
        let mut connection = LingeringConnection { limits, ..LingeringConnection::new(stream, activity) };
        let mut context = Context::from_waker(Waker::noop());
        assert!(connection.poll_discard(&mut context).is_pending());
        client.write_all(b"a").await.expect("there is room");
        // The server comes to read after the time of a silence.
        tokio::time::sleep(2 * SOON).await;
        assert!(connection.poll_discard(&mut context).is_pending(), "the client has sent something");
        tokio::time::sleep(2 * SOON).await;
        assert!(connection.poll_discard(&mut context).is_ready(), "the client is silent");
    }

    #[tokio::test]
    async fn a_connection_without_a_body_closes_at_once() {
        let (stream, _silent) = tokio::io::duplex(100);
        close(false, (NEVER, NEVER), stream).await;
    }
}
