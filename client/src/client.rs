//! Typed calls.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::Stream;
use listwatch::v1::{
    BatchRequest, BatchResponse, CompactRequest, CompactResponse, CreateRequest, CreateResponse,
    DeleteRequest, DeleteResponse, ExportRequest, ExportResponse, GetRequest, GetResponse,
    GetStatusRequest, GetStatusResponse, ListRequest, ListResponse, ListWatchesRequest,
    ListWatchesResponse, UpdateRequest, UpdateResponse, WatchRequest, WatchResponse,
    admin_service_client::AdminServiceClient, list_watch_service_client::ListWatchServiceClient,
};
use rand::Rng as _;
use tonic::{Streaming, transport::Channel};

use crate::{
    connect::{CallSettings, ClientBuilder},
    error::ClientError,
    list::Pages,
    retry::unary,
};

/// A connection to a Listwatch server. Cheap to clone; clones share the connection.
///
/// Requests and answers are the messages of the API ([`crate::v1`]).
///
/// Unary calls are retried up to three times within the request timeout when the server is
/// unavailable or the connection breaks off. Writes too: each gets a random `request_id`
/// unless the caller gives one, under which the server does it once and repeats its answer.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    settings: Arc<CallSettings>,
}

impl Client {
    /// Connects to `http://host:port` or `host:port` with default settings.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] if the endpoint is malformed, [`ClientError::Connect`] if
    /// the server cannot be reached.
    pub async fn connect(endpoint: impl Into<String>) -> Result<Self, ClientError> {
        Self::builder().endpoint(endpoint).connect().await
    }

    /// For settings other than the defaults.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Calls over an existing channel with default settings, such as one over an in-memory
    /// transport made by [`tonic::transport::Endpoint::connect_with_connector`].
    #[must_use]
    pub fn from_channel(channel: Channel) -> Self {
        Self::with_settings(channel, CallSettings::default())
    }

    pub(crate) fn with_settings(channel: Channel, settings: CallSettings) -> Self {
        Self {
            channel,
            settings: Arc::new(settings),
        }
    }

    fn service(&self) -> ListWatchServiceClient<Channel> {
        ListWatchServiceClient::new(self.channel.clone())
            .max_decoding_message_size(self.settings.max_message_bytes)
    }

    fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel.clone())
            .max_decoding_message_size(self.settings.max_message_bytes)
    }

    /// Reads one object.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] if it is absent.
    pub async fn get(&self, request: GetRequest) -> Result<GetResponse, ClientError> {
        unary(self.settings.request_timeout, request, |request| {
            let mut service = self.service();
            async move { service.get(request).await }
        })
        .await
    }

    /// Reads one page; [`Client::list_all`] reads all.
    ///
    /// # Errors
    /// [`ClientError::Expired`] if the page's revision is compacted: start over.
    pub async fn list(&self, request: ListRequest) -> Result<ListResponse, ClientError> {
        unary(self.settings.request_timeout, request, |request| {
            let mut service = self.service();
            async move { service.list(request).await }
        })
        .await
    }

    /// Reads page after page of one snapshot, from `request.page_token` on.
    #[must_use]
    pub fn list_all(&self, request: ListRequest) -> Pages {
        Pages::new(self.clone(), request)
    }

    /// Writes a new object.
    ///
    /// # Errors
    /// [`ClientError::AlreadyExists`] if the key is taken.
    pub async fn create(&self, mut request: CreateRequest) -> Result<CreateResponse, ClientError> {
        ensure_request_id(&mut request.request_id);
        unary(self.settings.request_timeout, request, |request| {
            let mut service = self.service();
            async move { service.create(request).await }
        })
        .await
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// [`ClientError::Conflict`] if `if_revision` is not the object's revision,
    /// [`ClientError::NotFound`] if it is absent and `allow_missing` is not set.
    pub async fn update(&self, mut request: UpdateRequest) -> Result<UpdateResponse, ClientError> {
        ensure_request_id(&mut request.request_id);
        unary(self.settings.request_timeout, request, |request| {
            let mut service = self.service();
            async move { service.update(request).await }
        })
        .await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// [`ClientError::Conflict`] if `if_revision` or `if_uid` does not hold,
    /// [`ClientError::NotFound`] if it is absent and `allow_missing` is not set.
    pub async fn delete(&self, mut request: DeleteRequest) -> Result<DeleteResponse, ClientError> {
        ensure_request_id(&mut request.request_id);
        unary(self.settings.request_timeout, request, |request| {
            let mut service = self.service();
            async move { service.delete(request).await }
        })
        .await
    }

    /// Applies several writes at one revision, all or none.
    ///
    /// # Errors
    /// That of the first operation which cannot be done; then none was.
    pub async fn batch(&self, mut request: BatchRequest) -> Result<BatchResponse, ClientError> {
        ensure_request_id(&mut request.request_id);
        unary(self.settings.request_timeout, request, |request| {
            let mut service = self.service();
            async move { service.batch(request).await }
        })
        .await
    }

    /// Opens one watch as the server gives it. It ends when the server ends it; for one that
    /// goes on by itself see [`watcher`](crate::watcher()).
    ///
    /// # Errors
    /// See the reasons at [`crate::v1::ErrorReason`]; some come only with the first
    /// response.
    pub async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<ResponseStream<WatchResponse>, ClientError> {
        let inner = self.service().watch(request).await?.into_inner();
        Ok(ResponseStream { inner })
    }

    /// Drops history before a revision.
    ///
    /// # Errors
    /// [`ClientError::Expired`] or [`ClientError::FutureRevision`] if the revision is above
    /// the newest one.
    pub async fn compact(&self, request: CompactRequest) -> Result<CompactResponse, ClientError> {
        unary(self.settings.request_timeout, request, |request| {
            let mut admin = self.admin();
            async move { admin.compact(request).await }
        })
        .await
    }

    /// Revisions, sizes, limits and watch counts of the server.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn status(&self) -> Result<GetStatusResponse, ClientError> {
        unary(
            self.settings.request_timeout,
            GetStatusRequest {},
            |request| {
                let mut admin = self.admin();
                async move { admin.get_status(request).await }
            },
        )
        .await
    }

    /// Reads one page of the server's open watches: who watches what, since when, and how far
    /// behind it is.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn watches(
        &self,
        request: ListWatchesRequest,
    ) -> Result<ListWatchesResponse, ClientError> {
        unary(self.settings.request_timeout, request, |request| {
            let mut admin = self.admin();
            async move { admin.list_watches(request).await }
        })
        .await
    }

    /// Streams every object as of one revision. It is complete only if the last frame is
    /// the footer.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn export(&self) -> Result<ResponseStream<ExportResponse>, ClientError> {
        let inner = self.admin().export(ExportRequest {}).await?.into_inner();
        Ok(ResponseStream { inner })
    }
}

/// The responses of a streaming call. Dropping it cancels the call.
#[derive(Debug)]
pub struct ResponseStream<M> {
    inner: Streaming<M>,
}

impl<M> ResponseStream<M> {
    /// The next response; `None` when the server has ended the stream with OK.
    ///
    /// # Errors
    /// The status that the stream ended with.
    pub async fn message(&mut self) -> Result<Option<M>, ClientError> {
        Ok(self.inner.message().await?)
    }
}

impl<M> Stream for ResponseStream<M> {
    type Item = Result<M, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(Pin::new(&mut self.inner).poll_next(cx));
        Poll::Ready(item.map(|result| result.map_err(ClientError::from)))
    }
}

/// 128 random bits: two clients do not meet by chance within any server's window.
fn ensure_request_id(request_id: &mut String) {
    if request_id.is_empty() {
        *request_id = format!("{:032x}", rand::rng().random::<u128>());
    }
}
