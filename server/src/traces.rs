//! Traces: spans of RPCs and of deliveries, for an OpenTelemetry layer of the program's
//! `tracing` subscriber (`listwatchd --otlp-endpoint` installs one).
//!
//! A request's `traceparent` is the parent of its span. A write's span is kept with the commit,
//! and whoever delivers the commit's events makes a span that hangs on it and is linked to
//! every write that the response carries. Writes that are not recorded leave no trace: their
//! deliveries cost a look at an empty field.

use std::{
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use futures::future::BoxFuture;
use http::{Request, Response};
use opentelemetry::{
    Context, SpanId, TraceFlags, TraceId,
    trace::{SpanContext, TraceContextExt as _, TraceState},
};
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::{Instrument as _, Span, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::{
    limits::MAX_DELIVERY_LINKS,
    store::{Commit, TraceContext},
};

/// The target of all spans: what an OpenTelemetry layer should let through.
pub const TRACE_TARGET: &str = "listwatch::trace";

/// Makes a span of each RPC. A stream's ends when it opens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceLayer;

impl<S> Layer<S> for TraceLayer {
    type Service = Traced<S>;

    fn layer(&self, inner: S) -> Traced<S> {
        Traced(inner)
    }
}

/// See [`TraceLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Traced<S>(S);

impl<S, B, R> Service<Request<B>> for Traced<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut TaskContext<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = request.uri().path().trim_start_matches('/');
        let span = tracing::info_span!(
            target: TRACE_TARGET,
            "rpc",
            otel.name = method,
            otel.kind = "server",
            otel.status_code = Empty,
            rpc.system.name = "grpc",
            rpc.method = method,
            rpc.response.status_code = Empty,
        );
        let parent = request.headers().get("traceparent");
        if let Some(parent) = parent.and_then(|p| parse(p.to_str().ok()?)) {
            // Without an OpenTelemetry layer there is no one to tell.
            let _ = span.set_parent(Context::new().with_remote_span_context(parent));
        }
        let response = self.0.call(request);
        let recorded = span.clone();
        Box::pin(
            async move {
                let response = response.await?;
                let status = Status::from_header_map(response.headers());
                let code = status.map_or(Code::Ok, |status| status.code());
                recorded.record("rpc.response.status_code", name(code));
                if is_fault(code) {
                    recorded.record("otel.status_code", "ERROR");
                }
                Ok(response)
            }
            .instrument(span),
        )
    }
}

/// The server's fault, as OpenTelemetry's conventions for RPCs have it.
fn is_fault(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

fn name(code: Code) -> String {
    format!("{code:?}")
}

/// `00-<trace id>-<span id>-<flags>`; versions to come may append more.
fn parse(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let sized = version.len() == 2 && trace.len() == 32 && span.len() == 16 && flags.len() == 2;
    let more = parts.next().is_some();
    // Lower case only, as the recommendation demands.
    let hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let well_formed = sized && [version, trace, span, flags].into_iter().all(hex);
    if !well_formed || version == "ff" || (version == "00" && more) {
        return None;
    }
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()? & 1),
        true,
        TraceState::NONE,
    );
    context.is_valid().then_some(context)
}

/// The present span, for a commit to keep; `None` if it is not recorded.
pub(crate) fn writer() -> Option<Arc<TraceContext>> {
    let span = Span::current();
    if span.is_none() {
        return None;
    }
    let context = span.context();
    let context = context.span().span_context().clone();
    let recorded = context.is_valid() && context.is_sampled();
    recorded.then(|| {
        Arc::new(TraceContext {
            trace_id: context.trace_id().to_bytes(),
            span_id: context.span_id().to_bytes(),
        })
    })
}

fn remote(trace: &TraceContext) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(trace.trace_id),
        SpanId::from_bytes(trace.span_id),
        TraceFlags::SAMPLED,
        true,
        TraceState::NONE,
    )
}

/// One response's writes that are being traced, by revision.
#[derive(Debug, Default)]
pub(crate) struct Delivered(Vec<(u64, TraceContext)>);

impl Delivered {
    /// The response has an event of this commit.
    pub(crate) fn note(&mut self, commit: &Commit) {
        let Some(trace) = &commit.trace else { return };
        let revision = commit.revision.get();
        // The events of a commit come one after the other.
        let known = self.0.last().is_some_and(|(last, _)| *last == revision);
        if !known && self.0.len() < MAX_DELIVERY_LINKS {
            self.0.push((revision, **trace));
        }
    }

    /// Makes the span of the delivery, if there is anything to link it to. It hangs on the
    /// newest write, whose decision to record it shares.
    pub(crate) fn finish(self, collection: &str, events: usize) {
        let Some((revision, newest)) = self.0.last() else {
            return;
        };
        let span = tracing::info_span!(
            target: TRACE_TARGET,
            parent: None,
            "deliver",
            otel.name = "listwatch deliver",
            otel.kind = "producer",
            listwatch.collection = collection,
            listwatch.revision = revision,
            listwatch.events = events,
        );
        let _ = span.set_parent(Context::new().with_remote_span_context(remote(newest)));
        for (_, write) in &self.0 {
            span.add_link(remote(write));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_traceparent_is_no_parent() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = parse(good).unwrap();
        assert!(context.is_sampled() && context.is_remote());
        assert!(parse(&good.replace("-01", "-00")).is_some_and(|c| !c.is_sampled()));
        assert!(parse(&good.replace("00-4b", "42-4b").replace("-01", "-01-new")).is_some());
        let bad = [
            "",
            "00",
            &good.to_uppercase(),
            &good[..54],
            &format!("{good}-more"),
            &good.replace("00-4b", "ff-4b"),
            &good.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &good.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &good.replace("00f067aa0ba902b7", "+0f067aa0ba902b7"),
        ];
        for bad in bad {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
