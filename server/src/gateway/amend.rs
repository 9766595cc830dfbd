//! Patches: an object changed in part.
//!
//! A server-side apply creates the object, or merges what is applied into it, lists by the
//! keys of their items. No one owns a field here: nothing is a conflict, and what was
//! applied once and is left out later stays. `managedFields` are not kept.

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
    patch::{self, PatchError, PatchKind},
    path::Target,
    query::{Query, WriteOptions},
    respond, rules,
    status::{Failed, Failure},
    write::Scope,
};
use crate::store::Object;

const OPTIONS: &str = "PatchOptions";
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
        let options = WriteOptions::parse(&asked.query, OPTIONS)?;
        let view = self.view(asked)?;
        let media_type = body::media_type(asked.headers);
        let applies = media_type == APPLY;
        let form = match PatchKind::of(media_type) {
            Some(PatchKind::Strategic) if !kind.takes_strategic_merge() => None,
            _ if applies => Some(PatchKind::Strategic),
            form => form,
        };
        let form = form.ok_or_else(|| unsupported(kind))?;
        check_options(&options, &asked.query, applies)?;
        let body = body::read(body, self.max_body_bytes()).await?;
        let patch = match applies {
            true => body::yaml(&body)?,
            false => body::json(&body)?,
        };
        // Of the last attempt.
        let warnings = Mutex::new(Vec::new());
        let (code, object) = match applies {
            true => {
                let (wanted, unknown) =
                    rules::known_fields(kind, rules::of_kind(patch, kind)?, options.unknown)?;
                *warnings.lock() = unknown;
                self.apply(target, name, scope, wanted, options.dry_run)
                    .await?
            }
            false => {
                let change = |before: &Object| {
                    let now = patched(target, before, form, &patch)?;
                    let (now, unknown) = rules::known_fields(kind, now, options.unknown)?;
                    *warnings.lock() = unknown;
                    Ok(Value::Object(now))
                };
                let changed = self.change(target, name, scope, options.dry_run, change);
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
        target: &Target,
        name: &str,
        scope: Scope,
        mut wanted: Map<String, Value>,
        dry_run: bool,
    ) -> Result<(StatusCode, Arc<Object>), Failed> {
        rules::in_place(&mut wanted, &target.namespace, name)?;
        let managed = wanted.get("metadata").and_then(|m| m.get("managedFields"));
        if managed.is_some_and(|managed| !managed.is_null()) {
            let message = "metadata.managedFields must be nil";
            return Err(Failure::bad_request(message));
        }
        self.hub().settle().await?;
        if scope == Scope::Main && self.find(target, name).await?.is_none() {
            let made = self.create_object(target, name, wanted.clone(), dry_run);
            match made.await {
                // Someone was faster: there is something to merge with.
                Err(failed) if failed.is_already_exists() => {}
                made => return Ok((StatusCode::CREATED, made?)),
            }
        }
        let wanted = Value::Object(wanted);
        let form = PatchKind::Strategic;
        let change = |before: &Object| patched(target, before, form, &wanted).map(Value::Object);
        let changed = self.change(target, name, scope, dry_run, change).await?;
        Ok((StatusCode::OK, changed))
    }
}

fn check_options(options: &WriteOptions, query: &Query, applies: bool) -> Result<(), Failed> {
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
    Err(Failure::invalid_options(OPTIONS, &[cause]))
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

/// What a patch makes of an object.
fn patched(
    target: &Target,
    before: &Object,
    form: PatchKind,
    patch: &Value,
) -> Result<Map<String, Value>, Failed> {
    let (kind, name) = (&target.kind, before.key.name());
    if !object::is_json(before) {
        let problem = "the object's value is not JSON, and can only be replaced as a whole";
        return Err(Failure::unfit_patch(kind, name, problem));
    }
    let was = object::value(before, kind);
    let now = patch::apply(form, &was, patch, &kind.merge_keys).map_err(|error| match error {
        PatchError::Malformed(problem) => Failure::bad_request(problem),
        PatchError::Unfit(problem) => Failure::unfit_patch(kind, name, &problem),
        PatchError::TooLarge(problem) => Failure::too_much(&problem),
    })?;
    let mut now = rules::of_kind(now, kind)?;
    rules::in_place(&mut now, &target.namespace, name)?;
    Ok(now)
}
