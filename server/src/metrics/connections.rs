//! Connections in numbers.

use std::{fmt, sync::Arc};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::sheet::Sheet;
use crate::measure::{Counter, Level};

/// Counted by the accept loop.
#[derive(Debug, Default)]
pub(crate) struct ConnectionFigures {
    open: Level,
    accepted: Counter,
    failed: Counter,
}

impl ConnectionFigures {
    /// One that is open for as long as the guard lives.
    pub(crate) fn opened(self: &Arc<Self>) -> OpenConnection {
        self.accepted.inc();
        self.open.rise();
        OpenConnection(self.clone())
    }

    /// One could not be accepted.
    pub(crate) fn not_accepted(&self) {
        self.failed.inc();
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<ConnectionFigures>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fall();
    }
}

impl Collector for ConnectionFigures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        sheet.gauge("lw_connections", "Open connections", self.open.get() as i64)?;
        sheet.counter(
            "lw_connections_accepted",
            "Connections accepted",
            self.accepted.get(),
        )?;
        sheet.counter(
            "lw_accept_failures",
            "Connections that the operating system could not give, for want of descriptors for one",
            self.failed.get(),
        )
    }
}
