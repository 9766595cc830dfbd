//! Create, update, and what else changes one object.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Map, Value};
use tonic::body::Body;

use super::{
    Asked, Gateway, body,
    cause::Cause,
    definitions,
    kinds::Kind,
    object,
    path::Target,
    query::WriteOptions,
    respond, rules,
    status::{Failed, Failure},
    validation::GENERATED_SUFFIX_BYTES,
};
use crate::{
    limits::GATEWAY_NAME_ATTEMPTS,
    store::{
        CommitError, Content, DeleteCause, Key, Object, ObjectName, Operation, PutCondition,
        Revision, Uid, WriteBatch,
    },
    traces,
};

/// Metadata that a client does not decide.
const SERVERS: [&str; 7] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];
/// Who applied which fields: only an apply decides it.
const MANAGED: &str = "managedFields";

/// How an object is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// Not at all: only what would come of it is told.
    pub(super) dry_run: bool,
    /// By a server-side apply, which notes whose the fields are.
    pub(super) applies: bool,
}

/// Which part of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All but the status, where the status is a part of its own.
    Main,
    /// Only the status.
    Status,
}

impl Gateway {
    pub(super) async fn create(
        &self,
        asked: &Asked<'_>,
        body: Body,
    ) -> Result<Response<Body>, Failed> {
        let target = &asked.target;
        let options = WriteOptions::parse(&asked.query, "CreateOptions")?;
        let view = self.view(asked)?;
        let media_type = body::media_type(asked.headers);
        let body = body::read(body, self.max_body_bytes()).await?;
        let value = body::object(media_type, body, &target.kind)?;
        let value = rules::of_kind(value, &target.kind)?;
        let (value, warnings) = rules::known_fields(&target.kind, value, options.unknown)?;
        let object = self
            .create_object(target, "", value, options.plain())
            .await?;
        let json = view.json(&object);
        let response = respond::whole(StatusCode::CREATED, json, asked.accepted.gzip);
        Ok(respond::warned(response, &warnings))
    }

    /// Creates an object; `name`: where the path says it.
    pub(super) async fn create_object(
        &self,
        target: &Target,
        name: &str,
        mut value: Map<String, Value>,
        manner: Manner,
    ) -> Result<Arc<Object>, Failed> {
        let kind = &target.kind;
        rules::in_place(&mut value, &target.namespace, name)?;
        if kind.status {
            value.remove("status");
        }
        let mut given = Value::Object(value);
        let version = object::metadata_text(&given, "resourceVersion");
        if !matches!(version, "" | "0") {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Failure::bad_request(message));
        }
        let prefix = object::metadata_text(&given, "generateName").to_owned();
        let generates = object::metadata_text(&given, "name").is_empty() && !prefix.is_empty();
        let created = self.time();
        if let Some(metadata) = metadata_mut(&mut given) {
            SERVERS.iter().for_each(|name| drop(metadata.remove(*name)));
            if !manner.applies {
                metadata.remove(MANAGED);
            }
            metadata.retain(|_, value| !value.is_null());
            metadata.insert("creationTimestamp".into(), created.into());
            if has_generation(kind) {
                metadata.insert("generation".into(), 1.into());
            }
        }
        let mut attempts = if generates { GATEWAY_NAME_ATTEMPTS } else { 1 };
        loop {
            if generates && let Some(metadata) = metadata_mut(&mut given) {
                metadata.insert("name".into(), generated(&prefix).into());
            }
            attempts -= 1;
            match self.create_as(target, &given, manner.dry_run).await {
                Err(CreateError::Exists) if attempts > 0 => {}
                Err(CreateError::Exists) => {
                    let name = object::metadata_text(&given, "name");
                    return Err(Failure::already_exists(kind, name));
                }
                Err(CreateError::Other(failed)) => return Err(failed),
                Ok(object) => return Ok(object),
            }
        }
    }

    async fn create_as(
        &self,
        target: &Target,
        given: &Value,
        dry_run: bool,
    ) -> Result<Arc<Object>, CreateError> {
        rules::check(&target.kind, None, given)?;
        let name = object::metadata_text(given, "name");
        let key = key(target, name)?;
        let mut given = given.clone();
        definitions::admit(&self.kinds, &target.kind, &mut given, &self.time())?;
        let content = self.content(given, None)?;
        if dry_run {
            self.hub().settle().await.map_err(Failed::from)?;
            if self.find(target, name).await?.is_some() {
                return Err(CreateError::Exists);
            }
            let uid = Uid::from_random(rand::random());
            return Ok(Arc::new(self.preview(key, uid, Revision::ZERO, content)));
        }
        let operation = Operation::Put {
            key: key.clone(),
            condition: PutCondition::Absent,
            content,
        };
        match self.commit(operation).await {
            Ok(object) => object.ok_or_else(|| lost(&key).into()),
            Err(CommitError::Exists { .. }) => Err(CreateError::Exists),
            Err(error) => Err(Failure::commit(error, &target.kind, name).into()),
        }
    }

    pub(super) async fn update(
        &self,
        asked: &Asked<'_>,
        body: Body,
    ) -> Result<Response<Body>, Failed> {
        let (target, name, scope) = (&asked.target, asked.name(), asked.scope());
        let options = WriteOptions::parse(&asked.query, "UpdateOptions")?;
        let view = self.view(asked)?;
        let media_type = body::media_type(asked.headers);
        let body = body::read(body, self.max_body_bytes()).await?;
        let value = body::object(media_type, body, &target.kind)?;
        let value = rules::of_kind(value, &target.kind)?;
        let (mut value, warnings) = rules::known_fields(&target.kind, value, options.unknown)?;
        rules::in_place(&mut value, &target.namespace, name)?;
        let value = Value::Object(value);
        let change = |_: &Object| Ok(value.clone());
        let object = self
            .change(target, name, scope, options.plain(), change)
            .await?;
        let json = view.json(&object);
        let response = respond::whole(StatusCode::OK, json, asked.accepted.gzip);
        Ok(respond::warned(response, &warnings))
    }

    /// Changes an object as `change` says of its present version; again, if others have
    /// changed it meanwhile.
    pub(super) async fn change(
        &self,
        target: &Target,
        name: &str,
        scope: Scope,
        manner: Manner,
        change: impl Fn(&Object) -> Result<Value, Failed>,
    ) -> Result<Arc<Object>, Failed> {
        let kind = &target.kind;
        // Until the request's deadline: whenever this one fails, another write was through.
        loop {
            self.hub().settle().await?;
            let before = self.find(target, name).await?;
            let before = before.ok_or_else(|| Failure::not_found(kind, name))?;
            let wanted = change(&before)?;
            check_preconditions(kind, &before, &wanted)?;
            let was = object::value(&before, kind);
            let mut after = merged(kind, scope, manner, &was, wanted);
            rules::check(kind, Some(&was), &after)?;
            definitions::admit(&self.kinds, kind, &mut after, &self.time())?;
            let is_gone = object::is_deleting(&after) && object::finalizers(&after).is_empty();
            let content = self.content(after, Some(&before))?;
            if content == before.content && !is_gone {
                return Ok(before);
            }
            if manner.dry_run {
                let key = before.key.clone();
                let object = self.preview(key, before.uid, before.revision, content);
                return Ok(Arc::new(object));
            }
            let operation = match is_gone {
                // The last finalizer is gone, and the object with it.
                true => Operation::Delete {
                    key: before.key.clone(),
                    if_revision: Some(before.revision),
                    if_uid: None,
                    allow_missing: false,
                    cause: DeleteCause::Request,
                },
                false => Operation::Put {
                    key: before.key.clone(),
                    condition: PutCondition::At(before.revision),
                    content: content.clone(),
                },
            };
            match self.commit(operation).await {
                Ok(Some(deleted)) if is_gone => {
                    let key = before.key.clone();
                    let last = self.preview(key, before.uid, deleted.revision, content);
                    return Ok(Arc::new(last));
                }
                Ok(Some(object)) => return Ok(object),
                Ok(None) => return Err(lost(&before.key)),
                // Whoever insists on a revision hears of it next time round.
                Err(CommitError::RevisionMismatch { .. }) => {}
                Err(error) => return Err(Failure::commit(error, kind, name)),
            }
        }
    }

    /// What is to be stored, if it is not too large.
    pub(super) fn content(&self, value: Value, before: Option<&Object>) -> Result<Content, Failed> {
        let content = object::content(value, before);
        let limit = self.service.options().max_object_bytes;
        if content.value.len() > limit {
            return Err(Failure::too_large(limit));
        }
        Ok(content)
    }

    /// An object that is not in the store.
    fn preview(&self, key: Key, uid: Uid, revision: Revision, content: Content) -> Object {
        let now = self.service.options().clock.now();
        Object::new(key, uid, revision, revision, now, content)
    }

    /// Commits one operation; gives what it wrote.
    pub(super) async fn commit(
        &self,
        operation: Operation,
    ) -> Result<Option<Arc<Object>>, CommitError> {
        let traced = self.service.options().traces;
        let batch = WriteBatch {
            operations: vec![operation],
            request: None,
            trace: traced.then(traces::writer).flatten(),
        };
        let committed = self.store().commit(batch).await?;
        Ok(committed.objects.into_iter().next().flatten())
    }

    /// Now, as Kubernetes writes it.
    pub(super) fn time(&self) -> String {
        object::time(self.service.options().clock.now())
    }

    pub(super) fn max_body_bytes(&self) -> usize {
        self.service.options().max_request_bytes()
    }
}

enum CreateError {
    /// The name is taken: another may be tried, if it was generated.
    Exists,
    Other(Failed),
}

impl From<Failed> for CreateError {
    fn from(failed: Failed) -> Self {
        Self::Other(failed)
    }
}

/// The store has answered a write without its object: a fault of the server.
fn lost(key: &Key) -> Failed {
    Failure::internal(format!("the store did not say what became of {key}"))
}

pub(super) fn key(target: &Target, name: &str) -> Result<Key, Failed> {
    let field = "metadata.name";
    let object = ObjectName::new(&target.namespace, name).map_err(|error| {
        let cause = Cause::invalid(field, &name.into(), &error.to_string());
        Failure::invalid(&target.kind, name, &[cause])
    })?;
    let collection = target.kind.collection.clone();
    Ok(Key { collection, object })
}

/// Kinds with a status count how often what is wanted of them has changed.
fn has_generation(kind: &Kind) -> bool {
    kind.status || !kind.builtin
}

fn metadata_mut(value: &mut Value) -> Option<&mut Map<String, Value>> {
    value.get_mut("metadata").and_then(Value::as_object_mut)
}

/// A name that begins as the client wants. The letters make no words and no mistakes.
fn generated(prefix: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const MAX_PREFIX_BYTES: usize = 63 - GENERATED_SUFFIX_BYTES;
    let fits = (0..=MAX_PREFIX_BYTES.min(prefix.len())).rev();
    let end = fits.into_iter().find(|end| prefix.is_char_boundary(*end));
    let mut name = prefix[..end.unwrap_or(0)].to_owned();
    for _ in 0..GENERATED_SUFFIX_BYTES {
        let letter = LETTERS[rand::random_range(0..LETTERS.len())];
        name.push(char::from(letter));
    }
    name
}

/// The revision and uid that a client insists on by naming them in the object.
fn check_preconditions(kind: &Kind, before: &Object, wanted: &Value) -> Result<(), Failed> {
    let name = before.key.name();
    let version = object::metadata_text(wanted, "resourceVersion");
    if !matches!(version, "" | "0") && version != before.revision.to_string() {
        if version.parse::<u64>().is_err() {
            let problem = "must be the decimal number that the server gave";
            let cause = Cause::invalid("metadata.resourceVersion", &version.into(), problem);
            return Err(Failure::invalid(kind, name, &[cause]));
        }
        return Err(Failure::modified(kind, name));
    }
    let uid = object::metadata_text(wanted, "uid");
    let own = before.uid.to_string();
    if !uid.is_empty() && uid != own {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}");
        return Err(Failure::conflict(kind, name, &why));
    }
    Ok(())
}

/// What comes of an object when a client wants it so.
fn merged(kind: &Kind, scope: Scope, manner: Manner, was: &Value, mut wanted: Value) -> Value {
    if scope == Scope::Status {
        // All but the status stays.
        let mut after = was.clone();
        if let (Some(after), Some(wanted)) = (after.as_object_mut(), wanted.as_object_mut()) {
            match wanted.remove("status") {
                Some(status) => after.insert("status".into(), status),
                None => after.remove("status"),
            };
        }
        if manner.applies {
            let managed = metadata_mut(&mut wanted).and_then(|metadata| metadata.remove(MANAGED));
            if let (Some(managed), Some(metadata)) = (managed, metadata_mut(&mut after)) {
                metadata.insert(MANAGED.into(), managed);
            }
        }
        return after;
    }
    if kind.status
        && let Some(wanted) = wanted.as_object_mut()
    {
        match was.get("status") {
            Some(status) => wanted.insert("status".into(), status.clone()),
            None => wanted.remove("status"),
        };
    }
    let is_changed = spec_changed(was, &wanted);
    if let (Some(had), Some(metadata)) = (object::metadata(was), metadata_mut(&mut wanted)) {
        let managed = Some(MANAGED).filter(|_| !manner.applies);
        for name in SERVERS.into_iter().chain(managed) {
            match had.get(name) {
                Some(value) => metadata.insert(name.into(), value.clone()),
                None => metadata.remove(name),
            };
        }
        metadata.retain(|_, value| !value.is_null());
        let generation = had.get("generation").and_then(Value::as_i64);
        if has_generation(kind) && (is_changed || generation.is_none()) {
            let next = generation.unwrap_or(0).saturating_add(1);
            metadata.insert("generation".into(), next.into());
        }
    }
    wanted
}

/// Whether anything but metadata and status differs.
fn spec_changed(was: &Value, now: &Value) -> bool {
    let relevant = |value: &Value| -> Vec<(String, Value)> {
        let fields = value.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, _)| {
            !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status")
        });
        fields
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    relevant(was) != relevant(now)
}
