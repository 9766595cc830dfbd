//! Ready-made frames as the body of a gRPC response.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::Frame;
use tonic::Status;

use super::{connection::LongStream, watch_frames::WatchFrames, watch_many::ManyFrames};

/// What gives frames.
pub(super) enum Frames {
    /// A Watch.
    Watch(WatchFrames),
    /// A WatchMany.
    Many(Box<ManyFrames>),
}

/// The body of a streaming response: frames, and trailers at the end.
pub(super) struct FrameBody {
    frames: Frames,
    stream: LongStream,
    ended: bool,
}

impl FrameBody {
    pub(super) fn new(frames: Frames, stream: LongStream) -> Self {
        Self {
            frames,
            stream,
            ended: false,
        }
    }
}

impl http_body::Body for FrameBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.stream.register(context.waker());
        let next = match &mut self.frames {
            Frames::Watch(frames) => frames.poll_frame(context),
            Frames::Many(frames) => frames.poll_frame(context),
        };
        Poll::Ready(Some(Ok(match ready!(next) {
            Ok(bytes) => Frame::data(bytes),
            Err(status) => {
                self.ended = true;
                let mut trailers = http::HeaderMap::new();
                status.add_header(&mut trailers)?;
                Frame::trailers(trailers)
            }
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}
