//! Delete, of one object and of all that a list shows.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tonic::body::Body;

use super::{
    Asked, Gateway, body,
    cause::{Cause, Fault},
    kinds::Kind,
    object,
    path::Target,
    query::{ListOptions, Query, dry_run},
    respond,
    status::{Failed, Failure, deleted, json_response},
};
use crate::{
    limits::GATEWAY_DELETIONS_AT_A_TIME,
    store::{CommitError, DeleteCause, Object, Operation, PageLimit, PutCondition},
};

const OPTIONS: &str = "DeleteOptions";

/// Kinds whose deletion answers with the object; others with a Status.
const SHOWN_WHEN_DELETED: [&str; 12] = [
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "resourcequotas",
    "serviceaccounts",
    "services",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
];

/// Kubernetes' DeleteOptions, as far as they mean anything without controllers: there is no
/// one here to wait a grace period for, and no one who deletes dependents.
#[derive(Clone, Debug, Default)]
struct DeleteOptions {
    dry_run: bool,
    uid: String,
    version: String,
}

impl DeleteOptions {
    async fn read(asked: &Asked<'_>, body: Body, limit: usize) -> Result<Self, Failed> {
        let query = &asked.query;
        let bytes = body::read(body, limit).await?;
        let given = match bytes.is_empty() {
            true => Value::Null,
            false => body::delete_options(body::media_type(asked.headers), bytes)?,
        };
        if !given.is_object() && !given.is_null() {
            return Err(Failure::bad_request("DeleteOptions must be a JSON object"));
        }
        let kind = given.get("kind").and_then(Value::as_str);
        if kind.is_some_and(|kind| !kind.is_empty() && kind != OPTIONS) {
            let message = "the body of a deletion must be of the kind DeleteOptions";
            return Err(Failure::bad_request(message));
        }
        let dry = given.get("dryRun").and_then(Value::as_array);
        let dry = dry.into_iter().flatten();
        let dry = dry.map(|value| value.as_str().unwrap_or("?"));
        let dry_run = dry_run(dry.chain(query.all("dryRun")), OPTIONS)?;
        check_propagation(query, &given)?;
        let precondition = |name: &str| {
            let text = given.get("preconditions").and_then(|p| p.get(name));
            text.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        Ok(Self {
            dry_run,
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
        })
    }

    fn check(&self, kind: &Kind, object: &Object) -> Result<(), Failed> {
        let (uid, version) = (object.uid.to_string(), object.revision.to_string());
        let name = object.key.name();
        if !self.uid.is_empty() && self.uid != uid {
            let why = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {uid}",
                self.uid
            );
            return Err(Failure::conflict(kind, name, &why));
        }
        if !self.version.is_empty() && self.version != version {
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {}, ResourceVersion in \
                 object meta: {version}",
                self.version
            );
            return Err(Failure::conflict(kind, name, &why));
        }
        Ok(())
    }
}

fn check_propagation(query: &Query, given: &Value) -> Result<(), Failed> {
    let policy = given.get("propagationPolicy").and_then(Value::as_str);
    let policy = policy.unwrap_or(query.get("propagationPolicy"));
    let known = ["Background", "Foreground", "Orphan"];
    if !policy.is_empty() && !known.contains(&policy) {
        let field = "propagationPolicy";
        return Err(Failure::unsupported_option(OPTIONS, field, policy, &known));
    }
    let orphans = given.get("orphanDependents").is_some_and(Value::is_boolean)
        || query.flag("orphanDependents").is_some();
    if !policy.is_empty() && orphans {
        let field = "propagationPolicy";
        let problem = "orphanDependents and deletionPropagation cannot be both set";
        let cause = Cause::new(Fault::Invalid, field, problem);
        return Err(Failure::invalid_options(OPTIONS, &[cause]));
    }
    Ok(())
}

/// What became of an object that was to be deleted.
enum Deleted {
    /// It is gone; its last state.
    Gone(Arc<Object>),
    /// It waits for its finalizers.
    Marked(Arc<Object>),
}

impl Gateway {
    pub(super) async fn delete(
        &self,
        asked: &Asked<'_>,
        body: Body,
    ) -> Result<Response<Body>, Failed> {
        let (target, name) = (&asked.target, asked.name());
        let options = DeleteOptions::read(asked, body, self.max_body_bytes()).await?;
        let view = self.view(asked)?;
        let object = match self.delete_object(target, name, &options).await? {
            Deleted::Gone(last) if SHOWN_WHEN_DELETED.contains(&target.kind.qualified()) => last,
            Deleted::Gone(last) => {
                let status = deleted(&target.kind, name, &last.uid.to_string());
                return Ok(json_response(StatusCode::OK, status.to_string().into()));
            }
            Deleted::Marked(object) => object,
        };
        let json = view.json(&object);
        Ok(respond::whole(StatusCode::OK, json, asked.accepted.gzip))
    }

    async fn delete_object(
        &self,
        target: &Target,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Failed> {
        let kind = &target.kind;
        // Until the request's deadline: whenever this one fails, another write was through.
        loop {
            self.hub().settle().await?;
            let before = self.find(target, name).await?;
            let before = before.ok_or_else(|| Failure::not_found(kind, name))?;
            options.check(kind, &before)?;
            let was = object::value(&before, kind);
            let marks = !object::finalizers(&was).is_empty();
            if options.dry_run || (marks && object::is_deleting(&was)) {
                return Ok(match marks {
                    true => Deleted::Marked(before),
                    false => Deleted::Gone(before),
                });
            }
            let operation = match marks {
                true => Operation::Put {
                    key: before.key.clone(),
                    condition: PutCondition::At(before.revision),
                    content: self.content(self.marked(was), Some(&before))?,
                },
                false => Operation::Delete {
                    key: before.key.clone(),
                    if_revision: Some(before.revision),
                    if_uid: None,
                    allow_missing: false,
                    cause: DeleteCause::Request,
                },
            };
            match self.commit(operation).await {
                Ok(Some(object)) if marks => return Ok(Deleted::Marked(object)),
                Ok(deleted) => {
                    let last = deleted.map_or_else(
                        || before.clone(),
                        |gone| Arc::new(before.deleted_at(gone.revision, gone.update_time)),
                    );
                    return Ok(Deleted::Gone(last));
                }
                Err(CommitError::RevisionMismatch { .. }) => {}
                Err(error) => return Err(Failure::commit(error, kind, name)),
            }
        }
    }

    /// An object that is being deleted, and waits for its finalizers.
    fn marked(&self, mut object: Value) -> Value {
        let now = object::time(self.service.options().clock.now());
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("deletionTimestamp".into(), now.into());
            metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
            let generation = metadata.get("generation").and_then(Value::as_i64);
            if let Some(generation) = generation {
                let next = generation.saturating_add(1);
                metadata.insert("generation".into(), next.into());
            }
        }
        object
    }

    /// Deletes what a list would show, one by one: what fails on the way leaves the rest.
    pub(super) async fn delete_collection(
        &self,
        asked: &Asked<'_>,
        body: Body,
    ) -> Result<Response<Body>, Failed> {
        const PAGE: PageLimit = crate::limits::EXPORT_PAGE;
        let target = &asked.target;
        let list = ListOptions::of_list(&asked.query)?;
        let options = DeleteOptions::read(asked, body, self.max_body_bytes()).await?;
        let selector = self.selector(target, &list)?;
        let (mut reader, _) = self.reader(&selector, &list).await?;
        let mut left = list.limit.unwrap_or(usize::MAX);
        while left > 0 && !reader.is_done() {
            let items = PAGE.items.min(left);
            let page = reader.next(self.hub(), PageLimit { items, ..PAGE }).await?;
            left -= page.objects.len();
            let deletions = page.objects.iter().map(|object| {
                let place = Target {
                    namespace: object.key.namespace().to_owned(),
                    ..target.clone()
                };
                let options = &options;
                async move {
                    let name = object.key.name();
                    match self.delete_object(&place, name, options).await {
                        // Others were faster.
                        Err(failed) if failed.is_not_found() => Ok(()),
                        deleted => deleted.map(drop),
                    }
                }
            });
            futures::stream::iter(deletions)
                .map(Ok::<_, Failed>)
                .try_for_each_concurrent(GATEWAY_DELETIONS_AT_A_TIME, |deletion| deletion)
                .await?;
        }
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"kind": target.kind.resource, "group": target.kind.group},
        });
        Ok(json_response(StatusCode::OK, status.to_string().into()))
    }
}
