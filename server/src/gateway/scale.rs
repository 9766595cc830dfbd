//! The `/scale` subresource: how many replicas an object wants and has, in the same form
//! (`autoscaling/v1` Scale) for every kind that has replicas.
//!
//! It is no object of its own but another view of its object: it has the object's name, uid and
//! version, and to write it is to write the object. As in Kubernetes, a Scale that says
//! nothing of its replicas wants none: clients leave out a zero.

use std::sync::{Arc, LazyLock};

use http::{Response, StatusCode};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tonic::body::Body;

use super::{
    Asked, Gateway,
    amend::{self, PATCH_OPTIONS},
    body,
    cause::{Cause, Fault},
    kinds::{Kind, MergeKeys, PrinterColumn, STATUS_VERBS, Scaling},
    object,
    patch::{self, PatchKind},
    query::WriteOptions,
    respond, rules,
    status::{Failed, Failure},
    view::View,
    write::Scope,
};
use crate::store::{Content, Object};

/// The group and version of a Scale.
pub(super) const GROUP: &str = "autoscaling";
pub(super) const VERSION: &str = "v1";
pub(super) const KIND: &str = "Scale";

static SCHEMA: LazyLock<Arc<Value>> = LazyLock::new(|| {
    Arc::new(json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
            "status": {"type": "object", "properties": {
                "replicas": {"type": "integer"},
                "selector": {"type": "string"},
            }},
        },
    }))
});

/// A kind's `/scale`, and the kind that a Scale itself is.
struct Scaled<'a> {
    kind: &'a Kind,
    scaling: &'a Scaling,
    shown_as: Arc<Kind>,
    namespace: &'a str,
}

impl Gateway {
    pub(super) async fn get_scale(&self, asked: &Asked<'_>) -> Result<Response<Body>, Failed> {
        let scaled = Scaled::of(asked)?;
        let object = self.read_object(asked).await?;
        let scale = scaled.scale(&object);
        if scaled
            .scaling
            .wanted_by(&object::value(&object, scaled.kind))
            .is_none()
        {
            // Kubernetes answers 500, as if it were the server's fault.
            let problem = "is where the definition has the replicas, and holds no number";
            let cause = Cause::new(Fault::Invalid, scaled.scaling.wanted.as_str(), problem);
            return Err(Failure::invalid(scaled.kind, asked.name(), &[cause]));
        }
        let json = self.scale_view(asked, &scaled)?.json(&scale);
        Ok(respond::whole(StatusCode::OK, json, asked.accepted.gzip))
    }

    pub(super) async fn update_scale(
        &self,
        asked: &Asked<'_>,
        body: Body,
    ) -> Result<Response<Body>, Failed> {
        let scaled = Scaled::of(asked)?;
        let options = WriteOptions::parse(&asked.query, "UpdateOptions")?;
        let view = self.scale_view(asked, &scaled)?;
        let media_type = body::media_type(asked.headers);
        let body = body::read(body, self.max_body_bytes()).await?;
        let value = body::scale(media_type, body, &scaled.shown_as)?;
        let (wanted, warnings) = scaled.checked(value, asked.name(), &options)?;
        let change = |before: &Object| scaled.scaled(before, &wanted);
        let changed = self
            .change(
                &asked.target,
                asked.name(),
                Scope::Main,
                options.plain(),
                change,
            )
            .await?;
        let json = view.json(&scaled.scale(&changed));
        let response = respond::whole(StatusCode::OK, json, asked.accepted.gzip);
        Ok(respond::warned(response, &warnings))
    }

    /// Patches in all forms but a server-side apply.
    pub(super) async fn amend_scale(
        &self,
        asked: &Asked<'_>,
        body: Body,
    ) -> Result<Response<Body>, Failed> {
        let scaled = Scaled::of(asked)?;
        let name = asked.name();
        let options = WriteOptions::parse(&asked.query, PATCH_OPTIONS)?;
        let view = self.scale_view(asked, &scaled)?;
        let form = match PatchKind::of(body::media_type(asked.headers)) {
            Some(PatchKind::Strategic) if !scaled.kind.takes_strategic_merge() => None,
            form => form,
        };
        let accepted = "application/json-patch+json, application/merge-patch+json";
        let form = form.ok_or_else(|| Failure::unsupported_media_type(accepted))?;
        amend::check_options(&options, &asked.query, false)?;
        let body = body::read(body, self.max_body_bytes()).await?;
        let patch = body::json(&body)?;
        // Of the last attempt.
        let warnings = Mutex::new(Vec::new());
        let change = |before: &Object| {
            let was = object::value(&scaled.scale(before), &scaled.shown_as);
            let now = patch::apply(form, &was, &patch, &MergeKeys::default())
                .map_err(|error| Failure::patch(&error, scaled.kind, name))?;
            let (wanted, unknown) = scaled.checked(now, name, &options)?;
            *warnings.lock() = unknown;
            scaled.scaled(before, &wanted)
        };
        let changed = self
            .change(&asked.target, name, Scope::Main, options.plain(), change)
            .await?;
        let json = view.json(&scaled.scale(&changed));
        let response = respond::whole(StatusCode::OK, json, asked.accepted.gzip);
        Ok(respond::warned(response, &warnings.into_inner()))
    }

    fn scale_view(&self, asked: &Asked<'_>, scaled: &Scaled<'_>) -> Result<View, Failed> {
        self.view_as(&scaled.shown_as, asked)
    }
}

impl<'a> Scaled<'a> {
    fn of(asked: &'a Asked<'_>) -> Result<Self, Failed> {
        let kind = &*asked.target.kind;
        let scaling = kind.scaling.as_ref();
        let scaling = scaling.ok_or_else(Failure::no_such_resource)?;
        Ok(Self {
            kind,
            scaling,
            shown_as: Arc::new(shown_as(kind)),
            namespace: &asked.target.namespace,
        })
    }

    /// The Scale of an object.
    fn scale(&self, object: &Object) -> Object {
        let whole = object::value(object, self.kind);
        let created = whole.pointer("/metadata/creationTimestamp");
        let scale = json!({
            "metadata": {"creationTimestamp": created},
            "spec": {"replicas": self.scaling.wanted_by(&whole).unwrap_or(0)},
            "status": {
                "replicas": self.scaling.present_at(&whole),
                "selector": self.scaling.selector_of(&whole),
            },
        });
        let content = Content {
            value: scale.to_string().into(),
            ..Content::default()
        };
        let (key, uid) = (object.key.clone(), object.uid);
        let (revision, created) = (object.revision, object.create_revision);
        Object::new(key, uid, revision, created, object.update_time, content)
    }

    /// A Scale that a client wants, checked by itself; and warnings.
    fn checked(
        &self,
        value: Value,
        name: &str,
        options: &WriteOptions,
    ) -> Result<(Map<String, Value>, Vec<String>), Failed> {
        let kind = &self.shown_as;
        let value = rules::of_kind(value, kind)?;
        let (mut scale, warnings) = rules::known_fields(kind, value, options.unknown)?;
        rules::in_place(&mut scale, self.namespace, name)?;
        let replicas = replicas(&scale)?;
        if replicas < 0 {
            let problem = "must be greater than or equal to 0";
            let cause = Cause::invalid("spec.replicas", &replicas.into(), problem);
            return Err(Failure::invalid(kind, name, &[cause]));
        }
        Ok((scale, warnings))
    }

    /// What becomes of an object whose client wants this Scale. It has the version and uid
    /// that the Scale insists on, if it does.
    fn scaled(&self, before: &Object, wanted: &Map<String, Value>) -> Result<Value, Failed> {
        let mut after = amend::json_of(self.kind, before)?;
        let set = self.scaling.set_wanted(&mut after, replicas(wanted)?);
        set.map_err(|at| {
            let cause = Cause::new(Fault::Invalid, at, "must be an object");
            Failure::invalid(self.kind, before.key.name(), &[cause])
        })?;
        let insists = wanted.get("metadata").and_then(Value::as_object);
        if let Some(metadata) = after.get_mut("metadata").and_then(Value::as_object_mut) {
            for name in ["resourceVersion", "uid"] {
                match insists.and_then(|insists| insists.get(name)) {
                    Some(value) => metadata.insert(name.into(), value.clone()),
                    None => metadata.remove(name),
                };
            }
        }
        Ok(after)
    }
}

/// How many replicas a Scale wants.
fn replicas(scale: &Map<String, Value>) -> Result<i64, Failed> {
    let spec = scale.get("spec").unwrap_or(&Value::Null);
    let replicas = spec.get("replicas").unwrap_or(&Value::Null);
    let number = replicas.as_i64().filter(|n| i32::try_from(*n).is_ok());
    match number {
        Some(number) => Ok(number),
        None if replicas.is_null() && (spec.is_null() || spec.is_object()) => Ok(0),
        None => {
            let message = "the object provided is unrecognized (must be of type Scale): \
                           spec.replicas must be a whole number of 32 bits";
            Err(Failure::bad_request(message))
        }
    }
}

/// The kind of a Scale of such an object. Messages about the object itself go on to name it.
fn shown_as(kind: &Kind) -> Kind {
    let column = |name: &str, kind: &str, path: &str| PrinterColumn {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        path: path.to_owned(),
    };
    Kind {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        kind: KIND.to_owned(),
        list_kind: "ScaleList".to_owned(),
        builtin: false,
        status: false,
        verbs: STATUS_VERBS,
        merge_keys: MergeKeys::default(),
        schema: Some(SCHEMA.clone()),
        columns: vec![
            column("Desired", "integer", ".spec.replicas"),
            column("Available", "integer", ".status.replicas"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ],
        selectable: Vec::new(),
        scaling: None,
        ..kind.clone()
    }
}
