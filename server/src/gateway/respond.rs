//! Responses that hold objects: whole, or in pieces as they are read, packed where the client
//! takes that and it is worth it.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::Stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use tonic::body::Body;

use super::status::json_response;
use crate::limits::GATEWAY_MIN_GZIP_BYTES;

/// A piece of a response that is read on the way.
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_last: bool,
}

/// A response that is there as a whole.
pub(crate) fn whole(code: StatusCode, json: Vec<u8>, gzip: bool) -> Response<Body> {
    if gzip && json.len() >= GATEWAY_MIN_GZIP_BYTES {
        let mut packer = Packer::new();
        if let Ok(packed) = packer.pack(&json, true) {
            let body = Full::<Bytes>::new(packed.into());
            return packed_response(code, Body::new(body));
        }
    }
    json_response(code, json.into())
}

/// A response with warnings for whoever sent the request.
pub(crate) fn warned(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings.iter().take(MAX_WARNINGS) {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // What no header can hold is left out: the field is dropped all the same.
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

/// Headers have limits of their own; who does not read ten warnings reads no hundred.
const MAX_WARNINGS: usize = 10;

/// A response whose first piece is there.
pub(crate) fn pieces<S, E>(first: Piece, rest: S, gzip: bool) -> Response<Body>
where
    S: Stream<Item = Result<Piece, E>> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    use futures::StreamExt as _;
    if first.is_last {
        return whole(StatusCode::OK, first.bytes, gzip);
    }
    let first = futures::stream::once(async { Ok(first) });
    let all = first.chain(rest.map(|piece| piece.map_err(io::Error::other)));
    if !gzip {
        let frames = all.map(|piece| piece.map(|piece| Frame::data(Bytes::from(piece.bytes))));
        let mut response = json_response(StatusCode::OK, Bytes::new());
        *response.body_mut() = Body::new(StreamBody::new(frames));
        return response;
    }
    let mut packer = Packer::new();
    let frames = all.map(move |piece| {
        let piece = piece?;
        let packed = packer.pack(&piece.bytes, piece.is_last)?;
        Ok::<_, io::Error>(Frame::data(Bytes::from(packed)))
    });
    packed_response(StatusCode::OK, Body::new(StreamBody::new(frames)))
}

fn packed_response(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = json_response(code, Bytes::new());
    *response.body_mut() = body;
    let headers = response.headers_mut();
    let gzip = HeaderValue::from_static("gzip");
    headers.insert(header::CONTENT_ENCODING, gzip);
    let vary = HeaderValue::from_static("Accept-Encoding");
    headers.insert(header::VARY, vary);
    response
}

struct Packer(GzEncoder<Vec<u8>>);

impl Packer {
    fn new() -> Self {
        // As kube-apiserver does: the time is the client's wait.
        Self(GzEncoder::new(Vec::new(), Compression::fast()))
    }

    fn pack(&mut self, bytes: &[u8], is_last: bool) -> io::Result<Vec<u8>> {
        self.0.write_all(bytes)?;
        if is_last {
            self.0.try_finish()?;
        }
        Ok(std::mem::take(self.0.get_mut()))
    }
}
