//! Kinds that CustomResourceDefinitions bring: those in the store, whoever wrote them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{
    Gateway,
    cause::{Cause, Fault},
    kinds::{Kind, Kinds, KindsError},
    object,
    status::{Failed, Failure},
};
use crate::{
    limits::EXPORT_PAGE,
    selector::Selector,
    store::{Collection, Object},
};

/// Where definitions are stored.
const COLLECTION: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Which definitions the kinds are made of.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// The revision of the collection that the kinds show, and one more.
    shown: AtomicU64,
    /// Group and resource of those that are shown.
    taken: Mutex<Vec<(String, String)>>,
}

impl Gateway {
    /// Takes up definitions that have changed. Costs two loads while none has.
    pub(super) async fn take_up_definitions(&self) -> Result<(), Failed> {
        let Ok(collection) = Collection::new(COLLECTION) else {
            return Ok(());
        };
        let Some(revision) = self.hub().collection_revision(&collection) else {
            return Ok(());
        };
        let now = revision.get().saturating_add(1);
        if self.definitions.shown.load(Ordering::Acquire) == now {
            return Ok(());
        }
        let mut taken = self.definitions.taken.lock().await;
        if self.definitions.shown.load(Ordering::Acquire) == now {
            return Ok(());
        }
        let mut reader = self.hub().read_state(Arc::new(Selector::all(collection)));
        let mut found = Vec::new();
        while !reader.is_done() {
            let page = reader.next(self.hub(), EXPORT_PAGE).await?;
            for definition in &page.objects {
                found.extend(self.take_up(definition));
            }
        }
        for (group, resource) in taken.iter().filter(|was| !found.contains(was)) {
            self.kinds.remove(group, resource);
        }
        *taken = found;
        self.definitions.shown.store(now, Ordering::Release);
        Ok(())
    }

    fn take_up(&self, definition: &Object) -> Option<(String, String)> {
        let name = definition.key.name();
        let value: Value = serde_json::from_slice(&definition.content.value).ok()?;
        let kinds = match Kinds::from_crd(&value) {
            Ok(kinds) => kinds,
            Err(error) => {
                tracing::debug!(name, %error, "a CustomResourceDefinition is not taken up");
                return None;
            }
        };
        // It was written over gRPC, or before the configuration had the kind.
        if let Err(error) = self.kinds.set(&kinds) {
            tracing::warn!(name, %error, "a CustomResourceDefinition is not taken up");
            return None;
        }
        let kind = kinds.first()?;
        Some((kind.group.clone(), kind.resource.clone()))
    }
}

/// Why a definition would not be taken up. Kubernetes keeps such a definition, and says in its
/// status that its names are not accepted; here it is refused.
fn clash(error: &KindsError) -> Cause {
    let field = match error {
        KindsError::Fixed(_) => "metadata.name",
        KindsError::KindTaken { .. } => "spec.names.kind",
        KindsError::TooMany(_) => "spec.versions",
    };
    Cause::new(Fault::Forbidden, field, &error.to_string())
}

/// Checks a definition that is to be written, and says in its status that it is taken up, as
/// Kubernetes' controllers would. What is no definition stays as it is.
pub(super) fn admit(
    known: &Kinds,
    kind: &Kind,
    value: &mut Value,
    now: &str,
) -> Result<(), Failed> {
    if kind.qualified() != COLLECTION {
        return Ok(());
    }
    let name = object::metadata_text(value, "name").to_owned();
    let kinds = Kinds::from_crd(value);
    let kinds = kinds.map_err(|error| Failure::invalid(kind, &name, &error.causes))?;
    // One that is going need not be taken up any more, and must be let go.
    if !object::is_deleting(value) {
        let taken = known.would_take(&kinds);
        taken.map_err(|error| Failure::invalid(kind, &name, &[clash(&error)]))?;
    }
    let stored = kinds.iter().find(|kind| kind.storage);
    let version = stored.map(|kind| kind.version.clone());
    let condition = |what: &str, reason: &str, message: &str| {
        json!({
            "type": what, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": now,
        })
    };
    let known = value.get("status").cloned().unwrap_or_default();
    let mut versions: Vec<Value> = known
        .get("storedVersions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if let Some(version) = version.map(Value::from)
        && !versions.contains(&version)
    {
        versions.push(version);
    }
    let conditions = known.get("conditions").filter(|known| known.is_array());
    let conditions = conditions.cloned().unwrap_or_else(|| {
        json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition(
                "Established",
                "InitialNamesAccepted",
                "the initial names have been accepted"
            ),
        ])
    });
    let names = value.get("spec").and_then(|spec| spec.get("names"));
    let status = json!({
        "acceptedNames": names.cloned().unwrap_or_default(),
        "conditions": conditions,
        "storedVersions": versions,
    });
    if let Some(fields) = value.as_object_mut() {
        fields.insert("status".into(), status);
    }
    Ok(())
}
