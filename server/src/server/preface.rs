//! Whether a peer has begun to speak.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What an HTTP/2 connection begins with. What begins otherwise is HTTP/1, if anything.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Tells whether it is settled which protocol a connection speaks. Deadlines of HTTP
/// itself begin only then.
#[derive(Clone, Debug, Default)]
pub(super) struct Spoken(Arc<AtomicBool>);

impl Spoken {
    pub(super) fn yet(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection that notes when its peer has spoken.
pub(super) struct Listened<T> {
    io: T,
    /// Bytes of the preface that have come; `None` once it is settled.
    heard: Option<usize>,
    spoken: Spoken,
}

impl<T> Listened<T> {
    pub(super) fn new(io: T) -> (Self, Spoken) {
        let spoken = Spoken::default();
        let listened = Self {
            io,
            heard: Some(0),
            spoken: spoken.clone(),
        };
        (listened, spoken)
    }

    fn hear(&mut self, bytes: &[u8]) {
        let Some(heard) = self.heard else { return };
        let expected = &PREFACE[heard..];
        let length = bytes.len().min(expected.len());
        if bytes[..length] == expected[..length] && heard + length < PREFACE.len() {
            self.heard = Some(heard + length);
        } else {
            self.heard = None;
            self.spoken.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Listened<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(context, buffer))?;
        self.hear(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Listened<T> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn settled_by(parts: &[&[u8]]) -> bool {
        let (mut listened, spoken) = Listened::new(());
        parts.iter().for_each(|part| listened.hear(part));
        spoken.yet()
    }

    #[test]
    fn it_is_settled_by_a_whole_preface_or_by_what_is_none() {
        assert!(!settled_by(&[]));
        assert!(!settled_by(&[b"", b"PRI * HT"]));
        assert!(!settled_by(&[b"PRI * HT", b"TP/2.0\r\n\r\nSM\r\n\r"]));
        assert!(settled_by(&[b"PRI * HT", b"TP/2.0\r\n\r\nSM\r\n\r\n"]));
        assert!(settled_by(&[PREFACE, b"more"]));
        assert!(settled_by(&[b"P", b"OST / HTTP/1.1"]));
        assert!(settled_by(&[b"G"]));
    }
}
