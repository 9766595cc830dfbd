//! The trace in which a commit was written.

/// The span of the writer (W3C Trace Context), kept with the commit so that its deliveries
/// can be linked to it. Only of traces that are being recorded.
///
/// Kept in memory, with the events of the watch caches; the log on disk does not have it. A
/// commit that is read from there is delivered without a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Of the whole trace.
    pub trace_id: [u8; 16],
    /// Of the writer's span in it.
    pub span_id: [u8; 8],
}
