//! An OpenTelemetry collector for one test: it keeps the spans that are sent to it.

use std::{sync::Arc, time::Duration};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value,
    trace::v1::Span,
};
use tokio::{net::TcpListener, sync::watch};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::harness::PATIENCE;

#[derive(Clone)]
pub struct Collector {
    spans: Arc<watch::Sender<Vec<Span>>>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans;
        let scopes = resources.into_iter().flat_map(|r| r.scope_spans);
        let new: Vec<_> = scopes.flat_map(|scope| scope.spans).collect();
        self.spans.send_modify(|spans| spans.extend(new));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// A collector, and the address to send to.
    pub async fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self {
            spans: Arc::new(watch::channel(Vec::new()).0),
        };
        let service = TraceServiceServer::new(collector.clone());
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener)),
        );
        (collector, address)
    }

    /// The first span that is wanted, once it has come.
    pub async fn wait_for(&self, wanted: impl Fn(&Span) -> bool) -> Span {
        let mut spans = self.spans.subscribe();
        let found = spans.wait_for(|spans| spans.iter().any(&wanted));
        match tokio::time::timeout(PATIENCE + Duration::from_secs(10), found).await {
            Ok(Ok(spans)) => spans.iter().find(|span| wanted(span)).cloned().unwrap(),
            _ => panic!("no such span among {:#?}", self.all()),
        }
    }

    pub fn all(&self) -> Vec<Span> {
        self.spans.borrow().clone()
    }
}

/// An attribute as text.
pub fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|pair| pair.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => Some(format!("{other:?}")),
    }
}
