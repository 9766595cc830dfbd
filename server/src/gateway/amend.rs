//! Patches: an object changed in part.
//!
//! What a server-side apply does, and what it does not, stands in [`server_side`].

use std::sync::Arc;

use http::{Response, StatusCode};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tonic::body::Body;

use super::{
    Asked, Gateway, body,
    cause::{Cause, Fault},
    kinds::Kind,
    object,
    patch::{
        self, PatchKind,
        server_side::{self, Applier, ApplyError},
    },
    path::Target,
    query::{Query, WriteOptions},
    respond, rules,
    status::{Failed, Failure},
    write::{Manner, Scope},
};
use crate::store::Object;

pub(super) const PATCH_OPTIONS: &str = "PatchOptions";
/// The content type of a server-side apply.
const APPLY: &str = "application/apply-patch+yaml";

impl Gateway {
    pub(super) async fn amend(
        &self,
        asked: &Asked<'_>,
        body: Body,
    ) -> Result<Response<Body>, Failed> {
        let (target, name, scope) = (&asked.target, asked.name(), asked.scope());
        let kind = &target.kind;
        let options = WriteOptions::parse(&asked.query, PATCH_OPTIONS)?;
        let view = self.view(asked)?;
        let media_type = body::media_type(asked.headers);
        let applies = media_type == APPLY;
        let form = match PatchKind::of(media_type) {
            Some(PatchKind::Strategic) if !kind.takes_strategic_merge() => None,
            form => form,
        };
        if form.is_none() && !applies {
            return Err(unsupported(kind));
        }
        check_options(&options, &asked.query, applies)?;
        let body = body::read(body, self.max_body_bytes()).await?;
        let patch = match applies {
            true => body::yaml(&body)?,
            false => body::json(&body)?,
        };
        // Of the last attempt.
        let warnings = Mutex::new(Vec::new());
        let (code, object) = match form {
            None => {
                let (wanted, unknown) =
                    rules::known_fields(kind, rules::of_kind(patch, kind)?, options.unknown)?;
                *warnings.lock() = unknown;
                self.apply(asked, wanted, &options).await?
            }
            Some(form) => {
                let change = |before: &Object| {
                    let now = patched(target, before, form, &patch)?;
                    let (now, unknown) = rules::known_fields(kind, now, options.unknown)?;
                    *warnings.lock() = unknown;
                    Ok(Value::Object(now))
                };
                let changed = self.change(target, name, scope, options.plain(), change);
                (StatusCode::OK, changed.await?)
            }
        };
        let json = view.json(&object);
        let response = respond::whole(code, json, asked.accepted.gzip);
        Ok(respond::warned(response, &warnings.into_inner()))
    }

    /// A server-side apply: create or merge.
    async fn apply(
        &self,
        asked: &Asked<'_>,
        mut wanted: Map<String, Value>,
        options: &WriteOptions,
    ) -> Result<(StatusCode, Arc<Object>), Failed> {
        let (target, name, scope) = (&asked.target, asked.name(), asked.scope());
        let kind = &target.kind;
        rules::in_place(&mut wanted, &target.namespace, name)?;
        let managed = wanted.get("metadata").and_then(|m| m.get("managedFields"));
        if managed.is_some_and(|managed| !managed.is_null()) {
            let message = "metadata.managedFields must be nil";
            return Err(Failure::bad_request(message));
        }
        let wanted = Value::Object(wanted);
        let (now, api_version) = (self.time(), kind.api_version());
        let applier = Applier {
            manager: &options.field_manager,
            force: options.force,
            subresource: match scope {
                Scope::Main => "",
                Scope::Status => "status",
            },
            api_version: &api_version,
            now: &now,
        };
        let manner = Manner {
            dry_run: options.dry_run,
            applies: true,
        };
        let merged = |was: Option<&Value>| {
            server_side::apply(was, &wanted, &kind.merge_keys, applier).map_err(|error| {
                let message = error.to_string();
                match error {
                    ApplyError::Unfit(problem) => Failure::unfit_patch(kind, name, &problem),
                    ApplyError::Conflict(conflicts) => {
                        let causes = conflicts.iter().map(|conflict| conflict.to_json());
                        Failure::applied_by_others(kind, name, message, causes.collect())
                    }
                }
            })
        };
        self.hub().settle().await?;
        if scope == Scope::Main && self.find(target, name).await?.is_none() {
            let made = rules::of_kind(merged(None)?, kind)?;
            match self.create_object(target, name, made, manner).await {
                // Someone was faster: there is something to merge with.
                Err(failed) if failed.is_already_exists() => {}
                made => return Ok((StatusCode::CREATED, made?)),
            }
        }
        let change = |before: &Object| merged(Some(&json_of(kind, before)?));
        let changed = self.change(target, name, scope, manner, change).await?;
        Ok((StatusCode::OK, changed))
    }
}

/// Checks that options are there where, and only where, they mean something.
pub(super) fn check_options(
    options: &WriteOptions,
    query: &Query,
    applies: bool,
) -> Result<(), Failed> {
    let cause = match applies {
        true if options.field_manager.is_empty() => {
            Cause::required("fieldManager", "is required for apply patch")
        }
        false if query.flag("force").is_some() => {
            let problem = "may not be specified for non-apply patch";
            Cause::new(Fault::Forbidden, "force", problem)
        }
        _ => return Ok(()),
    };
    Err(Failure::invalid_options(PATCH_OPTIONS, &[cause]))
}

fn unsupported(kind: &Kind) -> Failed {
    Failure::unsupported_media_type(match kind.takes_strategic_merge() {
        true => {
            "application/json-patch+json, application/merge-patch+json, \
             application/strategic-merge-patch+json, application/apply-patch+yaml"
        }
        false => {
            "application/json-patch+json, application/merge-patch+json, \
             application/apply-patch+yaml"
        }
    })
}

/// An object that can be changed in part.
pub(super) fn json_of(kind: &Kind, object: &Object) -> Result<Value, Failed> {
    if object::is_json(object) {
        return Ok(object::value(object, kind));
    }
    let problem = "the object's value is not JSON, and can only be replaced as a whole";
    Err(Failure::unfit_patch(kind, object.key.name(), problem))
}

/// What a patch makes of an object.
fn patched(
    target: &Target,
    before: &Object,
    form: PatchKind,
    patch: &Value,
) -> Result<Map<String, Value>, Failed> {
    let (kind, name) = (&target.kind, before.key.name());
    let was = json_of(kind, before)?;
    let now = patch::apply(form, &was, patch, &kind.merge_keys)
        .map_err(|error| Failure::patch(&error, kind, name))?;
    let mut now = rules::of_kind(now, kind)?;
    rules::in_place(&mut now, &target.namespace, name)?;
    Ok(now)
}
