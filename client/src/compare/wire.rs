//! Connections that count what goes over them: below HTTP, for every side the same.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Bytes that came over all connections of a kind.
#[derive(Debug, Default)]
pub(super) struct Wire(AtomicU64);

impl Wire {
    /// So far.
    pub(super) fn received(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection that counts.
#[derive(Debug)]
pub(super) struct Counted<T> {
    io: T,
    wire: Arc<Wire>,
}

/// Connects to `HOST:PORT`.
pub(super) async fn dial(address: &str, wire: &Arc<Wire>) -> io::Result<Counted<TcpStream>> {
    let io = TcpStream::connect(address).await?;
    io.set_nodelay(true)?;
    let wire = wire.clone();
    Ok(Counted { io, wire })
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, buffer))?;
        let read = (buffer.filled().len() - before) as u64;
        self.wire.0.fetch_add(read, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
