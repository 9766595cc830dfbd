//! Connections in numbers.

use std::{fmt, sync::Arc};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::sheet::Sheet;
use crate::{
    measure::{Counter, Level},
    refusals::{Refusal, Refusals},
};

/// Counted by the accept loop.
#[derive(Debug)]
pub(crate) struct ConnectionFigures {
    open: Level,
    accepted: Counter,
    refusals: Arc<Refusals>,
}

impl ConnectionFigures {
    pub(crate) fn new(refusals: Arc<Refusals>) -> Self {
        Self {
            open: Level::default(),
            accepted: Counter::default(),
            refusals,
        }
    }

    /// One that is open for as long as the guard lives.
    pub(crate) fn opened(self: &Arc<Self>) -> OpenConnection {
        self.accepted.inc();
        self.open.rise();
        OpenConnection(self.clone())
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
            self.refusals.failed_accepts(),
        )?;
        let refused = Refusal::ALL.map(|refusal| {
            let labels = vec![("limit", refusal.name())];
            (labels, self.refusals.count(refusal))
        });
        sheet.counters(
            "lw_limit_refusals",
            "Connections, calls and watches refused or cut off, by the limit that they met",
            refused,
        )
    }
}
