//! gRPC-web: the RPCs for browsers, over HTTP/1.1 and HTTP/2, on the same port.
//!
//! Only what says that it is gRPC-web is translated; native calls pay for one look at their
//! content type. Everything further in (limits, reasons, figures, watches' ready-made frames)
//! sees the call as a native one.

use std::task::{Context, Poll};

use futures::future::{BoxFuture, Either, FutureExt as _};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use tonic::body::Body;
use tonic_web::GrpcWebLayer;
use tower::{Layer, Service, ServiceExt as _};

/// What every form of gRPC-web begins with.
const PREFIX: &[u8] = b"application/grpc-web";
/// The forms that there are: frames as they are, or in base64.
const FORMS: [&str; 4] = [
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpc-web-text",
    "application/grpc-web-text+proto",
];

/// Translates gRPC-web and passes everything else on.
#[derive(Clone, Copy, Debug)]
pub(super) struct WebLayer;

impl<S> Layer<S> for WebLayer {
    type Service = Web<S>;

    fn layer(&self, inner: S) -> Web<S> {
        Web { inner }
    }
}

/// See [`WebLayer`].
#[derive(Clone, Debug)]
pub(super) struct Web<S> {
    inner: S,
}

impl<S> Service<Request<Body>> for Web<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(form) = form(request.headers(), &header::CONTENT_TYPE) else {
            return Either::Left(self.inner.call(request));
        };
        // tonic-web knows these headers only to the letter; and who does not say in which form
        // it takes the answer takes that of its request.
        let answer = self::form(request.headers(), &header::ACCEPT);
        let answer = answer.unwrap_or_else(|| form.clone());
        request.headers_mut().insert(header::CONTENT_TYPE, form);
        request.headers_mut().insert(header::ACCEPT, answer);
        let translated = GrpcWebLayer::new().layer(self.inner.clone());
        Either::Right(translated.oneshot(request).boxed())
    }
}

/// The form of gRPC-web that a header names, without its parameters.
fn form(headers: &HeaderMap, name: &header::HeaderName) -> Option<HeaderValue> {
    let value = headers.get(name)?.as_bytes();
    if !value.starts_with(PREFIX) {
        return None;
    }
    let named = value.split(|byte| matches!(byte, b';' | b',')).next()?;
    let named = named.trim_ascii_end();
    let form = FORMS.into_iter().find(|form| form.as_bytes() == named);
    form.map(HeaderValue::from_static)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forms_of_grpc_web_are_translated() {
        let named = |value: &'static str| {
            let value = HeaderValue::from_static(value);
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, value)]);
            form(&headers, &header::CONTENT_TYPE)
        };
        for form in FORMS {
            assert_eq!(named(form).unwrap(), form);
        }
        let text = "application/grpc-web-text";
        assert_eq!(
            named("application/grpc-web-text; charset=utf-8").unwrap(),
            text
        );
        for other in [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc-web+json",
            "application/grpc-website",
            "application/json",
            "",
        ] {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
