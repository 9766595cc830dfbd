//! Frames of gRPC-web, as they come out of a body.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::Message;

/// The prefix of a frame: flags, and four bytes of length.
const PREFIX_BYTES: usize = 5;
/// The flag of trailers.
const TRAILERS: u8 = 0x80;
/// The largest frame that is taken.
const MAX_FRAME_BYTES: usize = 256 << 20;

/// What a frame holds.
#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    Message(Bytes),
    /// Code and message of the end.
    End(i32, String),
}

/// The next whole frame of what has been read, if there is one.
pub(super) fn take(read: &mut BytesMut) -> Result<Option<Frame>, String> {
    let Some(prefix) = read.first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    let [flags, length @ ..] = *prefix;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_FRAME_BYTES {
        return Err(format!("a frame of {length} bytes"));
    }
    if read.len() < PREFIX_BYTES + length {
        return Ok(None);
    }
    read.advance(PREFIX_BYTES);
    let content = read.split_to(length).freeze();
    match flags {
        0 => Ok(Some(Frame::Message(content))),
        TRAILERS => Ok(Some(end(&content))),
        flags => Err(format!("a frame with flags {flags:#x}")),
    }
}

fn end(trailers: &[u8]) -> Frame {
    let text = String::from_utf8_lossy(trailers);
    let value = |wanted: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
        let found = pairs.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.trim().to_owned())
    };
    let code = value("grpc-status").and_then(|code| code.parse().ok());
    Frame::End(code.unwrap_or(2), value("grpc-message").unwrap_or_default())
}

/// A message with its prefix.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.put_u8(0);
    frame.put_u32(length as u32);
    // A BytesMut grows: there is always room.
    let _ = message.encode(&mut frame);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_when_they_are_whole() {
        let mut read = BytesMut::from(&b"\0\0\0\0\x02ab\x80\0\0\0\x1f"[..]);
        assert_eq!(take(&mut read), Ok(Some(Frame::Message("ab".into()))));
        assert_eq!(take(&mut read), Ok(None));
        read.extend_from_slice(b"grpc-status:5\r\ngrpc-message:no\r\n");
        assert_eq!(take(&mut read), Ok(Some(Frame::End(5, "no".into()))));
        assert_eq!(take(&mut read), Ok(None));
        assert!(take(&mut BytesMut::from(&b"\x01\0\0\0\0"[..])).is_err());
        assert!(take(&mut BytesMut::from(&b"\0\xff\xff\xff\xff"[..])).is_err());
        let empty = framed(&listwatch::v1::WatchRequest::default());
        assert_eq!(&empty[..], &[0; 5]);
    }
}
