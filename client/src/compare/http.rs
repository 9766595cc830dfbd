//! Plain HTTP connections, to gRPC-web and to Kubernetes' API.

use std::{fmt::Display, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;

use super::{
    side::Site,
    wire::{Wire, dial},
};

/// As large as the gRPC side's: what is not read must not be what is measured.
pub(super) const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The largest answer that is read as a whole.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// A connection.
pub(super) enum Http {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Http {
    pub(super) async fn connect(site: &Site, wire: &Arc<Wire>, two: bool) -> Result<Self, String> {
        let address = site.address();
        let io = tokio::time::timeout(PATIENCE, dial(address, wire)).await;
        let io = io.map_err(|_| format!("cannot connect to {address}: it does not answer"))?;
        let io = io.map_err(|error| format!("cannot connect to {address}: {error}"))?;
        let io = TokioIo::new(io);
        // A connection's task ends with its last stream; what fails shows there.
        Ok(match two {
            false => {
                let (sender, connection) = http1::handshake(io).await.map_err(failed)?;
                tokio::spawn(connection);
                Self::One(sender)
            }
            true => {
                let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                    .initial_stream_window_size(STREAM_WINDOW_BYTES)
                    .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                    .handshake(io)
                    .await
                    .map_err(failed)?;
                tokio::spawn(connection);
                Self::Two(sender)
            }
        })
    }

    /// Sends a request; the answer's body is still to come.
    pub(super) async fn send(
        &mut self,
        site: &Site,
        method: Method,
        path: &str,
        (content_type, body): (&'static str, Bytes),
    ) -> Result<Response<Incoming>, String> {
        let host = site.address();
        let uri = match self {
            Self::One(_) => format!("{}{path}", site.prefix()),
            Self::Two(_) => format!("http://{host}{}{path}", site.prefix()),
        };
        let mut request = Request::builder().method(method).uri(uri);
        if let Self::One(_) = self {
            request = request.header(header::HOST, host);
        }
        request = request
            .header(
                header::USER_AGENT,
                concat!("listwatch-compare/", env!("CARGO_PKG_VERSION")),
            )
            .header(header::ACCEPT, content_type);
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        if let Some(token) = site.token() {
            request = request.header(header::AUTHORIZATION, token.clone());
        }
        let request = request.body(Full::new(body)).map_err(failed)?;
        let answer = async {
            match self {
                Self::One(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await
                }
                Self::Two(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await
                }
            }
        };
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        answer
            .map_err(|_| "it does not answer".to_owned())?
            .map_err(failed)
    }

    /// Sends JSON and takes JSON; what is no success is an error, with its code.
    pub(super) async fn json(
        &mut self,
        site: &Site,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Value, Refused> {
        let (status, bytes) = self.whole(site, method, path, body).await?;
        if !status.is_success() {
            return Err(Refused::of(status, &bytes));
        }
        serde_json::from_slice(&bytes).map_err(|error| Refused {
            code: status.as_u16(),
            why: format!("{path} is no JSON: {error}"),
        })
    }

    async fn whole(
        &mut self,
        site: &Site,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Refused> {
        let answer = self.send(site, method, path, (JSON, body)).await;
        let answer = answer.map_err(|why| Refused { code: 0, why })?;
        whole(answer).await
    }
}

/// The code of what is there already.
pub(super) const CONFLICT: u16 = 409;
pub(super) const JSON: &str = "application/json";

/// Reads an answer to its end.
pub(super) async fn whole(answer: Response<Incoming>) -> Result<(StatusCode, Bytes), Refused> {
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect();
    let body = tokio::time::timeout(PATIENCE, body).await;
    let why = match body {
        Ok(Ok(body)) => return Ok((parts.status, body.to_bytes())),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the answer does not end".to_owned(),
    };
    Err(Refused { code: 0, why })
}

/// An answer that is no success; code 0: none came.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) code: u16,
    pub(super) why: String,
}

impl Refused {
    pub(super) fn of(status: StatusCode, body: &[u8]) -> Self {
        let message = serde_json::from_slice::<Value>(body).ok();
        let message = message.and_then(|status| Some(status.get("message")?.as_str()?.to_owned()));
        Self {
            code: status.as_u16(),
            why: match message {
                Some(message) => format!("{status}: {message}"),
                None => status.to_string(),
            },
        }
    }
}

pub(super) fn failed(error: impl Display) -> String {
    error.to_string()
}

/// A bearer token as a header.
pub(super) fn bearer(token: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
        .map_err(|_| "the token is no text that a header can hold".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}
