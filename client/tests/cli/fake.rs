//! A server in a few lines, for what the command line promises whatever the server does:
//! objects in memory, real errors, and faults on request.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use futures::{Stream, StreamExt as _, stream};
use listwatch::v1::{
    admin_service_server::{AdminService, AdminServiceServer},
    list_watch_service_server::{ListWatchService, ListWatchServiceServer},
    watch_request::Start,
    *,
};
use prost::Message as _;
use tokio_stream::wrappers::{BroadcastStream, TcpListenerStream};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt as _};

type Id = (String, String, String);
type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What a running fake holds. Tests look into it and set faults.
pub(crate) struct State {
    pub(crate) objects: BTreeMap<Id, Resource>,
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    /// How many writes to refuse as if someone else had written in between.
    pub(crate) conflicts: usize,
    /// How many calls to refuse as not ready.
    pub(crate) not_ready: usize,
    /// The views that reads asked for.
    pub(crate) views: Vec<View>,
    /// The size of each batch.
    pub(crate) batches: Vec<usize>,
    /// Leaves the footer out of exports.
    pub(crate) cuts_exports: bool,
    /// Breaks off every open watch.
    pub(crate) break_watches: Arc<tokio::sync::Notify>,
    log: Vec<(String, WatchEvent)>,
    changed: tokio::sync::broadcast::Sender<(String, WatchEvent)>,
}

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Fake {
    /// Serves until the runtime ends.
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let state = State {
            objects: BTreeMap::new(),
            revision: 0,
            compacted: 0,
            conflicts: 0,
            not_ready: 0,
            views: vec![],
            batches: vec![],
            cuts_exports: false,
            break_watches: Arc::default(),
            log: vec![],
            changed: tokio::sync::broadcast::channel(1000).0,
        };
        let fake = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::new(Mutex::new(state)),
        };
        let server = tonic::transport::Server::builder()
            .add_service(ListWatchServiceServer::new(fake.clone()))
            .add_service(AdminServiceServer::new(fake.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(server);
        fake
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// `collection/namespace/name` of everything stored.
    pub(crate) fn names(&self) -> Vec<String> {
        let state = self.state();
        state
            .objects
            .keys()
            .map(|(c, ns, name)| format!("{c}/{ns}/{name}"))
            .collect()
    }

    fn ready(&self) -> Result<MutexGuard<'_, State>, Status> {
        let mut state = self.state();
        if state.not_ready > 0 {
            state.not_ready -= 1;
            let mut details = ErrorDetails::with_retry_info(Some(Duration::from_millis(20)));
            details.set_error_info("NOT_READY", listwatch::ERROR_DOMAIN, HashMap::new());
            return Err(Status::with_error_details(
                Code::Unavailable,
                "starting",
                details,
            ));
        }
        Ok(state)
    }
}

fn fault(code: Code, reason: &str, message: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, listwatch::ERROR_DOMAIN, HashMap::new());
    Status::with_error_details(code, message, details)
}

fn id(key: Option<&Key>) -> Id {
    let key = key.cloned().unwrap_or_default();
    (key.collection, key.namespace, key.name)
}

fn viewed(mut resource: Resource, view: i32) -> Resource {
    match View::try_from(view) {
        Ok(View::Metadata) => resource.value.clear(),
        Ok(View::Key) => {
            resource = Resource {
                key: resource.key,
                uid: resource.uid,
                revision: resource.revision,
                ..Resource::default()
            };
        }
        _ => {}
    }
    resource
}

fn matches(selector: &Selector, resource: &Resource) -> bool {
    let key = resource.key.clone().unwrap_or_default();
    let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    is(&selector.collection, &key.collection)
        && is(&selector.namespace, &key.namespace)
        && is(&selector.name, &key.name)
        && selector.labels.iter().all(|wanted| {
            let found = resource.labels.get(&wanted.key);
            let named = found.is_some_and(|value| wanted.values.contains(value));
            match wanted.operator() {
                LabelOperator::In => named,
                LabelOperator::NotIn => !named,
                LabelOperator::Exists => found.is_some(),
                _ => found.is_none(),
            }
        })
}

impl State {
    fn write(&mut self, request: UpdateRequest, must_be_new: bool) -> Result<Resource, Status> {
        let mut resource = request.resource.unwrap_or_default();
        let id = id(resource.key.as_ref());
        if id.2.contains("refused") {
            return Err(fault(
                Code::InvalidArgument,
                "FIELD_INVALID",
                "name is not allowed",
            ));
        }
        let old = self.objects.get(&id);
        match (old, request.if_revision) {
            (Some(_), _) if must_be_new => {
                return Err(fault(
                    Code::AlreadyExists,
                    "OBJECT_EXISTS",
                    "is there already",
                ));
            }
            (None, _) if !must_be_new && !request.allow_missing => return Err(not_found()),
            (Some(old), Some(revision)) if old.revision != revision || self.conflicts > 0 => {
                self.conflicts = self.conflicts.saturating_sub(1);
                return Err(fault(
                    Code::Aborted,
                    "REVISION_MISMATCH",
                    "has another revision",
                ));
            }
            _ => {}
        }
        self.revision += 1;
        let created = old.map(|old| (old.uid.clone(), old.create_revision));
        let is_new = created.is_none();
        let (uid, create_revision) =
            created.unwrap_or_else(|| (format!("uid-{}", self.revision), self.revision));
        resource.uid = uid;
        resource.create_revision = create_revision;
        resource.revision = self.revision;
        resource.update_time = Some(SystemTime::now().into());
        self.objects.insert(id.clone(), resource.clone());
        let kind = if is_new {
            EventType::Added
        } else {
            EventType::Modified
        };
        self.log(id.0, kind, resource.clone());
        resource.value.clear();
        Ok(resource)
    }

    fn log(&mut self, collection: String, kind: EventType, resource: Resource) {
        let event = WatchEvent {
            r#type: kind as i32,
            resource: Some(resource),
            ..WatchEvent::default()
        };
        self.log.push((collection.clone(), event.clone()));
        let _ = self.changed.send((collection, event));
    }

    fn check_revision(&self, consistency: Option<Consistency>) -> Result<(), Status> {
        match consistency.and_then(|it| it.kind) {
            Some(consistency::Kind::ExactRevision(it)) if it < self.compacted => Err(fault(
                Code::OutOfRange,
                "REVISION_COMPACTED",
                "is compacted",
            )),
            _ => Ok(()),
        }
    }
}

fn not_found() -> Status {
    fault(Code::NotFound, "OBJECT_NOT_FOUND", "no such object")
}

fn bookmark(kind: BookmarkKind, revision: i64) -> WatchResponse {
    WatchResponse {
        events: vec![],
        bookmark: Some(Bookmark {
            revision,
            resume_token: format!("r{revision}"),
            kind: kind as i32,
            latest_revision: revision,
            coalesced_count: 0,
        }),
    }
}

#[tonic::async_trait]
impl ListWatchService for Fake {
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.ready()?;
        state.views.push(request.view());
        let found = state
            .objects
            .get(&id(request.key.as_ref()))
            .ok_or_else(not_found)?;
        let resource = Some(viewed(found.clone(), request.view));
        Ok(Response::new(GetResponse {
            resource,
            revision: state.revision,
        }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.ready()?;
        state.views.push(request.view());
        state.check_revision(request.consistency)?;
        let selector = request.selector.unwrap_or_default();
        let size = if request.page_size == 0 {
            1000
        } else {
            request.page_size as usize
        };
        let start: usize = request.page_token.parse().unwrap_or(0);
        let all: Vec<_> = state
            .objects
            .values()
            .filter(|it| matches(&selector, it))
            .collect();
        let page = all.iter().skip(start).take(size);
        let next = start + size;
        Ok(Response::new(ListResponse {
            resources: page.map(|it| viewed((*it).clone(), request.view)).collect(),
            next_page_token: if next < all.len() {
                next.to_string()
            } else {
                String::new()
            },
            revision: state.revision,
            resume_token: format!("r{}", state.revision),
            remaining_count: None,
        }))
    }

    type WatchStream = Events<WatchResponse>;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let state = self.ready()?;
        let selector = request.selector.clone().unwrap_or_default();
        let view = request.view;
        let (after, only) = match request.start {
            Some(Start::ResumeToken(token)) => {
                let revision = token.strip_prefix('r').and_then(|it| it.parse().ok());
                let bad = || {
                    fault(
                        Code::InvalidArgument,
                        "TOKEN_INVALID",
                        "no token of this store",
                    )
                };
                (Some(revision.ok_or_else(bad)?), false)
            }
            Some(Start::AfterRevision(revision)) => (Some(revision), false),
            Some(Start::Now(_)) => (Some(state.revision), false),
            Some(Start::InitialState(initial)) => (None, initial.only),
            None => (None, false),
        };
        if after.is_some_and(|after| after < state.compacted) {
            return Err(fault(
                Code::OutOfRange,
                "REVISION_COMPACTED",
                "is compacted",
            ));
        }
        let shown = move |(_, mut event): (String, WatchEvent)| {
            let resource = event.resource.take().filter(|it| matches(&selector, it))?;
            event.resource = Some(viewed(resource, view));
            Some(event)
        };
        let mut first = vec![];
        match after {
            Some(after) => {
                first.push(bookmark(BookmarkKind::Resumed, after));
                let missed = state.log.iter().filter(|(_, event)| {
                    event
                        .resource
                        .as_ref()
                        .is_some_and(|it| it.revision > after)
                });
                let events = missed.cloned().filter_map(&shown).collect();
                first.push(WatchResponse {
                    events,
                    bookmark: None,
                });
            }
            None => {
                first.push(bookmark(BookmarkKind::InitialStateBegin, state.revision));
                let existing = state.objects.values().map(|resource| {
                    let event = WatchEvent {
                        r#type: EventType::Existing as i32,
                        resource: Some(resource.clone()),
                        ..WatchEvent::default()
                    };
                    (String::new(), event)
                });
                let events = existing.filter_map(&shown).collect();
                first.push(WatchResponse {
                    events,
                    bookmark: None,
                });
                first.push(bookmark(BookmarkKind::InitialStateEnd, state.revision));
            }
        }
        let first = stream::iter(first.into_iter().map(Ok));
        if only {
            return Ok(Response::new(first.boxed()));
        }
        let changes = BroadcastStream::new(state.changed.subscribe()).filter_map(move |event| {
            let event = event.ok().and_then(&shown);
            async move {
                event.map(|it| {
                    Ok(WatchResponse {
                        events: vec![it],
                        bookmark: None,
                    })
                })
            }
        });
        let broken = state.break_watches.clone().notified_owned();
        let end = stream::iter([Err(Status::unavailable("broken off"))]);
        Ok(Response::new(
            first.chain(changes).take_until(broken).chain(end).boxed(),
        ))
    }

    type WatchManyStream = Events<WatchManyResponse>;

    async fn watch_many(
        &self,
        _: Request<Streaming<WatchManyRequest>>,
    ) -> Result<Response<Self::WatchManyStream>, Status> {
        Err(Status::unimplemented("the command line has no use for it"))
    }

    async fn create(
        &self,
        request: Request<CreateRequest>,
    ) -> Result<Response<CreateResponse>, Status> {
        let CreateRequest { resource, .. } = request.into_inner();
        let update = UpdateRequest {
            resource,
            ..UpdateRequest::default()
        };
        let resource = Some(self.ready()?.write(update, true)?);
        Ok(Response::new(CreateResponse { resource }))
    }

    async fn update(
        &self,
        request: Request<UpdateRequest>,
    ) -> Result<Response<UpdateResponse>, Status> {
        let resource = Some(self.ready()?.write(request.into_inner(), false)?);
        Ok(Response::new(UpdateResponse { resource }))
    }

    async fn delete(
        &self,
        request: Request<DeleteRequest>,
    ) -> Result<Response<DeleteResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.ready()?;
        let id = id(request.key.as_ref());
        let Some(mut resource) = state.objects.remove(&id) else {
            return match request.allow_missing {
                true => Ok(Response::new(DeleteResponse { resource: None })),
                false => Err(not_found()),
            };
        };
        state.revision += 1;
        resource.revision = state.revision;
        state.log(id.0, EventType::Deleted, resource.clone());
        Ok(Response::new(DeleteResponse {
            resource: Some(resource),
        }))
    }

    async fn batch(
        &self,
        request: Request<BatchRequest>,
    ) -> Result<Response<BatchResponse>, Status> {
        let operations = request.into_inner().operations;
        let mut state = self.ready()?;
        state.batches.push(operations.len());
        let before = (state.objects.clone(), state.revision);
        let mut resources = vec![];
        for operation in operations {
            let Some(batch_operation::Kind::Update(update)) = operation.kind else {
                return Err(Status::unimplemented("only updates"));
            };
            match state.write(update, false) {
                Ok(resource) => resources.push(resource),
                Err(status) => {
                    (state.objects, state.revision) = before;
                    return Err(status);
                }
            }
        }
        Ok(Response::new(BatchResponse {
            revision: state.revision,
            resources,
        }))
    }
}

#[tonic::async_trait]
impl AdminService for Fake {
    async fn compact(
        &self,
        request: Request<CompactRequest>,
    ) -> Result<Response<CompactResponse>, Status> {
        let mut state = self.ready()?;
        state.compacted = request.into_inner().revision;
        Ok(Response::new(CompactResponse {
            compact_revision: state.compacted,
        }))
    }

    async fn list_watches(
        &self,
        _: Request<ListWatchesRequest>,
    ) -> Result<Response<ListWatchesResponse>, Status> {
        Err(Status::unimplemented("the fake has no list of watches"))
    }

    async fn get_status(
        &self,
        _: Request<GetStatusRequest>,
    ) -> Result<Response<GetStatusResponse>, Status> {
        let state = self.ready()?;
        Ok(Response::new(GetStatusResponse {
            version: "fake".into(),
            revision: state.revision,
            object_count: state.objects.len() as i64,
            limits: Some(Limits {
                max_batch_operations: 2,
                ..Limits::default()
            }),
            collections: vec![CollectionStatus {
                collection: "pods".into(),
                ..CollectionStatus::default()
            }],
            ..GetStatusResponse::default()
        }))
    }

    type ExportStream = Events<ExportResponse>;

    async fn export(
        &self,
        _: Request<ExportRequest>,
    ) -> Result<Response<Self::ExportStream>, Status> {
        use export_response::Kind;
        let state = self.ready()?;
        let mut checksum = xxhash_rust::xxh3::Xxh3Default::new();
        let mut frames = vec![Kind::Header(ExportHeader {
            format_version: 1,
            revision: state.revision,
            ..ExportHeader::default()
        })];
        for resource in &state.objects {
            let bytes = resource.1.encode_to_vec();
            checksum.update(&(bytes.len() as u32).to_le_bytes());
            checksum.update(&bytes);
            frames.push(Kind::Objects(ExportObjects {
                resources: vec![resource.1.clone()],
            }));
        }
        if !state.cuts_exports {
            frames.push(Kind::Footer(ExportFooter {
                object_count: state.objects.len() as i64,
                checksum: checksum.digest(),
                ..ExportFooter::default()
            }));
        }
        let frames = frames
            .into_iter()
            .map(|kind| Ok(ExportResponse { kind: Some(kind) }));
        Ok(Response::new(
            stream::iter(frames.collect::<Vec<_>>()).boxed(),
        ))
    }
}
