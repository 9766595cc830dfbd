//! Logs on standard error, as text or JSON, and traces to an OpenTelemetry collector.

use std::{
    env,
    io::{self, IsTerminal as _},
    time::Duration,
};

use listwatch_server::TRACE_TARGET;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing_subscriber::{
    EnvFilter, Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// How long the last traces may take: the collector may be gone.
const LAST_TRACES: Duration = Duration::from_secs(2);

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Sends what is left when it is dropped.
pub(crate) struct Traces(SdkTracerProvider);

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST_TRACES) {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// The collector: as the flag says, else OpenTelemetry's own variables.
pub(crate) fn collector(flag: Option<&str>) -> Option<String> {
    let named = flag.map(str::to_owned);
    let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
    named
        .or_else(|| variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))
        .or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"))
}

/// Starts logging, and traces if there is a collector. `RUST_LOG` chooses what is logged;
/// `info` by default. Call it within the runtime.
///
/// # Errors
/// The collector's address is not understood.
pub(crate) fn start(format: LogFormat, collector: Option<&str>) -> Result<Option<Traces>, String> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let lines = match format {
        LogFormat::Text => lines.with_filter(filter).boxed(),
        LogFormat::Json => lines.json().with_filter(filter).boxed(),
    };
    let provider = collector.map(exporting_to).transpose()?;
    let spans = provider.as_ref().map(|provider| {
        let tracer = provider.tracer("listwatch");
        // Nothing else: the exporter's own requests would trace themselves.
        let only = Targets::new().with_target(TRACE_TARGET, tracing::Level::INFO);
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_filter(only)
    });
    tracing_subscriber::registry()
        .with(lines)
        .with(spans)
        .init();
    Ok(provider.map(Traces))
}

fn exporting_to(endpoint: &str) -> Result<SdkTracerProvider, String> {
    if !endpoint.starts_with("http://") {
        return Err(format!(
            "--otlp-endpoint: {endpoint:?} is no address such as http://127.0.0.1:4317 (OTLP over gRPC, without TLS)"
        ));
    }
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .build()
        .map_err(|error| format!("--otlp-endpoint: {error}"))?;
    let resource = Resource::builder();
    let resource = match env::var_os("OTEL_SERVICE_NAME") {
        Some(_) => resource,
        None => resource.with_service_name("listwatchd"),
    };
    Ok(SdkTracerProvider::builder()
        .with_resource(resource.build())
        .with_batch_exporter(exporter)
        .build())
}
