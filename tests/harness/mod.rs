//! A server and a client for one test, and short words for requests.

pub mod daemon;
pub mod dice;
pub mod faulty;
pub mod strace;
pub mod tools;

use std::{collections::HashMap, sync::Arc, time::Duration};

use listwatch::v1::{
    self, list_watch_service_client::ListWatchServiceClient, watch_request::Start,
};
use listwatch_client::Client;
use listwatch_server::{
    Server, ServerHandle, ServerOptions,
    hub::HubOptions,
    store::{
        Collection, Content, DeleteCause, Key, MemoryStore, Operation, PutCondition, Store,
        StoreOptions, WriteBatch,
    },
};
use tonic::{
    Streaming,
    transport::{Channel, Endpoint},
};

/// A server over a store that the test holds too.
pub struct Harness {
    pub server: ServerHandle,
    pub store: Arc<dyn Store>,
    pub client: Client,
    /// The bare stubs, for what the client would not send.
    pub raw: ListWatchServiceClient<Channel>,
}

impl Harness {
    /// In memory, with default options, reached over memory.
    pub async fn start() -> Self {
        Self::with(ServerOptions::default(), StoreOptions::default()).await
    }

    pub async fn with(options: ServerOptions, store: StoreOptions) -> Self {
        Self::over(Arc::new(MemoryStore::new(store)), options).await
    }

    pub async fn over(store: Arc<dyn Store>, options: ServerOptions) -> Self {
        let server = Server::builder()
            .store(store.clone())
            .options(options)
            .start()
            .await
            .unwrap();
        let channel = Endpoint::from_static("http://in-memory")
            .connect_with_connector(server.in_memory())
            .await
            .unwrap();
        let client = Client::from_channel(channel.clone());
        let raw = ListWatchServiceClient::new(channel).max_decoding_message_size(64 << 20);
        Self {
            server,
            store,
            client,
            raw,
        }
    }

    /// Writes an object, whatever was there, and returns it.
    pub async fn put(&self, collection: &str, name: &str, value: &str) -> v1::Resource {
        self.put_labelled(collection, name, value, &[]).await
    }

    pub async fn put_labelled(
        &self,
        collection: &str,
        name: &str,
        value: &str,
        labels: &[(&str, &str)],
    ) -> v1::Resource {
        let request = v1::UpdateRequest {
            resource: Some(resource(collection, name, value, labels)),
            allow_missing: true,
            ..v1::UpdateRequest::default()
        };
        self.client.update(request).await.unwrap().resource.unwrap()
    }

    pub async fn delete(&self, collection: &str, name: &str) -> v1::Resource {
        let key = Some(key(collection, name));
        let request = v1::DeleteRequest {
            key,
            ..v1::DeleteRequest::default()
        };
        self.client.delete(request).await.unwrap().resource.unwrap()
    }

    pub async fn list(&self, collection: &str) -> v1::ListResponse {
        let selector = Some(everything(collection));
        let request = v1::ListRequest {
            selector,
            ..v1::ListRequest::default()
        };
        self.client.list(request).await.unwrap()
    }

    /// All pages of a list.
    pub async fn pages(&self, selector: v1::Selector, page_size: i32) -> Vec<v1::ListResponse> {
        let mut pages = Vec::new();
        let mut request = v1::ListRequest {
            selector: Some(selector),
            page_size,
            ..v1::ListRequest::default()
        };
        loop {
            let page = self.client.list(request.clone()).await.unwrap();
            request.page_token.clone_from(&page.next_page_token);
            pages.push(page);
            if request.page_token.is_empty() {
                return pages;
            }
        }
    }

    /// Deletes without giving the server a turn first.
    pub async fn delete_in_store(&self, collection: &str, name: &str) {
        let operation = Operation::Delete {
            key: Key::new(collection, "default", name).unwrap(),
            if_revision: None,
            if_uid: None,
            allow_missing: false,
            cause: DeleteCause::Request,
        };
        let batch = WriteBatch {
            operations: vec![operation],
            request: None,
            ..WriteBatch::default()
        };
        self.store.commit(batch).await.unwrap();
    }

    /// Writes an object without an RPC.
    pub async fn put_in_store(&self, collection: &str, name: &str) {
        let operation = Operation::Put {
            key: Key::new(collection, "default", name).unwrap(),
            condition: PutCondition::Any,
            content: Content::default(),
        };
        let batch = WriteBatch {
            operations: vec![operation],
            request: None,
            ..WriteBatch::default()
        };
        self.store.commit(batch).await.unwrap();
    }

    /// Writes at one revision, which it returns.
    pub async fn batch(&self, operations: Vec<v1::batch_operation::Kind>) -> i64 {
        let operations = operations
            .into_iter()
            .map(|kind| v1::BatchOperation { kind: Some(kind) })
            .collect();
        let request = v1::BatchRequest {
            operations,
            ..v1::BatchRequest::default()
        };
        self.client.batch(request).await.unwrap().revision
    }

    /// What the server says of one collection.
    pub async fn collection_status(&self, collection: &str) -> v1::CollectionStatus {
        let status = self.client.status().await.unwrap();
        let mut collections = status.collections.into_iter();
        collections
            .find(|c| c.collection == collection)
            .unwrap_or_default()
    }

    /// The newest revision.
    pub fn revision(&self) -> i64 {
        self.store.progress().revision.to_wire()
    }

    /// Opens a watch with the bare stub.
    pub async fn watch(&self, request: v1::WatchRequest) -> Result<Watching, tonic::Status> {
        let stream = self.raw.clone().watch(request).await?.into_inner();
        Ok(Watching { stream })
    }

    /// A watch of a collection from its present state.
    pub async fn watch_all(&self, collection: &str) -> Watching {
        self.watch(watch(collection, None)).await.unwrap()
    }

    /// A watch of a collection from a token.
    pub async fn resume(&self, collection: &str, token: &str) -> Watching {
        let start = Some(Start::ResumeToken(token.to_owned()));
        self.watch(watch(collection, start)).await.unwrap()
    }

    pub async fn compact(&self, revision: i64) {
        let request = v1::CompactRequest {
            revision,
            wait: true,
        };
        self.client.compact(request).await.unwrap();
    }
}

/// An open watch.
pub struct Watching {
    stream: Streaming<v1::WatchResponse>,
}

/// Part of a batch: writes an object, whatever was there.
pub fn put(resource: v1::Resource) -> v1::batch_operation::Kind {
    v1::batch_operation::Kind::Update(v1::UpdateRequest {
        resource: Some(resource),
        allow_missing: true,
        ..v1::UpdateRequest::default()
    })
}

/// Part of a batch: deletes an object.
pub fn remove(key: v1::Key) -> v1::batch_operation::Kind {
    v1::batch_operation::Kind::Delete(v1::DeleteRequest {
        key: Some(key),
        ..v1::DeleteRequest::default()
    })
}

/// Long enough for any step of a test on a busy machine; only a failure waits for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

impl Watching {
    /// A stream that was opened otherwise.
    pub fn over(stream: Streaming<v1::WatchResponse>) -> Self {
        Self { stream }
    }

    /// The next response; `None`: the watch has ended well.
    pub async fn next(&mut self) -> Result<Option<v1::WatchResponse>, tonic::Status> {
        let next = tokio::time::timeout(PATIENCE, self.stream.message()).await;
        next.expect("the watch is silent")
    }

    /// The same, for a watch that may be silent for longer.
    pub async fn next_within(
        &mut self,
        patience: Duration,
    ) -> Result<Option<v1::WatchResponse>, tonic::Status> {
        let next = tokio::time::timeout(patience, self.stream.message()).await;
        next.expect("the watch is silent")
    }

    /// Responses up to the first with a bookmark of this kind, that one included.
    pub async fn until(&mut self, kind: v1::BookmarkKind) -> Vec<v1::WatchResponse> {
        self.read_to_bookmark(|bookmark| bookmark.kind() == kind)
            .await
    }

    /// Responses until everything up to a revision has been promised.
    pub async fn through(&mut self, revision: i64) -> Vec<v1::WatchResponse> {
        self.read_to_bookmark(|bookmark| bookmark.revision >= revision)
            .await
    }

    async fn read_to_bookmark(
        &mut self,
        wanted: impl Fn(&v1::Bookmark) -> bool,
    ) -> Vec<v1::WatchResponse> {
        let mut responses = Vec::new();
        // A watch that goes on without ever coming to it must not keep a test for ever.
        let all = tokio::time::timeout(2 * PATIENCE, async {
            loop {
                let response = self.next().await.unwrap().expect("the watch ended");
                let done = response.bookmark.as_ref().is_some_and(&wanted);
                responses.push(response);
                if done {
                    return;
                }
            }
        });
        if all.await.is_err() {
            let seen = short(&responses);
            panic!("not within {} responses: {seen:?}", responses.len());
        }
        responses
    }
}

/// Short form of the events of some responses: `+a@5` added, `~a@6` modified, `-a@7`
/// deleted, `=a@3` existing, `^a@9` upserted, `.a@2` unchanged.
pub fn short(responses: &[v1::WatchResponse]) -> Vec<String> {
    let events = responses.iter().flat_map(|response| &response.events);
    events
        .map(|event| {
            let sign = match event.r#type() {
                v1::EventType::Existing => '=',
                v1::EventType::Added => '+',
                v1::EventType::Modified => '~',
                v1::EventType::Deleted => '-',
                v1::EventType::Unchanged => '.',
                v1::EventType::Upserted => '^',
                v1::EventType::Unspecified => '?',
            };
            let resource = event.resource.as_ref().unwrap();
            format!(
                "{sign}{}@{}",
                resource.key.as_ref().unwrap().name,
                resource.revision
            )
        })
        .collect()
}

/// The kinds of the bookmarks of some responses, in order.
pub fn kinds(responses: &[v1::WatchResponse]) -> Vec<v1::BookmarkKind> {
    let bookmarks = responses.iter().filter_map(|r| r.bookmark.as_ref());
    bookmarks.map(v1::Bookmark::kind).collect()
}

/// The last bookmark's resume token.
pub fn token(responses: &[v1::WatchResponse]) -> String {
    let mut bookmarks = responses
        .iter()
        .filter_map(|response| response.bookmark.as_ref());
    bookmarks
        .next_back()
        .expect("a bookmark")
        .resume_token
        .clone()
}

pub fn key(collection: &str, name: &str) -> v1::Key {
    v1::Key {
        collection: collection.into(),
        namespace: "default".into(),
        name: name.into(),
    }
}

pub fn resource(
    collection: &str,
    name: &str,
    value: &str,
    labels: &[(&str, &str)],
) -> v1::Resource {
    v1::Resource {
        key: Some(key(collection, name)),
        value: value.as_bytes().to_vec().into(),
        labels: labels
            .iter()
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect(),
        ..v1::Resource::default()
    }
}

pub fn everything(collection: &str) -> v1::Selector {
    v1::Selector {
        collection: collection.into(),
        ..v1::Selector::default()
    }
}

pub fn watch(collection: &str, start: Option<Start>) -> v1::WatchRequest {
    let selector = Some(everything(collection));
    v1::WatchRequest {
        selector,
        start,
        ..v1::WatchRequest::default()
    }
}

/// One label that must have one value.
pub fn labelled(collection: &str, label: &str, value: &str) -> v1::Selector {
    v1::Selector {
        labels: vec![v1::LabelRequirement {
            key: label.into(),
            operator: v1::LabelOperator::In.into(),
            values: vec![value.into()],
        }],
        ..everything(collection)
    }
}

/// A duration as the API takes it.
pub fn millis(millis: u64) -> Option<prost_types::Duration> {
    Duration::from_millis(millis).try_into().ok()
}

/// The machine-readable reason of an error.
pub fn reason(status: &tonic::Status) -> String {
    use tonic_types::StatusExt as _;
    status
        .get_error_details()
        .error_info()
        .map(|info| info.reason.clone())
        .unwrap_or_default()
}

/// The options with a change.
pub fn options(change: impl FnOnce(&mut ServerOptions)) -> ServerOptions {
    let mut options = ServerOptions::default();
    change(&mut options);
    options
}

/// No cache for `pods`: everything comes from the log.
pub fn uncached() -> ServerOptions {
    let pods = Collection::new("pods").unwrap();
    options(|o| o.hub.cache_sizes = HashMap::from([(pods, 0)]))
}

/// A window of one event that never grows.
pub fn narrow() -> HubOptions {
    HubOptions {
        default_cache_size: 1,
        window_span: Duration::ZERO,
        ..HubOptions::default()
    }
}

/// The events of responses.
pub fn events(responses: &[v1::WatchResponse]) -> Vec<&v1::WatchEvent> {
    responses.iter().flat_map(|r| &r.events).collect()
}
