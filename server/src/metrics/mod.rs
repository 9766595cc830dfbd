//! Metrics in Prometheus' formats.
//!
//! Nothing is counted here: what counts are atomics in the store, the hub and the layers. Asked,
//! this reads them and writes them down. A registry belongs to one server; two servers in
//! one process have two.
//!
//! Labels come from bounded sets: collection (a hundred, then `_other`), method, verb,
//! code, reason, state, type. Never a key, a client, a selector or an address.

mod collections;
mod connections;
mod http;
mod process;
mod rpc;
mod sheet;
mod store;

use std::{fmt, sync::Arc};

use prometheus_client::{
    encoding::{prometheus_text, text},
    registry::Registry,
};

pub(crate) use self::{
    connections::ConnectionFigures,
    http::{HttpFigures, HttpVerb, OpenHttpWatch},
    rpc::{RpcFigures, RpcLayer},
};
use crate::hub::Hub;

/// The registry of one server.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Registry>);

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus' own, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// What the client accepts.
    pub(crate) fn accepted(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Metrics {
    /// Of a server with these parts.
    pub(crate) fn new(
        hub: &Arc<Hub>,
        rpc: Arc<RpcFigures>,
        http: Arc<HttpFigures>,
        connections: Arc<ConnectionFigures>,
    ) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(store::StoreSheet(hub.store().clone())));
        registry.register_collector(Box::new(collections::HubSheet(hub.clone())));
        registry.register_collector(Box::new(rpc));
        registry.register_collector(Box::new(http));
        registry.register_collector(Box::new(connections));
        registry.register_collector(Box::new(process::ProcessSheet));
        Self(Arc::new(registry))
    }

    /// All metrics as they stand.
    ///
    /// # Errors
    /// The encoder's, which would be a fault.
    pub(crate) fn render(&self, format: Format) -> Result<String, fmt::Error> {
        let mut written = String::new();
        match format {
            Format::Prometheus => prometheus_text::encode(&mut written, &self.0)?,
            Format::OpenMetrics => text::encode(&mut written, &self.0)?,
        }
        Ok(written)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
