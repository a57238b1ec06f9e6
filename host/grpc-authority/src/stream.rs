//! A connection whose reading half replaces the authority.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::server::Connected;

use crate::frames::AuthorityRewriter;

/// Bytes that one read of the connection takes at most.
const READ_BYTES: usize = 16 << 10;

/// The connections of this listener, each with its authority replaced, for a tonic server's
/// `serve_with_incoming`.
///
/// Ends never; an error is of one connection. Cancel-safe.
pub fn accept(listener: UnixListener) -> impl Stream<Item = io::Result<AuthorityStream<UnixStream>>> + Unpin {
    UnixListenerStream::new(listener).map(|accepted| accepted.map(AuthorityStream::new))
}

/// A connection of a client whose authority is replaced.
#[derive(Debug)]
pub struct AuthorityStream<S> {
    inner: S,
    rewriter: AuthorityRewriter,
    /// Rewritten bytes, of which the first `read` have been read.
    rewritten: Vec<u8>,
    read: usize,
    /// Where a read of the connection puts its bytes.
    arrived: Vec<u8>,
}

impl<S> AuthorityStream<S> {
    /// Wraps a connection of which nothing has been read.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            rewriter: AuthorityRewriter::default(),
            rewritten: Vec::new(),
            read: 0,
            arrived: vec![0; READ_BYTES],
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AuthorityStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        output: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            let unread = this.rewritten.get(this.read..).unwrap_or_default();
            if !unread.is_empty() {
                let taken = unread.get(..unread.len().min(output.remaining())).unwrap_or_default();
                output.put_slice(taken);
                this.read = this.read.saturating_add(taken.len());
                return Poll::Ready(Ok(()));
            }
            this.rewritten.clear();
            this.read = 0;
            let mut arrived = ReadBuf::new(&mut this.arrived);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut arrived))?;
            if arrived.filled().is_empty() {
                // The end. What is left of an incomplete block is no request.
                return Poll::Ready(Ok(()));
            }
            this.rewriter.push(arrived.filled(), &mut this.rewritten);
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AuthorityStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl<S: Connected> Connected for AuthorityStream<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.inner.connect_info()
    }
}
