//! A watch over each of the transports.

use bytes::{Bytes, BytesMut};
use http::{Method, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use listwatch::v1::{
    self, BookmarkKind, list_watch_service_client::ListWatchServiceClient, watch_request,
};
use prost::Message as _;
use tonic::{Streaming, transport::Channel};

use super::{
    Objects, client,
    frame::{self, Frame},
    http::{Http, JSON, Refused, whole},
    line::{Kind, Line},
    objects,
    side::{Host, Side, Transport},
};
use crate::bench::latency::Nanos;

const WATCH: &str = "/listwatch.v1.ListWatchService/Watch";
const GRPC_WEB: &str = "application/grpc-web+proto";
/// The longest line that is read.
const MAX_LINE_BYTES: usize = 64 << 20;
const GONE: u16 = 410;

/// Where a watch begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    /// With everything there is.
    State,
    /// After a revision.
    After(i64),
}

/// A connection for watches.
pub(super) enum Link {
    Grpc(ListWatchServiceClient<Channel>),
    Http(Http),
}

/// An open watch.
pub(super) enum Stream {
    Grpc(Streaming<v1::WatchResponse>),
    Web(Incoming, BytesMut),
    Lines(Incoming, BytesMut),
}

/// What came at once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The moments of the objects' writes.
    pub(super) stamps: Vec<Nanos>,
    /// The newest revision of an event or a bookmark, so far.
    pub(super) revision: i64,
    /// What comes is not in the order of its writing, until `ends_state`.
    pub(super) begins_state: bool,
    pub(super) ends_state: bool,
    /// The history that it wants is gone.
    pub(super) expired: bool,
}

impl Batch {
    fn clear(&mut self) {
        self.stamps.clear();
        (self.begins_state, self.ends_state, self.expired) = (false, false, false);
    }

    fn response(&mut self, response: &v1::WatchResponse) {
        for resource in response
            .events
            .iter()
            .filter_map(|event| event.resource.as_ref())
        {
            self.stamps.push(objects::stamp(resource));
            self.revision = self.revision.max(resource.revision);
        }
        let Some(bookmark) = &response.bookmark else {
            return;
        };
        self.revision = self.revision.max(bookmark.revision);
        match bookmark.kind() {
            BookmarkKind::InitialStateBegin
            | BookmarkKind::NetBegin
            | BookmarkKind::ManifestBegin => self.begins_state = true,
            BookmarkKind::InitialStateEnd => self.ends_state = true,
            _ => {}
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        let line: Line<'_> = serde_json::from_slice(line)
            .map_err(|error| broken(format!("a line that cannot be read: {error}")))?;
        let metadata = &line.object.metadata;
        match line.kind {
            Kind::Error if line.object.code == GONE => self.expired = true,
            Kind::Error => {
                return Err(Refused {
                    code: line.object.code,
                    why: line.object.message,
                });
            }
            Kind::Bookmark => self.ends_state |= metadata.ends_state(),
            Kind::Added | Kind::Modified | Kind::Deleted => self.stamps.push(metadata.stamp()),
        }
        self.revision = self.revision.max(metadata.revision());
        Ok(())
    }
}

fn broken(why: impl std::fmt::Display) -> Refused {
    Refused {
        code: 0,
        why: why.to_string(),
    }
}

impl Link {
    pub(super) async fn open(side: &Side, host: &Host) -> Result<Self, Refused> {
        Ok(match side.transport {
            Transport::Grpc => Self::Grpc(
                client::connect(&host.site, &host.wire)
                    .await
                    .map_err(broken)?,
            ),
            Transport::GrpcWeb | Transport::Http => Self::Http(
                Http::connect(&host.site, &host.wire, side.http2)
                    .await
                    .map_err(broken)?,
            ),
        })
    }

    /// Opens a watch; it is open when this returns.
    pub(super) async fn watch(
        &mut self,
        side: &Side,
        host: &Host,
        objects: &Objects,
        start: Start,
    ) -> Result<Stream, Refused> {
        let http = match self {
            Self::Grpc(client) => {
                let stream = client
                    .watch(request(objects, start))
                    .await
                    .map_err(broken)?;
                return Ok(Stream::Grpc(stream.into_inner()));
            }
            Self::Http(http) => http,
        };
        let site = &host.site;
        if side.transport == Transport::GrpcWeb {
            let message = frame::framed(&request(objects, start));
            let answer = http
                .send(site, Method::POST, WATCH, (GRPC_WEB, message))
                .await;
            let answer = successful(answer.map_err(broken)?).await?;
            // An error has its status where others have their first frame.
            if let Some(status) = tonic::Status::from_header_map(answer.headers()) {
                return Err(broken(status));
            }
            return Ok(Stream::Web(answer.into_body(), BytesMut::new()));
        }
        let path = match start {
            Start::State => format!(
                "{}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true\
                 &resourceVersionMatch=NotOlderThan",
                objects.path()
            ),
            Start::After(revision) => format!(
                "{}?watch=1&allowWatchBookmarks=true&resourceVersion={revision}",
                objects.path()
            ),
        };
        let answer = http
            .send(site, Method::GET, &path, (JSON, Bytes::new()))
            .await;
        let answer = successful(answer.map_err(broken)?).await?;
        Ok(Stream::Lines(answer.into_body(), BytesMut::new()))
    }
}

fn request(objects: &Objects, start: Start) -> v1::WatchRequest {
    let start = match start {
        Start::State => watch_request::Start::InitialState(v1::InitialState::default()),
        Start::After(revision) => watch_request::Start::AfterRevision(revision),
    };
    v1::WatchRequest {
        selector: Some(objects.selector()),
        start: Some(start),
        ..v1::WatchRequest::default()
    }
}

async fn successful(answer: Response<Incoming>) -> Result<Response<Incoming>, Refused> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let (status, body) = whole(answer).await.unwrap_or((status, Bytes::new()));
    Err(Refused::of(status, &body))
}

impl Refused {
    /// The history is gone.
    pub(super) fn is_expired(&self) -> bool {
        self.code == GONE
    }
}

impl Stream {
    /// What comes next; false at the end.
    pub(super) async fn next(&mut self, batch: &mut Batch) -> Result<bool, Refused> {
        batch.clear();
        match self {
            Self::Grpc(stream) => {
                let Some(response) = stream.message().await.map_err(broken)? else {
                    return Ok(false);
                };
                batch.response(&response);
                Ok(true)
            }
            Self::Web(body, read) => loop {
                match frame::take(read).map_err(broken)? {
                    Some(Frame::Message(message)) => {
                        let response = v1::WatchResponse::decode(message).map_err(broken)?;
                        batch.response(&response);
                        return Ok(true);
                    }
                    Some(Frame::End(0, _)) => return Ok(false),
                    Some(Frame::End(code, why)) => {
                        return Err(broken(format!("it ends with status {code}: {why}")));
                    }
                    None => {}
                }
                match data(body).await? {
                    Some(data) => read.extend_from_slice(&data),
                    None => return Ok(false),
                }
            },
            Self::Lines(body, rest) => loop {
                let Some(data) = data(body).await? else {
                    return Ok(false);
                };
                if lines(rest, &data, batch)? {
                    return Ok(true);
                }
            },
        }
    }
}

/// The next piece of a body.
async fn data(body: &mut Incoming) -> Result<Option<Bytes>, Refused> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(broken(error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Takes the whole lines of what has come, where they lie; only the piece of a line is kept.
fn lines(rest: &mut BytesMut, data: &[u8], batch: &mut Batch) -> Result<bool, Refused> {
    let mut data = data;
    let mut any = false;
    while let Some(end) = memchr::memchr(b'\n', data) {
        let (line, after) = (&data[..end], &data[end + 1..]);
        if rest.is_empty() {
            batch.line(line)?;
        } else {
            rest.extend_from_slice(line);
            batch.line(rest)?;
            rest.clear();
        }
        (data, any) = (after, true);
    }
    if rest.len() + data.len() > MAX_LINE_BYTES {
        return Err(broken("a line without an end"));
    }
    rest.extend_from_slice(data);
    Ok(any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_as_they_become_whole() {
        let line = |revision: i64| {
            format!(
                r#"{{"type":"ADDED","object":{{"metadata":{{"resourceVersion":"{revision}"}}}}}}"#
            )
        };
        let (mut rest, mut batch) = (BytesMut::new(), Batch::default());
        let text = format!("{}\n{}\n{}", line(1), line(2), line(3));
        let (first, second) = text.as_bytes().split_at(text.len() - 10);
        assert!(lines(&mut rest, first, &mut batch).unwrap());
        assert_eq!((batch.stamps.len(), batch.revision), (2, 2));
        assert!(!lines(&mut rest, second, &mut batch).unwrap());
        assert!(lines(&mut rest, b"\n", &mut batch).unwrap());
        assert_eq!((batch.stamps.len(), batch.revision), (3, 3));
        assert!(lines(&mut rest, b"rubbish\n", &mut batch).is_err());
        let gone = br#"{"type":"ERROR","object":{"code":410,"message":"too old"}}"#;
        batch.clear();
        batch.line(gone).unwrap();
        assert!(batch.expired);
    }
}
