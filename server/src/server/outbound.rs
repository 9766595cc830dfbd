//! What a connection has to say, gathered.
//!
//! HTTP/2 writes a DATA frame above a few hundred bytes by itself: an event for a hundred
//! watches of a connection would be a hundred system calls. So what is written while the connection is
//! polled once is kept, and goes out together when the poll is over ([`Outbound::turns`]), or as
//! soon as it is much.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::{GATHERED_BYTES, KEPT_GATHERED_BYTES};

/// A connection as the protocol sees it.
pub(super) struct Gathering<T>(Arc<Mutex<Gathered<T>>>);

/// The same, as whoever polls the connection sees it.
pub(super) struct Outbound<T>(Arc<Mutex<Gathered<T>>>);

struct Gathered<T> {
    io: T,
    bytes: Vec<u8>,
    /// How many of them are gone.
    gone: usize,
    /// Why no more can go; the protocol hears of it when it next writes.
    broken: Option<io::Error>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Outbound<T> {
    pub(super) fn of(io: T) -> (Gathering<T>, Self) {
        let gathered = Arc::new(Mutex::new(Gathered {
            io,
            bytes: Vec::new(),
            gone: 0,
            broken: None,
        }));
        (Gathering(gathered.clone()), Self(gathered))
    }

    /// The connection's future; after each of its polls, what it wrote goes out. Cancel safe.
    pub(super) fn turns<'a, F>(&'a self, connection: Pin<&'a mut F>) -> Turns<'a, F, T> {
        let out = self;
        Turns { connection, out }
    }
}

/// See [`Outbound::turns`].
pub(super) struct Turns<'a, F, T> {
    connection: Pin<&'a mut F>,
    out: &'a Outbound<T>,
}

impl<F: Future, T: AsyncWrite + Unpin> Future for Turns<'_, F, T> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let polled = self.connection.as_mut().poll(context);
        // Woken when there is room for more; an error is kept for the protocol.
        let _ = self.out.0.lock().poll_gone(context);
        polled
    }
}

impl<T: AsyncWrite + Unpin> Gathered<T> {
    fn has_room(&self) -> bool {
        self.bytes.len() < GATHERED_BYTES
    }

    /// Ready when everything has gone.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.gone < self.bytes.len() {
            self.check()?;
            let rest = &self.bytes[self.gone..];
            match ready!(Pin::new(&mut self.io).poll_write(context, rest)) {
                Ok(0) => self.broken = Some(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.gone += written,
                Err(error) => self.broken = Some(error),
            }
        }
        self.gone = 0;
        self.bytes.clear();
        // Most connections are silent most of the time.
        if self.bytes.capacity() > KEPT_GATHERED_BYTES {
            self.bytes = Vec::new();
        }
        self.check()?;
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn check(&self) -> io::Result<()> {
        match &self.broken {
            Some(error) => Err(error.kind().into()),
            None => Ok(()),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Gathering<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().io).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Gathering<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut gathered = self.0.lock();
        if !gathered.has_room() {
            ready!(gathered.poll_gone(context))?;
        }
        gathered.check()?;
        let taken = bytes.len().min(GATHERED_BYTES - gathered.bytes.len());
        gathered.bytes.extend_from_slice(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    /// At the end of the poll.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.lock().check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathered = self.0.lock();
        ready!(gathered.poll_gone(context))?;
        Pin::new(&mut gathered.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// Writes that were made one by one.
    struct Counting {
        io: tokio::io::DuplexStream,
        writes: Arc<Mutex<Vec<usize>>>,
    }

    impl AsyncRead for Counting {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.io).poll_read(context, buffer)
        }
    }

    impl AsyncWrite for Counting {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let written = ready!(Pin::new(&mut self.io).poll_write(context, bytes))?;
            self.writes.lock().push(written);
            Poll::Ready(Ok(written))
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.io).poll_flush(context)
        }

        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.io).poll_shutdown(context)
        }
    }

    fn counting(
        room: usize,
    ) -> (
        Gathering<Counting>,
        Outbound<Counting>,
        tokio::io::DuplexStream,
        Arc<Mutex<Vec<usize>>>,
    ) {
        let (io, peer) = duplex(room);
        let writes = Arc::new(Mutex::new(Vec::new()));
        let (near, out) = Outbound::of(Counting {
            io,
            writes: writes.clone(),
        });
        (near, out, peer, writes)
    }

    #[tokio::test]
    async fn what_is_written_in_one_poll_goes_out_in_one_write() {
        let (mut near, out, mut peer, writes) = counting(1 << 20);
        let connection = async {
            for _ in 0..100 {
                near.write_all(&[7; 200]).await.unwrap();
                near.flush().await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let connection = std::pin::pin!(connection);
        let mut bytes = vec![0; 20_000];
        tokio::select! {
            () = out.turns(connection) => {}
            read = peer.read_exact(&mut bytes) => assert_eq!(read.unwrap(), 20_000),
        }
        assert_eq!(bytes, vec![7; 20_000]);
        assert_eq!(*writes.lock(), [20_000]);
    }

    #[tokio::test]
    async fn a_peer_that_reads_slowly_gets_everything_and_little_is_kept_for_it() {
        const ALL: usize = 3_000_000;
        let (mut near, out, mut peer, _) = counting(1000);
        let connection = async {
            let mut sent = 0;
            while sent < ALL {
                let part: Vec<u8> = (sent..ALL.min(sent + 7001)).map(|n| n as u8).collect();
                near.write_all(&part).await.unwrap();
                sent += part.len();
                assert!(out.0.lock().bytes.len() <= GATHERED_BYTES);
            }
            near.shutdown().await.unwrap();
        };
        let connection = std::pin::pin!(connection);
        let mut read = Vec::new();
        let ((), count) = tokio::join!(out.turns(connection), peer.read_to_end(&mut read));
        assert_eq!(count.unwrap(), ALL);
        assert!(read.iter().enumerate().all(|(n, byte)| *byte == n as u8));
        assert!(out.0.lock().bytes.capacity() <= KEPT_GATHERED_BYTES);
    }

    #[tokio::test]
    async fn the_protocol_hears_that_its_peer_is_gone() {
        let (mut near, out, peer, _) = counting(1000);
        drop(peer);
        let connection = async {
            near.write_all(b"into the void").await.unwrap();
            tokio::task::yield_now().await;
            near.write_all(b"again").await.unwrap_err()
        };
        let error = out.turns(std::pin::pin!(connection)).await;
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
