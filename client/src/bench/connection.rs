//! A connection to either system, and the calls that the loads make over it.

use bytes::Bytes;
use listwatch::v1::{
    self, list_watch_service_client::ListWatchServiceClient, watch_request::Start,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

use super::{
    BenchError, System,
    etcdserverpb::{self as etcd, kv_client::KvClient, watch_client::WatchClient},
    watching::Stream,
};

/// The collection, and the prefix of etcd's keys, that everything is in.
const COLLECTION: &str = "bench";
/// The label that selective watches look at.
const LABEL: &str = "shard";
/// As large for both: what is not read must not be what is measured.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// A whole state in one message, which is how etcd gives it.
const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// What a watch wants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// Everything.
    All,
    /// Everything, said in other words than any other watch does.
    AllBut(usize),
    /// What has this value of the label.
    Shard(usize),
}

/// A connection of its own.
#[derive(Clone, Debug)]
pub(super) enum Connection {
    Listwatch(ListWatchServiceClient<Channel>),
    Etcd(KvClient<Channel>, WatchClient<Channel>),
}

impl Connection {
    pub(super) async fn open(system: System, address: &str) -> Result<Self, BenchError> {
        let failed = |error| BenchError::Connect {
            address: address.to_owned(),
            error,
        };
        let channel = Endpoint::from_shared(format!("http://{address}"))
            .map_err(failed)?
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .connect()
            .await
            .map_err(failed)?;
        let most = MAX_MESSAGE_BYTES;
        Ok(match system {
            System::Listwatch => Self::Listwatch(
                ListWatchServiceClient::new(channel).max_decoding_message_size(most),
            ),
            System::Etcd => Self::Etcd(
                KvClient::new(channel.clone()).max_decoding_message_size(most),
                WatchClient::new(channel).max_decoding_message_size(most),
            ),
        })
    }

    /// Several connections.
    pub(super) async fn several(
        system: System,
        address: &str,
        count: usize,
    ) -> Result<Vec<Self>, BenchError> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(Self::open(system, address).await?);
        }
        Ok(connections)
    }

    /// The server answers.
    pub(super) async fn ping(&self) -> Result<(), BenchError> {
        let answer = match self.clone() {
            Self::Listwatch(mut service) => {
                let request = v1::ListRequest {
                    selector: Some(selector(Wanted::All)),
                    page_size: 1,
                    ..v1::ListRequest::default()
                };
                service.list(request).await.map(drop)
            }
            Self::Etcd(mut kv, _) => {
                let request = etcd::RangeRequest {
                    key: key(0),
                    ..etcd::RangeRequest::default()
                };
                kv.range(request).await.map(drop)
            }
        };
        answer.map_err(BenchError::call("a first read"))
    }

    /// Writes an object, whatever was there, durably.
    pub(super) async fn put(&mut self, number: usize, value: Bytes) -> Result<(), Status> {
        match self {
            Self::Listwatch(service) => service.update(update(number, None, value)).await.map(drop),
            Self::Etcd(kv, _) => {
                let key = key(number);
                kv.put(etcd::PutRequest { key, value }).await.map(drop)
            }
        }
    }

    /// The same with a label; only of Listwatch.
    pub(super) async fn put_in_shard(
        &mut self,
        number: usize,
        shard: usize,
        value: Bytes,
    ) -> Result<(), Status> {
        match self {
            Self::Listwatch(service) => service
                .update(update(number, Some(shard), value))
                .await
                .map(drop),
            Self::Etcd(..) => Err(Status::unimplemented("etcd has no labels")),
        }
    }

    /// Writes objects of these numbers at one revision.
    pub(super) async fn put_all(
        &mut self,
        numbers: std::ops::Range<usize>,
        value: &Bytes,
    ) -> Result<(), Status> {
        match self {
            Self::Listwatch(service) => {
                let operation = |number| v1::BatchOperation {
                    kind: Some(v1::batch_operation::Kind::Update(update(
                        number,
                        None,
                        value.clone(),
                    ))),
                };
                let operations = numbers.map(operation).collect();
                let request_id = String::new();
                let request = v1::BatchRequest {
                    operations,
                    request_id,
                };
                service.batch(request).await.map(drop)
            }
            Self::Etcd(kv, _) => {
                let operation = |number| etcd::RequestOp {
                    request: Some(etcd::request_op::Request::RequestPut(etcd::PutRequest {
                        key: key(number),
                        value: value.clone(),
                    })),
                };
                let success = numbers.map(operation).collect();
                kv.txn(etcd::TxnRequest { success }).await.map(drop)
            }
        }
    }

    /// Reads everything, page by page; returns how many objects there were.
    pub(super) async fn pages(&mut self, size: usize) -> Result<usize, Status> {
        let mut count = 0;
        match self {
            Self::Listwatch(service) => {
                let mut request = v1::ListRequest {
                    selector: Some(selector(Wanted::All)),
                    page_size: size as i32,
                    ..v1::ListRequest::default()
                };
                loop {
                    let page = service.list(request.clone()).await?.into_inner();
                    count += page.resources.len();
                    if page.next_page_token.is_empty() {
                        return Ok(count);
                    }
                    request.page_token = page.next_page_token;
                }
            }
            Self::Etcd(kv, _) => {
                let mut request = etcd::RangeRequest {
                    key: prefix(),
                    range_end: end(),
                    limit: size as i64,
                    ..etcd::RangeRequest::default()
                };
                loop {
                    let page = kv.range(request.clone()).await?.into_inner();
                    count += page.kvs.len();
                    let Some(last) = page.kvs.last().filter(|_| page.more) else {
                        return Ok(count);
                    };
                    // All pages at the revision of the first.
                    let first = page.header.map_or(0, |header| header.revision);
                    request.revision = request.revision.max(first);
                    request.key = [&last.key, &[0][..]].concat().into();
                }
            }
        }
    }

    /// Reads everything as a client begins to follow it: with Listwatch the initial state of a
    /// watch, with etcd a range.
    pub(super) async fn whole(&mut self) -> Result<usize, Status> {
        match self {
            Self::Listwatch(service) => {
                let only = v1::InitialState {
                    only: true,
                    ..v1::InitialState::default()
                };
                let request = watch(Wanted::All, Start::InitialState(only));
                let mut stream = service.watch(request).await?.into_inner();
                let mut count = 0;
                while let Some(response) = stream.message().await? {
                    count += response.events.len();
                }
                Ok(count)
            }
            Self::Etcd(kv, _) => {
                let request = etcd::RangeRequest {
                    key: prefix(),
                    range_end: end(),
                    ..etcd::RangeRequest::default()
                };
                Ok(kv.range(request).await?.into_inner().kvs.len())
            }
        }
    }

    /// A watch with a stream of its own, of what comes from now on, or after a revision.
    pub(super) async fn watch(
        &mut self,
        wanted: Wanted,
        after: Option<i64>,
    ) -> Result<Stream, Status> {
        match self {
            Self::Listwatch(service) => {
                let start = after.map_or(Start::Now(true), Start::AfterRevision);
                let stream = service.watch(watch(wanted, start)).await?;
                Ok(Stream::Watch(stream.into_inner()))
            }
            Self::Etcd(..) => self.watch_many(&[wanted], after).await,
        }
    }

    /// Watches that share a stream.
    pub(super) async fn watch_many(
        &mut self,
        wanted: &[Wanted],
        after: Option<i64>,
    ) -> Result<Stream, Status> {
        match self {
            Self::Listwatch(service) => {
                let (requests, receiver) = mpsc::channel(wanted.len().max(1));
                for (watch_id, wanted) in (1..).zip(wanted) {
                    let start = after.map_or(Start::Now(true), Start::AfterRevision);
                    let kind = v1::watch_many_request::Kind::Watch(watch(*wanted, start));
                    let kind = Some(kind);
                    let _ = requests.try_send(v1::WatchManyRequest { watch_id, kind });
                }
                let stream = service.watch_many(ReceiverStream::new(receiver)).await?;
                Ok(Stream::WatchMany(stream.into_inner(), requests))
            }
            Self::Etcd(_, watches) => {
                let (requests, receiver) = mpsc::channel(wanted.len().max(1));
                for watch_id in (1..).take(wanted.len()) {
                    let create = etcd::WatchCreateRequest {
                        key: prefix(),
                        range_end: end(),
                        start_revision: after.map_or(0, |after| after + 1),
                        watch_id,
                    };
                    let create = etcd::watch_request::RequestUnion::CreateRequest(create);
                    let request_union = Some(create);
                    let _ = requests.try_send(etcd::WatchRequest { request_union });
                }
                let stream = watches.watch(ReceiverStream::new(receiver)).await?;
                Ok(Stream::Etcd(stream.into_inner(), requests))
            }
        }
    }

    /// The newest revision.
    pub(super) async fn revision(&mut self) -> Result<i64, Status> {
        match self {
            Self::Listwatch(service) => {
                let request = v1::ListRequest {
                    selector: Some(selector(Wanted::All)),
                    page_size: 1,
                    ..v1::ListRequest::default()
                };
                Ok(service.list(request).await?.into_inner().revision)
            }
            Self::Etcd(kv, _) => {
                let request = etcd::RangeRequest {
                    key: key(0),
                    ..etcd::RangeRequest::default()
                };
                let header = kv.range(request).await?.into_inner().header;
                Ok(header.map_or(0, |header| header.revision))
            }
        }
    }
}

/// The name of an object.
pub(super) fn name(number: usize) -> String {
    format!("k{number:08}")
}

fn key(number: usize) -> Bytes {
    format!("{COLLECTION}/{}", name(number)).into()
}

fn prefix() -> Bytes {
    format!("{COLLECTION}/").into()
}

/// The first key after those with the prefix.
fn end() -> Bytes {
    format!("{COLLECTION}0").into()
}

fn update(number: usize, shard: Option<usize>, value: Bytes) -> v1::UpdateRequest {
    let labels = shard.map(|shard| (LABEL.to_owned(), shard.to_string()));
    v1::UpdateRequest {
        resource: Some(v1::Resource {
            key: Some(v1::Key {
                collection: COLLECTION.into(),
                namespace: String::new(),
                name: name(number),
            }),
            labels: labels.into_iter().collect(),
            value,
            ..v1::Resource::default()
        }),
        allow_missing: true,
        ..v1::UpdateRequest::default()
    }
}

/// The selector of a watch.
pub(super) fn selector(wanted: Wanted) -> v1::Selector {
    let requirement = |operator: v1::LabelOperator, value: usize| v1::LabelRequirement {
        key: LABEL.into(),
        operator: operator.into(),
        values: vec![value.to_string()],
    };
    let labels = match wanted {
        Wanted::All => Vec::new(),
        Wanted::AllBut(number) => {
            // No object has a shard that far out.
            vec![requirement(
                v1::LabelOperator::NotIn,
                1_000_000_000 + number,
            )]
        }
        Wanted::Shard(shard) => vec![requirement(v1::LabelOperator::In, shard)],
    };
    v1::Selector {
        collection: COLLECTION.into(),
        labels,
        ..v1::Selector::default()
    }
}

fn watch(wanted: Wanted, start: Start) -> v1::WatchRequest {
    v1::WatchRequest {
        selector: Some(selector(wanted)),
        start: Some(start),
        ..v1::WatchRequest::default()
    }
}
