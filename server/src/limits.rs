//! Every bound in one place: name with the unit last, value, reason.

use std::time::Duration;

/// A collection's name: Kubernetes' `resource.group` is at most a DNS name.
pub const MAX_COLLECTION_BYTES: usize = 253;
/// A namespace: an RFC 1123 label.
pub const MAX_NAMESPACE_BYTES: usize = 63;
/// A name: a DNS subdomain in Kubernetes.
pub const MAX_NAME_BYTES: usize = 253;
/// Labels of one object; more is data, which belongs into the value.
pub const MAX_LABELS: usize = 64;
/// The name part of a label key, as in Kubernetes.
pub const MAX_LABEL_NAME_BYTES: usize = 63;
/// The prefix part of a label key: a DNS name.
pub const MAX_LABEL_PREFIX_BYTES: usize = 253;
/// A label value: longer than Kubernetes' 63, since Unicode text is allowed.
pub const MAX_LABEL_VALUE_BYTES: usize = 253;
/// A content type: media types and protobuf names are far shorter.
pub const MAX_CONTENT_TYPE_BYTES: usize = 255;
/// A request id: room for a UUID with a caller's prefix.
pub const MAX_REQUEST_ID_BYTES: usize = 128;
/// Label and field requirements of one selector: each is evaluated for each event.
pub const MAX_SELECTOR_REQUIREMENTS: usize = 64;
/// Values of one label requirement.
pub const MAX_REQUIREMENT_VALUES: usize = 256;
/// A resume token or page token; ours are under 500 bytes.
pub const MAX_TOKEN_BYTES: usize = 1024;

/// Default for the largest value of an object: etcd's request limit.
pub const DEFAULT_MAX_OBJECT_BYTES: usize = 1536 * 1024;
/// The most that the largest value can be configured to.
pub const CEILING_OBJECT_BYTES: usize = 64 * 1024 * 1024;
/// Default for the operations of one Batch: etcd's `--max-txn-ops`.
pub const DEFAULT_MAX_BATCH_OPERATIONS: usize = 128;
/// Bytes of one batch: a revision is never split over responses, and with the previous
/// values it must stay below the 4 MiB that gRPC clients accept by default.
pub const MAX_BATCH_BYTES: usize = 1792 * 1024;

/// Objects of one List page when the request leaves it open: client-go's pager.
pub const DEFAULT_PAGE_OBJECTS: usize = 500;
/// The most objects of one List page; a larger `page_size` is taken as this.
pub const MAX_PAGE_OBJECTS: usize = 10_000;
/// A page ends when it holds this much, so that a list of large objects stays a message
/// that every client's default limit of 4 MiB accepts.
pub const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// The longest that one write may live.
pub const MAX_TTL: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// The longest `google.protobuf.Duration`: 10,000 years.
pub const MAX_DURATION_SECONDS: u64 = 315_576_000_000;
/// The last second of a `google.protobuf.Timestamp`: the end of the year 9999.
pub const MAX_TIMESTAMP_SECONDS: u64 = 253_402_300_799;

/// The most events that a watch cache's window grows to: Kubernetes' upper bound.
pub const MAX_WINDOW_EVENTS: usize = 100 * 1024;
/// Bytes of superseded versions that one collection's window keeps alive.
pub const MAX_WINDOW_BYTES: usize = 64 * 1024 * 1024;
/// Default for the span that a window should cover: Kubernetes' 60 s bookmark and 15 s.
pub const DEFAULT_WINDOW_SPAN: Duration = Duration::from_secs(75);
/// Events that a watch takes up at once: enough to join, few enough to stay prompt.
pub const MAX_RESPONSE_EVENTS: usize = 1000;
/// A response is sent when it holds this much: what a stalled stream keeps, and what joined
/// best when it was measured. Commits are not split, so it can be one that is larger.
pub const MAX_RESPONSE_BYTES: usize = 32 * 1024;
/// A watch of the newest changes (`DELIVERY_MODE_LATEST`) that so many full responses could not
/// bring into step gets the net difference instead: fewer changes, for a read of the log.
pub const LATEST_BACKLOG_RESPONSES: usize = 8;
/// How long a read waits for a revision that this server has not reached: Kubernetes' 3 s.
pub const DEFAULT_REVISION_WAIT: Duration = Duration::from_secs(3);
/// How the hub reads the log when it loads or has fallen behind.
pub const INGEST_CHUNK: crate::store::PageLimit = crate::store::PageLimit {
    items: 4096,
    bytes: 8 * 1024 * 1024,
};
/// What a watch takes up at once, by default: from the window, the log or a state.
pub const RESPONSE_CHUNK: crate::store::PageLimit = crate::store::PageLimit {
    items: MAX_RESPONSE_EVENTS,
    bytes: MAX_RESPONSE_BYTES,
};
/// Lists whose next page comes from memory, over all collections.
pub const MAX_SHELVED_SNAPSHOTS: usize = 32;
/// How long a reader may hold a snapshot before it goes on from the store's history.
pub const SNAPSHOT_LIFE: Duration = Duration::from_secs(30);
/// Below this many changes a net difference is sent whatever the number of objects.
pub const NET_COUNT_FLOOR: u64 = 64;

/// What an object takes on the wire beside its value, at most: key, labels, times.
pub const OBJECT_OVERHEAD_BYTES: usize = 64 * 1024;
/// The longest silence of a watch, by default: Kubernetes' bookmark interval.
pub const DEFAULT_BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The shortest bookmark interval that a watch may ask for: each one is a message.
pub const MIN_BOOKMARK_INTERVAL: Duration = Duration::from_millis(100);
/// The longest that a watch may ask for: proxies cut what is silent for longer.
pub const MAX_BOOKMARK_INTERVAL: Duration = Duration::from_secs(600);
/// The longest that a watch may ask its events to be held back.
pub const MAX_BATCH_DELAY: Duration = Duration::from_secs(10);
/// A watch lives at least so long, by default: Kubernetes' `--min-request-timeout`.
pub const DEFAULT_MIN_WATCH_LIFE: Duration = Duration::from_secs(30 * 60);
/// Collections that a status names: those with the most watches and objects.
pub const MAX_STATUS_COLLECTIONS: usize = 1000;
/// How an export reads the store.
pub const EXPORT_PAGE: crate::store::PageLimit = crate::store::PageLimit {
    items: 1000,
    bytes: 1024 * 1024,
};

/// How long open connections get to end when the server goes away, by default.
pub const DEFAULT_SHUTDOWN_GRACE: Duration = Duration::from_secs(30);
/// How much of it watches take to end one after the other: the rest is for their last
/// responses, and for calls.
pub const WATCH_DEPARTURE_SHARE: f64 = 0.8;
/// Watches that end in a second where the grace allows more time than that: so few do not
/// hurt the server that they come back to, and a server that has few is not held up.
pub const WATCH_DEPARTURES_PER_SECOND: f64 = 100.0;
/// What is kept of a client's name for itself.
pub const MAX_USER_AGENT_BYTES: usize = 128;
/// Streams of one connection, announced to clients: etcd's clients multiplex hundreds.
pub const MAX_STREAMS_PER_CONNECTION: u32 = 1024;
/// Those that watches may take: the rest is for calls, which would wait for a stream for
/// ever otherwise.
pub const MAX_WATCH_STREAMS_PER_CONNECTION: usize = 1000;
/// Open connections, by default: idle ones with a watch take about 48 KiB each.
pub const DEFAULT_MAX_CONNECTIONS: usize = 10_000;
/// Descriptors that connections leave alone, since the store opens files as it runs. Where
/// there are few, half of them.
pub const DESCRIPTOR_RESERVE: u64 = 256;
/// A new connection has begun to speak HTTP by then: an honest client does so at once.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long calls on a connection that has come of age may still take, by default.
pub const DEFAULT_MAX_CONNECTION_AGE_GRACE: Duration = Duration::from_secs(30);
/// By how much ages differ, so that connections made together do not end together: gRPC's
/// tenth, in both directions.
pub const CONNECTION_AGE_JITTER: f64 = 0.1;
/// HTTP/2 frames of requests: the least that the standard allows, and no one needs more.
pub const MAX_FRAME_BYTES: u32 = 16 * 1024;
/// What is buffered of an HTTP/1 connection: headers, above all.
pub const MAX_HTTP1_BUFFER_BYTES: usize = 64 * 1024;
/// Open watches, by default: at 4 KiB each, 400 MB.
pub const DEFAULT_MAX_WATCHES: usize = 100_000;
/// Reading calls at a time, by default: Kubernetes' `--max-requests-inflight`.
pub const DEFAULT_MAX_REQUESTS_INFLIGHT: usize = 400;
/// Writing calls at a time, by default: Kubernetes' `--max-mutating-requests-inflight`.
pub const DEFAULT_MAX_MUTATING_REQUESTS_INFLIGHT: usize = 200;
/// How long a call may take, by default: Kubernetes' `--request-timeout`.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// When those who were refused may come again, at the earliest.
pub const REFUSED_RETRY: Duration = Duration::from_secs(1);
/// Over how long they are spread.
pub const REFUSED_RETRY_SPREAD: Duration = Duration::from_secs(1);
/// Bytes that a connection buffers for a stream whose client reads slowly.
pub const MAX_SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Flow-control window of a stream, for requests: a whole batch in flight.
pub const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
/// Flow-control window of a connection.
pub const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// Header lists above this are refused: metadata is short.
pub const MAX_HEADER_LIST_BYTES: u32 = 16 * 1024;
/// How often a quiet connection is pinged, and how long the answer may take, before it is
/// taken for dead, by default.
pub const DEFAULT_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// See [`DEFAULT_KEEPALIVE_INTERVAL`].
pub const DEFAULT_KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause after a failed accept: a server out of descriptors must not spin.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// In-memory connections waiting to be accepted.
pub const IN_MEMORY_BACKLOG: usize = 64;
/// Bytes in flight in each direction of an in-memory connection.
pub const IN_MEMORY_PIPE_BYTES: usize = 256 * 1024;
/// How often history is compacted, by default: Kubernetes' `--etcd-compaction-interval`.
pub const DEFAULT_COMPACTION_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// How much history is kept, by default: as much again, as with Kubernetes' compactor.
pub const DEFAULT_HISTORY_RETENTION: Duration = Duration::from_secs(5 * 60);
/// How late an expiry can be noticed: deadlines set meanwhile are looked at so often.
pub const EXPIRY_TICK: Duration = Duration::from_millis(250);
/// How often expired snapshots are let go.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// A frame of an export: a page of objects, the last of which can be as large as allowed.
pub const MAX_EXPORT_FRAME_BYTES: usize = CEILING_OBJECT_BYTES + 4 * 1024 * 1024;

/// How long a request id is remembered: longer than any client goes on retrying.
pub const REQUEST_WINDOW: Duration = Duration::from_secs(600);
/// The most request ids remembered: about 20 MB.
pub const MAX_REQUESTS_REMEMBERED: usize = 100_000;
/// Default for how long deletions are remembered: a client away for a night and a day
/// gets the difference.
pub const DEFAULT_TOMBSTONE_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Default for the most deletions remembered: about 250 MB of memory.
pub const DEFAULT_MAX_TOMBSTONES: usize = 1_000_000;
/// Points of the time line from revision to time: above it every other one is dropped,
/// so that history kept for ever costs no memory that grows.
pub const MAX_TIMELINE_POINTS: usize = 100_000;
/// Commits that wait for the writer: more only adds latency, callers wait instead.
pub const COMMIT_QUEUE: usize = 1024;
/// Batches of one group commit: the latency of the first is that of the whole group.
pub const MAX_GROUP_BATCHES: usize = 1024;
/// A group commit takes no further batch above this, for the same reason.
pub const MAX_GROUP_BYTES: usize = 4 * 1024 * 1024;
/// Group commits that a slow subscriber may fall behind before it reads the log instead. So
/// few where interleavings are tried that it happens there all the time.
pub const FEED_GROUPS: usize = if cfg!(feature = "interleavings") {
    2
} else {
    256
};
/// Reads from disk at a time: the disk gains nothing from more, and each holds a thread.
pub const MAX_DISK_READS: usize = 32;
/// Names looked up under one hold of the index lock.
pub const INDEX_SLICE_NAMES: usize = 512;
/// Names looked at, but not taken, under one hold of the index lock.
pub const INDEX_SCAN_NAMES: usize = 8192;
/// Log records looked at by one call of `read_log`.
pub const MAX_SCAN_RECORDS: usize = 50_000;
/// Expired objects deleted at one revision: their events must fit one response.
pub const EXPIRE_BATCH_OBJECTS: usize = 256;
/// Their bytes, for the same reason; deletions show the last state.
pub const EXPIRE_BATCH_BYTES: usize = MAX_BATCH_BYTES;

/// Default size of a log segment: compaction copies one at a time, and needs room for it.
pub const DEFAULT_SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Default for the room on the disk below which puts are refused: two segments, which is
/// what a compaction needs while it copies.
pub const DEFAULT_MIN_FREE_BYTES: u64 = 128 * 1024 * 1024;
/// Default size of the ballast, given back to a full disk so that deletions and
/// compaction can go on.
pub const DEFAULT_BALLAST_BYTES: u64 = 16 * 1024 * 1024;
/// Part of the quota that deletions may still use when puts are refused: 1/16.
pub const DELETE_RESERVE_SHARE: u64 = 16;
/// Keys that compaction looks at under one hold of the index lock: under a millisecond.
pub const PRUNE_SLICE_KEYS: usize = 2048;
/// sled's own segments, within one of ours: files grow by one, and its pages of 16 records
/// must fit a quarter. The least, for small stores.
pub const MIN_PAGE_SEGMENT_BYTES: u64 = 512 * 1024;
/// The most: 32 KiB a record part, 64 MiB an object.
pub const MAX_PAGE_SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
/// sled's page cache of a segment that is no longer written: there may be hundreds, and
/// the operating system caches their files.
pub const SEALED_CACHE_BYTES: u64 = 2 * 1024 * 1024;
/// sled's page cache of the written segment: those who follow closely read from it.
pub const SEGMENT_CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// After a failed write: how long until the disk is tried again.
pub const HEAL_INTERVAL: Duration = Duration::from_secs(1);
/// Records that compaction copies between two looks at the index: sled's locks and the
/// disk are the writer's in between.
pub const COPY_BATCH_RECORDS: usize = 64;
/// How long an opening waits for sled to let go of a segment that was just put away.
pub const LETTING_GO: Duration = Duration::from_secs(2);
/// Compactions that were asked for and wait; one run serves them all.
pub const COMPACTION_QUEUE: usize = 64;
/// A removed segment's file goes in such steps while there are writers.
pub const REMOVAL_STEP_BYTES: u64 = 4 * 1024 * 1024;
/// Between two of them: 200 MB a second at most.
pub const REMOVAL_PAUSE: Duration = Duration::from_millis(20);
/// A segment is copied once a third of it is garbage: so a byte is copied at most about
/// twice for each byte that is freed.
pub const GARBAGE_SHARE: u64 = 3;
/// Pause before the hub tries again to read a log that failed.
pub const REREAD_PAUSE: Duration = Duration::from_secs(1);
/// Values of a label under which one watch is filed; one that takes more is asked about
/// every event instead.
pub const MAX_FILED_VALUES: usize = 16;
/// Collections that have metrics of their own; the others share `_other`. Each has some 30
/// series, and no one reads more than this.
pub const MAX_NAMED_COLLECTIONS: usize = 100;
/// Traced writes that one delivery is linked to: OpenTelemetry's own limit is 128.
pub const MAX_DELIVERY_LINKS: usize = 32;
/// What a watch may have still to get, by default: an eighth of the default quota.
pub const DEFAULT_MAX_WATCH_BACKLOG: u64 = 1 << 30;
/// A stretch of a collection's history, for telling how far behind a watch is, is as long as
/// this at least,
pub const BACKLOG_STRETCH: Duration = Duration::from_secs(1);
/// or as large.
pub const BACKLOG_STRETCH_BYTES: u64 = 256 * 1024;
/// Stretches of one collection: 32 KiB. With more, the older ones become coarser.
pub const MAX_BACKLOG_STRETCHES: usize = 1024;
/// How often the lag of watches is sampled.
pub const LAG_SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// Connections to the metrics' own address: a few scrapers and probes.
pub const MAX_METRICS_CONNECTIONS: usize = 64;
/// Revisions that a store restored from a backup leaves out, since they may have been given out
/// after the backup: a week at 1,600 writes a second, as etcd's guide to restoring has it.
pub const RESTORE_REVISION_GAP: u64 = 1_000_000_000;
/// How long a readiness check may take.
pub const PROBE_PATIENCE: Duration = Duration::from_secs(3);
/// Steps that a watch takes in one poll when there is nothing to send.
pub const MAX_STEPS_A_POLL: usize = 16;
/// Segments that are open at a time: sled keeps what was read of each in memory, up to
/// its whole size.
pub const MAX_OPEN_SEGMENTS: usize = 16;
/// Watches on one WatchMany stream.
pub const MAX_WATCHES_PER_STREAM: usize = 10_000;
/// Watches of one WatchMany stream that are being opened at a time; further requests wait.
pub const MAX_OPENING_WATCHES: usize = 64;

/// The query of a request to the gateway: a selector of many values, twice over.
pub const GATEWAY_MAX_QUERY_BYTES: usize = 32 * 1024;
/// The longest `timeoutSeconds` of a watch over HTTP: a day. Clients come back by themselves.
pub const GATEWAY_MAX_WATCH_SECONDS: u64 = 24 * 3600;
/// A list over HTTP is sent in pieces of about this size: what one costs in memory.
pub const GATEWAY_PIECE_BYTES: usize = 256 * 1024;
/// Responses from this size on are packed for clients that take it: kube-apiserver's.
pub const GATEWAY_MIN_GZIP_BYTES: usize = 128 * 1024;
/// How many names are generated for an object whose name turns out to be taken.
pub const GATEWAY_NAME_ATTEMPTS: usize = 8;
/// Deletions of one deletecollection that are under way together: they share commits.
pub const GATEWAY_DELETIONS_AT_A_TIME: usize = 32;
/// Finalizers of one object: each is someone who must be waited for.
pub const GATEWAY_MAX_FINALIZERS: usize = 64;
/// When a client over HTTP that was refused may come again.
pub const GATEWAY_RETRY_SECONDS: u64 = 1;
/// The same, where the server is going away.
pub const GATEWAY_LEAVING_RETRY_SECONDS: u64 = 5;
/// The newest revision of an export that is read: half of what there is, so that a store made
/// of it never comes to the last one.
pub const MAX_IMPORT_REVISION: i64 = i64::MAX / 2;
