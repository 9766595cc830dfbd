//! What is seen from outside without gRPC: `/metrics`, `/livez` (or `/healthz`), `/readyz`, over HTTP/1.1 and
//! HTTP/2, beside gRPC on the same port, and on one of their own.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use tonic::body::Body;
use tower::{Layer, Service};

use super::probes::{Probe, Probes};
use crate::metrics::{Format, Metrics};

/// Answers these paths itself and passes everything else on.
#[derive(Clone, Debug)]
pub(super) struct OutsideLayer {
    pub(super) metrics: Metrics,
    pub(super) probes: Probes,
}

#[derive(Clone, Copy, Debug)]
enum Page {
    Metrics,
    Probe(Probe),
}

fn page(path: &str) -> Option<Page> {
    match path {
        "/metrics" => Some(Page::Metrics),
        "/livez" | "/healthz" => Some(Page::Probe(Probe::Live)),
        "/readyz" => Some(Page::Probe(Probe::Ready)),
        _ => None,
    }
}

impl OutsideLayer {
    /// Nothing but these pages.
    pub(super) fn alone(self) -> Outside<NotFound> {
        self.layer(NotFound)
    }

    async fn answer<B>(self, page: Page, request: Request<B>) -> Response<Body> {
        if request.method() != Method::GET {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Only GET.\n".to_owned());
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("GET"));
            return response;
        }
        match page {
            Page::Metrics => self.metrics(&request),
            Page::Probe(probe) => self.probe(probe, request.uri().query()).await,
        }
    }

    fn metrics<B>(&self, request: &Request<B>) -> Response<Body> {
        let accept = request.headers().get(header::ACCEPT);
        let format = Format::accepted(accept.and_then(|accept| accept.to_str().ok()));
        match self.metrics.render(format) {
            Ok(written) => {
                let mut response = text(StatusCode::OK, written);
                let content_type = HeaderValue::from_static(format.content_type());
                response
                    .headers_mut()
                    .insert(header::CONTENT_TYPE, content_type);
                response
            }
            Err(error) => {
                tracing::error!(%error, "the metrics cannot be written");
                text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))
            }
        }
    }

    async fn probe(&self, probe: Probe, query: Option<&str>) -> Response<Body> {
        let pairs = query.unwrap_or_default().split('&');
        let pairs: Vec<_> = pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .collect();
        let verbose = pairs
            .iter()
            .any(|(name, value)| *name == "verbose" && !matches!(*value, "false" | "0"));
        let exclude: Vec<_> = pairs
            .iter()
            .filter(|(name, _)| *name == "exclude")
            .map(|(_, value)| *value)
            .collect();
        let verdict = self.probes.ask(probe, &exclude, verbose).await;
        let status = if verdict.well {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        text(status, verdict.text)
    }
}

fn text(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::new(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, plain);
    // A probe's answer is true now.
    let no_store = HeaderValue::from_static("no-store");
    headers.insert(header::CACHE_CONTROL, no_store);
    // A browser takes it for nothing else.
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

impl<S> Layer<S> for OutsideLayer {
    type Service = Outside<S>;

    fn layer(&self, inner: S) -> Outside<S> {
        Outside {
            inner,
            layer: self.clone(),
        }
    }
}

/// See [`OutsideLayer`].
#[derive(Clone, Debug)]
pub(super) struct Outside<S> {
    inner: S,
    layer: OutsideLayer,
}

impl<S, B> Service<Request<B>> for Outside<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    B: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Some(page) = page(request.uri().path()) else {
            return Box::pin(self.inner.call(request));
        };
        let layer = self.layer.clone();
        Box::pin(async move { Ok(layer.answer(page, request).await) })
    }
}

/// Answers that there is no such page.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotFound;

impl<B> Service<Request<B>> for NotFound {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        let pages = "/metrics, /livez and /readyz are here.\n".to_owned();
        std::future::ready(Ok(text(StatusCode::NOT_FOUND, pages)))
    }
}
