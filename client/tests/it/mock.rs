//! A scripted server: the test holds every watch in its hands.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use hyper_util::rt::TokioIo;
use listwatch_client::{
    Client,
    v1::{
        self, Bookmark, BookmarkKind, Key, Resource, WatchEvent, WatchRequest, WatchResponse,
        list_watch_service_server::{ListWatchService, ListWatchServiceServer},
    },
};
use parking_lot::Mutex;
use tokio::{
    io::DuplexStream,
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_stream::wrappers::{ReceiverStream, UnboundedReceiverStream};
use tonic::{Code, Request, Response, Status, transport::Endpoint};
use tonic_types::{ErrorDetails, StatusExt as _};

pub(crate) use listwatch_client::v1::{EventType, watch_request::Start};

/// A unary call as the server saw it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) call: &'static str,
    pub(crate) request_id: String,
    pub(crate) page_token: String,
}

#[derive(Default)]
struct Unary {
    seen: Vec<Seen>,
    /// What the next calls fail with; then they succeed.
    failures: VecDeque<Option<Status>>,
    pages: VecDeque<v1::ListResponse>,
}

pub(crate) struct Mock {
    pub(crate) client: Client,
    watches: mpsc::UnboundedReceiver<WatchCall>,
    unary: Arc<Mutex<Unary>>,
}

/// A watch that waits for the test's decision.
pub(crate) struct WatchCall {
    pub(crate) request: WatchRequest,
    pub(crate) at: Instant,
    decision: oneshot::Sender<Result<Responses, Status>>,
}

type Responses = mpsc::Receiver<Result<WatchResponse, Status>>;

/// A watch that was accepted.
pub(crate) struct OpenWatch {
    sender: mpsc::Sender<Result<WatchResponse, Status>>,
}

struct Service {
    calls: mpsc::UnboundedSender<WatchCall>,
    unary: Arc<Mutex<Unary>>,
}

impl Mock {
    pub(crate) async fn start() -> Self {
        Self::with(Client::builder()).await
    }

    pub(crate) async fn with(builder: listwatch_client::ClientBuilder) -> Self {
        let (calls, watches) = mpsc::unbounded_channel();
        let unary = Arc::new(Mutex::new(Unary::default()));
        let service = Service {
            calls,
            unary: unary.clone(),
        };
        let (connections, incoming) = mpsc::unbounded_channel::<std::io::Result<DuplexStream>>();
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(ListWatchServiceServer::new(service))
                .serve_with_incoming(UnboundedReceiverStream::new(incoming)),
        );
        let connector = tower::service_fn(move |_| {
            let (near, far) = tokio::io::duplex(256 * 1024);
            let sent = connections.send(Ok(far));
            async move {
                sent.map_err(|_| std::io::Error::other("server gone"))?;
                Ok::<_, std::io::Error>(TokioIo::new(near))
            }
        });
        let channel = Endpoint::from_static("http://mock")
            .connect_with_connector(connector)
            .await
            .unwrap();
        Self {
            client: builder.client(channel),
            watches,
            unary,
        }
    }

    /// The next watch that the client opens, however long that takes.
    pub(crate) async fn next_watch(&mut self) -> WatchCall {
        self.watches
            .recv()
            .await
            .expect("the server runs as long as the test")
    }

    /// Whether the client opens no watch within this time.
    pub(crate) async fn no_watch_within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.watches.recv())
            .await
            .is_err()
    }

    pub(crate) fn fail_next(&self, failures: impl IntoIterator<Item = Status>) {
        self.unary
            .lock()
            .failures
            .extend(failures.into_iter().map(Some));
    }

    /// The next call succeeds, before failures that are added after this.
    pub(crate) fn succeed_next(&self) {
        self.unary.lock().failures.push_back(None);
    }

    pub(crate) fn pages(&self, pages: impl IntoIterator<Item = v1::ListResponse>) {
        self.unary.lock().pages.extend(pages);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.unary.lock().seen.clone()
    }
}

impl WatchCall {
    pub(crate) fn accept(self) -> OpenWatch {
        let (sender, receiver) = mpsc::channel(64);
        self.decision.send(Ok(receiver)).ok();
        OpenWatch { sender }
    }

    pub(crate) fn refuse(self, status: Status) {
        self.decision.send(Err(status)).ok();
    }

    /// The token that the client resumes from.
    pub(crate) fn token(&self) -> Option<&str> {
        match self.request.start.as_ref()? {
            Start::ResumeToken(token) => Some(token),
            _ => None,
        }
    }

    pub(crate) fn wants_initial_state(&self) -> bool {
        matches!(self.request.start, Some(Start::InitialState(_)))
    }
}

impl OpenWatch {
    pub(crate) async fn send(&self, events: Vec<WatchEvent>, bookmark: Option<Bookmark>) {
        self.sender
            .send(Ok(WatchResponse { events, bookmark }))
            .await
            .ok();
    }

    pub(crate) async fn bookmark(&self, kind: BookmarkKind, revision: i64) {
        self.send(vec![], Some(bookmark(kind, revision))).await;
    }

    /// An initial state of these objects.
    pub(crate) async fn initial_state(&self, revision: i64, objects: Vec<Resource>) {
        self.bookmark(BookmarkKind::InitialStateBegin, revision)
            .await;
        let events = objects
            .into_iter()
            .map(|o| event(EventType::Existing, o))
            .collect();
        self.send(
            events,
            Some(bookmark(BookmarkKind::InitialStateEnd, revision)),
        )
        .await;
    }

    /// Changes of one response, and the bookmark behind them.
    pub(crate) async fn changes(&self, revision: i64, events: Vec<WatchEvent>) {
        self.send(events, Some(bookmark(BookmarkKind::Progress, revision)))
            .await;
    }

    pub(crate) async fn fail(self, status: Status) {
        self.sender.send(Err(status)).await.ok();
    }

    /// Ends with OK.
    pub(crate) fn end(self) {}

    /// Until the client has dropped the stream.
    pub(crate) async fn dropped(&self) {
        self.sender.closed().await;
    }
}

pub(crate) fn bookmark(kind: BookmarkKind, revision: i64) -> Bookmark {
    Bookmark {
        revision,
        resume_token: format!("t{revision}"),
        kind: kind.into(),
        latest_revision: revision,
        coalesced_count: 0,
    }
}

pub(crate) fn event(kind: EventType, resource: Resource) -> WatchEvent {
    WatchEvent {
        r#type: kind.into(),
        resource: Some(resource),
        ..WatchEvent::default()
    }
}

pub(crate) fn object(name: &str, uid: &str, revision: i64, value: &str) -> Resource {
    Resource {
        key: Some(Key {
            collection: "things".into(),
            namespace: "n".into(),
            name: name.into(),
        }),
        uid: uid.into(),
        revision,
        create_revision: 1,
        value: value.as_bytes().to_vec().into(),
        ..Resource::default()
    }
}

/// A status as the server sends it.
pub(crate) fn refusal(code: Code, reason: &str, retry: Option<Duration>) -> Status {
    let mut details = ErrorDetails::new();
    let metadata = HashMap::from([("compact_revision".to_owned(), "7".to_owned())]);
    details.set_error_info(reason, "listwatch", metadata);
    if let Some(retry) = retry {
        details.set_retry_info(Some(retry));
    }
    Status::with_error_details(code, format!("mock: {reason}"), details)
}

impl Service {
    fn answer<R: Default>(
        &self,
        call: &'static str,
        request_id: String,
    ) -> Result<Response<R>, Status> {
        let mut unary = self.unary.lock();
        unary.seen.push(Seen {
            call,
            request_id,
            page_token: String::new(),
        });
        match unary.failures.pop_front().flatten() {
            Some(failure) => Err(failure),
            None => Ok(Response::new(R::default())),
        }
    }
}

#[async_trait::async_trait]
impl ListWatchService for Service {
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;
    type WatchManyStream = ReceiverStream<Result<v1::WatchManyResponse, Status>>;

    async fn get(&self, _: Request<v1::GetRequest>) -> Result<Response<v1::GetResponse>, Status> {
        if self
            .unary
            .lock()
            .failures
            .front()
            .is_some_and(|f| f.as_ref().is_some_and(|f| f.message() == "never"))
        {
            std::future::pending::<()>().await;
        }
        self.answer("get", String::new())
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        let mut unary = self.unary.lock();
        unary.seen.push(Seen {
            call: "list",
            request_id: String::new(),
            page_token: request.into_inner().page_token,
        });
        if let Some(failure) = unary.failures.pop_front().flatten() {
            return Err(failure);
        }
        Ok(Response::new(unary.pages.pop_front().unwrap_or_default()))
    }

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (decision, decided) = oneshot::channel();
        let call = WatchCall {
            request: request.into_inner(),
            at: Instant::now(),
            decision,
        };
        self.calls.send(call).ok();
        match decided.await {
            Ok(Ok(responses)) => Ok(Response::new(ReceiverStream::new(responses))),
            Ok(Err(status)) => Err(status),
            Err(_) => Err(Status::unavailable("the test dropped the call")),
        }
    }

    async fn watch_many(
        &self,
        _: Request<tonic::Streaming<v1::WatchManyRequest>>,
    ) -> Result<Response<Self::WatchManyStream>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn create(
        &self,
        request: Request<v1::CreateRequest>,
    ) -> Result<Response<v1::CreateResponse>, Status> {
        self.answer("create", request.into_inner().request_id)
    }

    async fn update(
        &self,
        request: Request<v1::UpdateRequest>,
    ) -> Result<Response<v1::UpdateResponse>, Status> {
        self.answer("update", request.into_inner().request_id)
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteRequest>,
    ) -> Result<Response<v1::DeleteResponse>, Status> {
        self.answer("delete", request.into_inner().request_id)
    }

    async fn batch(
        &self,
        request: Request<v1::BatchRequest>,
    ) -> Result<Response<v1::BatchResponse>, Status> {
        self.answer("batch", request.into_inner().request_id)
    }
}
