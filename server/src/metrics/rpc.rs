//! RPCs in numbers: a layer that times them.
//!
//! A stream is timed until it opens; how many are open and why they end is counted
//! by the watches themselves.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Instant,
};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use listwatch::{ERROR_DOMAIN, v1::ErrorReason};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tower::{Layer, Service};

use super::sheet::{Labels, Sheet};
use crate::measure::{Counter, Histogram, Level, TIMES};

/// In the order of their numbers.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Paths that are no method of ours, and reasons that are not the API's.
const OTHER: &str = "_other";
/// The reason of what is no gRPC request at all.
const NOT_GRPC: &str = "NOT_GRPC";

/// Counted by [`RpcLayer`].
#[derive(Debug)]
pub(crate) struct RpcFigures {
    /// By path; a method of the descriptors each.
    methods: HashMap<String, Method>,
    other: Method,
    inflight: [Level; 2],
    /// By reason: the API's, and the two above.
    refused: HashMap<&'static str, Counter>,
}

#[derive(Debug)]
struct Method {
    /// `package.Service/Method`.
    name: String,
    kind: Kind,
    /// Made when a code is first met: most never are.
    times: [OnceLock<Histogram>; CODES.len()],
}

/// What is in flight apart from each other, since it is limited apart.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Reading = 0,
    Mutating = 1,
}

const KINDS: [&str; 2] = ["reading", "mutating"];

impl Method {
    fn new(name: String) -> Self {
        let mutating = ["Create", "Update", "Delete", "Batch", "Compact"];
        let method = name.rsplit('/').next().unwrap_or_default();
        let kind = if mutating.contains(&method) {
            Kind::Mutating
        } else {
            Kind::Reading
        };
        Self {
            name,
            kind,
            times: Default::default(),
        }
    }

    fn observe(&self, code: Code, begun: Instant) {
        if let Some(times) = self.times.get(code as usize) {
            let times = times.get_or_init(|| Histogram::of_times(TIMES));
            times.observe_time(begun.elapsed());
        }
    }
}

impl RpcFigures {
    /// For the methods of these descriptors.
    pub(crate) fn new(descriptors: &[&[u8]]) -> Self {
        let mut methods = HashMap::new();
        for bytes in descriptors {
            // Ours and well-formed; where not, calls count as others.
            let set = FileDescriptorSet::decode(*bytes).unwrap_or_default();
            for file in set.file {
                for service in &file.service {
                    for method in &service.method {
                        let service = format!("{}.{}", file.package(), service.name());
                        let name = format!("{service}/{}", method.name());
                        methods.insert(format!("/{name}"), Method::new(name));
                    }
                }
            }
        }
        let reasons = (0..=255)
            .filter_map(|number| ErrorReason::try_from(number).ok())
            .map(|reason| short(reason.as_str_name()));
        let reasons = reasons.chain([OTHER, NOT_GRPC]);
        Self {
            methods,
            other: Method::new(OTHER.to_owned()),
            inflight: Default::default(),
            refused: reasons.map(|reason| (reason, Counter::default())).collect(),
        }
    }

    fn method(&self, path: &str) -> &Method {
        self.methods.get(path).unwrap_or(&self.other)
    }

    /// A watch of a stream is answered with an error, and the stream goes on.
    pub(crate) fn refuse_watch(&self, status: &Status) {
        self.refuse(&reason(status));
    }

    /// A request is answered with an error.
    fn refuse(&self, reason: &str) {
        let counter = self.refused.get(reason).or_else(|| self.refused.get(OTHER));
        if let Some(counter) = counter {
            counter.inc();
        }
    }
}

fn short(reason: &'static str) -> &'static str {
    reason.strip_prefix("ERROR_REASON_").unwrap_or(reason)
}

impl Collector for RpcFigures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        let inflight = KINDS.into_iter().zip(&self.inflight);
        sheet.gauges(
            "lw_requests_inflight",
            "RPCs being answered, streams only until they open",
            inflight.map(|(kind, level)| (vec![("kind", kind)], level.get() as i64)),
        )?;
        let mut methods: Vec<_> = self.methods.values().chain([&self.other]).collect();
        methods.sort_by(|a, b| a.name.cmp(&b.name));
        let times = methods.into_iter().flat_map(|method| {
            let times = CODES.into_iter().zip(&method.times);
            times.filter_map(|(code, times)| {
                let labels: Labels<'_> = vec![("method", &method.name), ("code", code)];
                Some((labels, times.get()?.read()))
            })
        });
        sheet.histograms(
            "lw_rpc_duration_seconds",
            "Time of RPCs by method and code; of streams, until they open",
            times,
        )?;
        let mut refused: Vec<_> = self.refused.iter().collect();
        refused.sort_by_key(|(reason, _)| **reason);
        sheet.counters(
            "lw_requests_refused",
            "Requests answered with an error, by its reason",
            refused
                .into_iter()
                .map(|(reason, count)| (vec![("reason", *reason)], count.get())),
        )
    }
}

/// Times RPCs and counts refusals.
#[derive(Clone, Debug)]
pub(crate) struct RpcLayer(pub(crate) Arc<RpcFigures>);

impl<S> Layer<S> for RpcLayer {
    type Service = Timed<S>;

    fn layer(&self, inner: S) -> Timed<S> {
        Timed {
            inner,
            figures: self.0.clone(),
        }
    }
}

/// See [`RpcLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Timed<S> {
    inner: S,
    figures: Arc<RpcFigures>,
}

/// Counted as in flight; falls also when the client hangs up.
struct InFlight(Arc<RpcFigures>, Kind);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.inflight[self.1 as usize].fall();
    }
}

impl<S, B, R> Service<Request<B>> for Timed<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let begun = Instant::now();
        let figures = self.figures.clone();
        let kind = figures.method(request.uri().path()).kind;
        figures.inflight[kind as usize].rise();
        let guard = InFlight(figures, kind);
        let uri = request.uri().clone();
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await?;
            let figures = &guard.0;
            if response.status() != StatusCode::OK {
                figures.refuse(NOT_GRPC);
                return Ok(response);
            }
            // Errors come in the headers; what has none has begun well.
            let code = match Status::from_header_map(response.headers()) {
                Some(status) if status.code() != Code::Ok => {
                    figures.refuse(&reason(&status));
                    status.code()
                }
                _ => Code::Ok,
            };
            figures.method(uri.path()).observe(code, begun);
            Ok(response)
        })
    }
}

fn reason(status: &Status) -> String {
    status
        .get_details_error_info()
        .filter(|info| info.domain == ERROR_DOMAIN)
        .map_or_else(|| OTHER.to_owned(), |info| info.reason)
}
