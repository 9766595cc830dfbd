//! Create, Update, Delete and Batch.

use std::collections::HashSet;

use listwatch::v1;
use tonic::Status;
use xxhash_rust::xxh3::Xxh3;

use super::{
    Service,
    request::{self, ContentRules, Invalid},
    status, wire,
};
use crate::{
    limits::OBJECT_OVERHEAD_BYTES,
    store::{
        Committed, DeleteCause, Key, Object, Operation, PutCondition, RequestId, Revision,
        WriteBatch,
    },
    traces,
};

impl Service {
    pub(super) async fn create_object(
        &self,
        request: v1::CreateRequest,
    ) -> Result<v1::CreateResponse, Status> {
        let id = request_id(
            &request.request_id,
            1,
            &v1::CreateRequest {
                request_id: String::new(),
                ..request.clone()
            },
        );
        let id = id.map_err(status::invalid)?;
        let operation = create(request, &self.rules()).map_err(status::invalid)?;
        let (committed, _) = self.commit(vec![operation], id).await?;
        Ok(v1::CreateResponse {
            resource: first(&committed),
        })
    }

    pub(super) async fn update_object(
        &self,
        request: v1::UpdateRequest,
    ) -> Result<v1::UpdateResponse, Status> {
        let id = request_id(
            &request.request_id,
            2,
            &v1::UpdateRequest {
                request_id: String::new(),
                ..request.clone()
            },
        );
        let id = id.map_err(status::invalid)?;
        let operation = update(request, &self.rules()).map_err(status::invalid)?;
        let (committed, _) = self.commit(vec![operation], id).await?;
        Ok(v1::UpdateResponse {
            resource: first(&committed),
        })
    }

    pub(super) async fn delete_object(
        &self,
        request: v1::DeleteRequest,
    ) -> Result<v1::DeleteResponse, Status> {
        let id = request_id(
            &request.request_id,
            3,
            &v1::DeleteRequest {
                request_id: String::new(),
                ..request.clone()
            },
        );
        let id = id.map_err(status::invalid)?;
        let operation = delete(request).map_err(status::invalid)?;
        let (committed, keys) = self.commit(vec![operation], id).await?;
        let Some(deleted) = committed.objects.into_iter().flatten().next() else {
            return Ok(v1::DeleteResponse { resource: None });
        };
        let last = self.last_state(&keys[0], &deleted).await;
        Ok(v1::DeleteResponse {
            resource: Some(last),
        })
    }

    /// What a deletion took away. The store's answer has no value; it is one revision back
    /// in the history, unless that has been compacted in this very moment.
    async fn last_state(&self, key: &Key, deleted: &Object) -> v1::Resource {
        let before = self
            .store()
            .get(key, deleted.revision.previous())
            .await
            .ok()
            .flatten();
        match before {
            Some(last) if last.uid == deleted.uid => {
                let last = last.deleted_at(deleted.revision, deleted.update_time);
                wire::resource(&last, v1::View::Full)
            }
            _ => wire::resource(deleted, v1::View::Full),
        }
    }

    pub(super) async fn write_batch(
        &self,
        request: v1::BatchRequest,
    ) -> Result<v1::BatchResponse, Status> {
        let id = request_id(
            &request.request_id,
            4,
            &v1::BatchRequest {
                request_id: String::new(),
                ..request.clone()
            },
        );
        let id = id.map_err(status::invalid)?;
        let operations = self
            .operations(request.operations)
            .map_err(status::invalid)?;
        let (committed, keys) = self.commit(operations, id).await?;
        let resources = committed
            .objects
            .iter()
            .zip(&keys)
            .map(|(object, key)| match object {
                Some(object) => wire::written(object),
                None => v1::Resource {
                    key: Some(wire::key(key)),
                    ..v1::Resource::default()
                },
            });
        Ok(v1::BatchResponse {
            revision: committed.revision.to_wire(),
            resources: resources.collect(),
        })
    }

    fn operations(&self, operations: Vec<v1::BatchOperation>) -> Result<Vec<Operation>, Invalid> {
        if operations.is_empty() {
            return Err(Invalid::new("operations", "must not be empty"));
        }
        let limit = self.options.max_batch_operations;
        if operations.len() > limit {
            let size = operations.len();
            return Err(Invalid::too_large("operations", "operations", size, limit));
        }
        let rules = self.rules();
        let mut seen = HashSet::new();
        let mut bytes = 0;
        let mut checked = Vec::with_capacity(operations.len());
        for (i, operation) in operations.into_iter().enumerate() {
            let outer = format!("operations[{i}]");
            let operation = batch_operation(operation, &rules).map_err(|e| e.within(&outer))?;
            if !seen.insert(key_of(&operation).clone()) {
                let problem = format!("{} stands in the batch twice", key_of(&operation));
                return Err(Invalid::new(format!("{outer}.key"), problem));
            }
            bytes += weight(&operation);
            checked.push(operation);
        }
        let limit = self.options.max_batch_bytes();
        if bytes > limit {
            return Err(Invalid::too_large("operations", "bytes", bytes, limit));
        }
        Ok(checked)
    }

    async fn commit(
        &self,
        operations: Vec<Operation>,
        request: Option<RequestId>,
    ) -> Result<(Committed, Vec<Key>), Status> {
        let keys: Vec<Key> = operations.iter().map(|o| key_of(o).clone()).collect();
        let put = |operation: &Operation| matches!(operation, Operation::Put { .. });
        let puts: Vec<bool> = operations.iter().map(put).collect();
        let committed = self
            .store()
            .commit(WriteBatch {
                operations,
                request,
                trace: self.options.traces.then(traces::writer).flatten(),
            })
            .await;
        let newest = || self.store().progress().revision;
        match committed {
            Ok(committed) if committed.replayed => {
                Ok((self.as_first_answered(committed, &keys, &puts).await, keys))
            }
            Ok(committed) => Ok((committed, keys)),
            Err(error) => Err(status::commit(error, &keys, newest())),
        }
    }

    /// A replayed answer with its objects as they were written, the deadlines that a `ttl`
    /// set included, as far as history still has them.
    async fn as_first_answered(
        &self,
        mut committed: Committed,
        keys: &[Key],
        puts: &[bool],
    ) -> Committed {
        for ((object, key), put) in committed.objects.iter_mut().zip(keys).zip(puts) {
            let Some(object) = object.as_mut().filter(|_| *put) else {
                continue;
            };
            let written = self.store().get(key, object.revision).await.ok().flatten();
            if let Some(written) = written.filter(|w| w.revision == object.revision) {
                *object = written;
            }
        }
        committed
    }

    fn rules(&self) -> ContentRules {
        ContentRules {
            max_object_bytes: self.options.max_object_bytes,
            now: self.options.clock.now(),
        }
    }
}

fn first(committed: &Committed) -> Option<v1::Resource> {
    committed
        .objects
        .iter()
        .flatten()
        .next()
        .map(|object| wire::written(object))
}

/// The id of a request with the fingerprint of what it asks for. `content` is the request
/// without its id; `method` tells equal bytes of different methods apart.
fn request_id(
    id: &str,
    method: u64,
    content: &impl prost::Message,
) -> Result<Option<RequestId>, Invalid> {
    let Some(id) = request::request_id(id)? else {
        return Ok(None);
    };
    let mut hash = Xxh3::with_seed(method);
    hash.update(&content.encode_to_vec());
    Ok(Some(RequestId {
        id,
        fingerprint: hash.digest(),
    }))
}

fn create(request: v1::CreateRequest, rules: &ContentRules) -> Result<Operation, Invalid> {
    let (key, content) = rules.resource(request.resource, request.ttl)?;
    Ok(Operation::Put {
        key,
        condition: PutCondition::Absent,
        content,
    })
}

fn update(request: v1::UpdateRequest, rules: &ContentRules) -> Result<Operation, Invalid> {
    let condition = match (request.if_revision, request.allow_missing) {
        (Some(_), true) => {
            return Err(Invalid::new(
                "allow_missing",
                "must not be set together with if_revision",
            ));
        }
        (Some(revision), false) => {
            PutCondition::At(request::positive_revision("if_revision", revision)?)
        }
        (None, true) => PutCondition::Any,
        (None, false) => PutCondition::Present,
    };
    let (key, content) = rules.resource(request.resource, request.ttl)?;
    Ok(Operation::Put {
        key,
        condition,
        content,
    })
}

fn delete(request: v1::DeleteRequest) -> Result<Operation, Invalid> {
    let revision = |r| request::positive_revision("if_revision", r);
    Ok(Operation::Delete {
        key: request::key(request.key)?,
        if_revision: request.if_revision.map(revision).transpose()?,
        if_uid: request
            .if_uid
            .map(|uid| request::uid("if_uid", &uid))
            .transpose()?,
        allow_missing: request.allow_missing,
        cause: DeleteCause::Request,
    })
}

fn check(request: v1::CheckRevision) -> Result<Operation, Invalid> {
    let key = request::key(request.key)?;
    let revision = request::revision("revision", request.revision)?;
    Ok(Operation::Check {
        key,
        revision: (revision != Revision::ZERO).then_some(revision),
    })
}

fn batch_operation(
    operation: v1::BatchOperation,
    rules: &ContentRules,
) -> Result<Operation, Invalid> {
    use v1::batch_operation::Kind;
    let no_id = |id: &str| match id {
        "" => Ok(()),
        _ => Err(Invalid::new("request_id", "must be empty inside a batch")),
    };
    match operation.kind {
        None => Err(Invalid::new(
            "kind",
            "is required: create, update, delete or check",
        )),
        Some(Kind::Create(request)) => no_id(&request.request_id)
            .and_then(|()| create(request, rules))
            .map_err(|e| e.within("create")),
        Some(Kind::Update(request)) => no_id(&request.request_id)
            .and_then(|()| update(request, rules))
            .map_err(|e| e.within("update")),
        Some(Kind::Delete(request)) => no_id(&request.request_id)
            .and_then(|()| delete(request))
            .map_err(|e| e.within("delete")),
        Some(Kind::Check(request)) => check(request).map_err(|e| e.within("check")),
    }
}

fn key_of(operation: &Operation) -> &Key {
    match operation {
        Operation::Put { key, .. }
        | Operation::Delete { key, .. }
        | Operation::Check { key, .. } => key,
    }
}

/// Bytes that an operation adds to its revision's response.
fn weight(operation: &Operation) -> usize {
    match operation {
        Operation::Put { content, .. } => {
            let labels: usize = content.labels.iter().map(|(k, v)| k.len() + v.len()).sum();
            content.value.len() + labels + OBJECT_OVERHEAD_BYTES.min(1024)
        }
        Operation::Delete { .. } | Operation::Check { .. } => 1024,
    }
}
