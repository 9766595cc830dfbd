//! Kubernetes' wire format over the same store, on the same port: HTTP with JSON, so that
//! `kubectl` and the clients of Kubernetes work unchanged.

mod accept;
mod amend;
mod body;
mod cause;
mod definitions;
mod discovery;
mod doubled;
mod field_path;
mod fields;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod kinds;
mod labels;
mod list;
mod media;
mod messages;
mod names;
mod object;
mod openapi;
mod pages;
mod patch;
mod path;
mod query;
mod remove;
mod respond;
mod rules;
mod scale;
mod selector;
mod status;
mod strict;
mod table;
mod validation;
mod view;
mod watch;
mod write;
mod yaml;

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Either},
};
use http::{HeaderMap, Method, Request, Response};
use tonic::body::Body;
use tower::{Layer, Service as TowerService};

pub(crate) use self::kinds::Kinds;
pub use self::kinds::{DeclarationError, DeclaredKind};
use self::{
    accept::Accepted,
    definitions::Definitions,
    path::{Part, Place, Target},
    query::Query,
    status::{Failed, Failure},
    write::Scope,
};
use crate::{
    hub::Hub,
    metrics::{HttpFigures, HttpVerb},
    refusals::{Refusal, Refusals},
    selector::SelectableFields,
    service::{Connection, RequestLimitLayer, Service},
    store::Store,
};

/// Answers the paths of Kubernetes itself and passes everything else on.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    service: Service,
    /// Calls take the same seats as those over gRPC.
    calls: RequestLimitLayer,
    timeout: Duration,
    refusals: Arc<Refusals>,
    kinds: Arc<Kinds>,
    definitions: Arc<Definitions>,
    figures: Arc<HttpFigures>,
}

impl Gateway {
    pub(crate) fn new(
        service: Service,
        calls: RequestLimitLayer,
        timeout: Duration,
        refusals: Arc<Refusals>,
        kinds: Kinds,
    ) -> Self {
        Self {
            service,
            calls,
            timeout,
            refusals,
            kinds: Arc::new(kinds),
            definitions: Arc::default(),
            figures: Arc::default(),
        }
    }

    /// What requests were answered, in numbers.
    pub(crate) fn figures(&self) -> Arc<HttpFigures> {
        self.figures.clone()
    }

    fn hub(&self) -> &Arc<Hub> {
        self.service.hub()
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.service.store()
    }

    async fn answer(self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let connection = Connection::of(&parts.extensions);
        connection.introduce(&parts.headers);
        let mut counted = self.figures.begin();
        let asked = async {
            let query = Query::parse(parts.uri.query().unwrap_or_default())?;
            let target = match self.place(parts.uri.path()).await? {
                Place::Target(target) => target,
                Place::Page(segments) => {
                    counted.is(HttpVerb::Discovery);
                    return self.page(&parts.method, &segments, &parts.headers);
                }
            };
            let asked = Asked {
                method: &parts.method,
                headers: &parts.headers,
                accepted: Accepted::of(&parts.headers)?,
                query,
                target,
            };
            let verb = Verb::of(&asked)?;
            counted.is(verb.counted());
            self.serve(verb, &asked, body, connection).await
        };
        // A panic would end the response without a word.
        let response = match AssertUnwindSafe(asked).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(failed)) => failed.to_response(),
            Err(_) => Failure::internal("the server failed; its log says how").to_response(),
        };
        counted.answered(response.status());
        response
    }

    async fn place(&self, path: &str) -> Result<Place, Failed> {
        self.take_up_definitions().await?;
        match path::place(path, &self.kinds) {
            // It may be of a definition that was written a moment ago.
            Err(failed) if failed.is_not_found() => {
                self.hub().settle().await?;
                self.take_up_definitions().await?;
                path::place(path, &self.kinds)
            }
            place => place,
        }
    }

    async fn serve(
        &self,
        verb: Verb,
        asked: &Asked<'_>,
        body: Body,
        connection: Arc<Connection>,
    ) -> Result<Response<Body>, Failed> {
        // Watches have seats of their own; so neither can take the other's place.
        let seat = match verb {
            Verb::Watch => None,
            _ => {
                let mutates = verb.mutates();
                let what = if mutates { "mutating" } else { "reading" };
                let seat = self.calls.seat(mutates);
                Some(seat.map_err(|max| Failure::too_many_requests(max, what))?)
            }
        };
        let answer = self.carry_out(verb, asked, body, connection);
        let answer = tokio::time::timeout(self.timeout, answer).await;
        drop(seat);
        answer.unwrap_or_else(|_elapsed| {
            self.refusals.add(Refusal::Deadline);
            Err(Failure::timeout(self.timeout))
        })
    }

    async fn carry_out(
        &self,
        verb: Verb,
        asked: &Asked<'_>,
        body: Body,
        connection: Arc<Connection>,
    ) -> Result<Response<Body>, Failed> {
        let is_scale = matches!(asked.target.object, Part::Scale(_));
        match verb {
            Verb::Get if is_scale => self.get_scale(asked).await,
            Verb::Update if is_scale => self.update_scale(asked, body).await,
            Verb::Patch if is_scale => self.amend_scale(asked, body).await,
            Verb::Get => self.get(asked).await,
            Verb::List => self.list(asked).await,
            Verb::Watch => self.watch(asked, connection).await,
            Verb::Create => self.create(asked, body).await,
            Verb::Update => self.update(asked, body).await,
            Verb::Patch => self.amend(asked, body).await,
            Verb::Delete => self.delete(asked, body).await,
            Verb::DeleteCollection => self.delete_collection(asked, body).await,
        }
    }
}

/// A request for objects, before its body.
struct Asked<'a> {
    method: &'a Method,
    headers: &'a HeaderMap,
    accepted: Accepted,
    query: Query,
    target: Target,
}

impl Asked<'_> {
    /// The object's name; empty for a collection.
    fn name(&self) -> &str {
        match &self.target.object {
            Part::Collection => "",
            Part::Object(name) | Part::Status(name) | Part::Scale(name) => name,
        }
    }

    /// Which part of the object it is about.
    fn scope(&self) -> Scope {
        match &self.target.object {
            Part::Collection | Part::Object(_) | Part::Scale(_) => Scope::Main,
            Part::Status(_) => Scope::Status,
        }
    }
}

/// What is asked of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    fn of(asked: &Asked<'_>) -> Result<Self, Failed> {
        let target = &asked.target;
        let watches = target.watches || asked.query.flag("watch").unwrap_or(false);
        let is_everywhere = target.kind.namespaced && target.namespace.is_empty();
        let (name, verb) = match (&target.object, asked.method) {
            (Part::Collection, &Method::GET) if watches => ("watch", Self::Watch),
            (Part::Object(_), &Method::GET) if target.watches => ("watch", Self::Watch),
            _ if target.watches => return Err(Failure::method_not_allowed()),
            (Part::Collection, &Method::GET) => ("list", Self::List),
            // In one namespace only.
            (Part::Collection, _) if is_everywhere => return Err(Failure::method_not_allowed()),
            (Part::Collection, &Method::POST) => ("create", Self::Create),
            (Part::Collection, &Method::DELETE) => ("deletecollection", Self::DeleteCollection),
            (Part::Collection, _) => return Err(Failure::method_not_allowed()),
            (_, &Method::GET) => ("get", Self::Get),
            (_, &Method::PUT) => ("update", Self::Update),
            (_, &Method::PATCH) => ("patch", Self::Patch),
            (Part::Object(_), &Method::DELETE) => ("delete", Self::Delete),
            _ => return Err(Failure::method_not_allowed()),
        };
        match target.kind.verbs.contains(&name) {
            true => Ok(verb),
            false => Err(Failure::method_not_allowed()),
        }
    }

    /// As metrics call it.
    fn counted(self) -> HttpVerb {
        match self {
            Self::Get => HttpVerb::Get,
            Self::List => HttpVerb::List,
            Self::Watch => HttpVerb::Watch,
            Self::Create => HttpVerb::Create,
            Self::Update => HttpVerb::Update,
            Self::Patch => HttpVerb::Patch,
            Self::Delete => HttpVerb::Delete,
            Self::DeleteCollection => HttpVerb::DeleteCollection,
        }
    }

    fn mutates(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// Declares what selectors may name of these kinds.
pub(crate) fn declare_fields(kinds: &Kinds, fields: &mut SelectableFields) {
    for kind in kinds.registry().kinds() {
        let declared = self::fields::declared(kind);
        if !declared.is_empty() {
            fields.declare_paths(kind.collection.clone(), declared);
        }
    }
}

impl<S> Layer<S> for Gateway {
    type Service = Gatewayed<S>;

    fn layer(&self, inner: S) -> Gatewayed<S> {
        Gatewayed {
            inner,
            gateway: self.clone(),
        }
    }
}

/// See [`Gateway`].
#[derive(Clone, Debug)]
pub(crate) struct Gatewayed<S> {
    inner: S,
    gateway: Gateway,
}

impl<S> TowerService<Request<Body>> for Gatewayed<S>
where
    S: TowerService<Request<Body>, Response = Response<Body>>,
    S::Error: 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !path::is_ours(request.uri().path()) {
            return Either::Left(self.inner.call(request));
        }
        let gateway = self.gateway.clone();
        Either::Right(Box::pin(async move { Ok(gateway.answer(request).await) }))
    }
}
