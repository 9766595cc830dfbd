//! RFC 6902, with bounds: what one patch may do grows faster than what it says.

use std::borrow::Cow;

use json_patch::{AddOperation, Patch, PatchErrorKind, PatchOperation, patch as run};
use serde_json::Value;

use super::PatchError;

/// Operations of one patch. Each may move the whole tail of a list: a tenth of Kubernetes'
/// bound keeps the worst of them at a few seconds.
pub(super) const MAX_OPERATIONS: usize = 1_000;
/// Bytes that the `copy` and `move` operations of one patch handle together: two of the
/// largest objects. `copy` alone can double an object again and again.
pub(super) const MAX_HANDLED_BYTES: usize = 3 * 1024 * 1024;
/// How deep an operation may put a value: objects that are deeper than 127 cannot be read
/// back, and `copy` can double the depth again and again.
pub(super) const MAX_DEPTH: usize = 100;

pub(super) fn apply(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Some(items) = patch.as_array() else {
        let problem = "a JSON patch must be an array of operations";
        return Err(PatchError::Malformed(problem.to_owned()));
    };
    if items.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "the patch has {} operations; the limit is {MAX_OPERATIONS}",
            items.len()
        )));
    }
    let Patch(operations) = serde_json::from_value(patch.clone())
        .map_err(|error| PatchError::Malformed(format!("cannot read the patch: {error}")))?;
    let mut object = current.clone();
    let mut handled = 0;
    for (i, operation) in operations.iter().enumerate() {
        bound(&object, operation, &mut handled)
            .map_err(|problem| PatchError::TooLarge(format!("operation {i}: {problem}")))?;
        let operation = &*lenient(&object, operation);
        run(&mut object, std::slice::from_ref(operation)).map_err(|error| {
            let path = operation.path();
            let problem = match error.kind {
                PatchErrorKind::TestFailed => format!("testing value {path} failed"),
                kind => format!("{path}: {kind}"),
            };
            PatchError::Unfit(format!("operation {i}: {problem}"))
        })?;
    }
    Ok(object)
}

/// What Kubernetes does where RFC 6902 wants an error: to replace a field that an object does
/// not have yet is to add it.
fn lenient<'a>(object: &Value, operation: &'a PatchOperation) -> Cow<'a, PatchOperation> {
    let PatchOperation::Replace(replace) = operation else {
        return Cow::Borrowed(operation);
    };
    let above = replace.path.parent();
    let above = above.and_then(|above| object.pointer(above.as_str()));
    let is_new = object.pointer(replace.path.as_str()).is_none();
    if is_new && above.is_some_and(Value::is_object) {
        return Cow::Owned(PatchOperation::Add(AddOperation {
            path: replace.path.clone(),
            value: replace.value.clone(),
        }));
    }
    Cow::Borrowed(operation)
}

fn bound(object: &Value, operation: &PatchOperation, handled: &mut usize) -> Result<(), String> {
    let (path, value, counts) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value), false),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value), false),
        PatchOperation::Copy(copy) => (&copy.path, object.pointer(copy.from.as_str()), true),
        PatchOperation::Move(step) => (&step.path, object.pointer(step.from.as_str()), true),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    // What is not there fails when the operation runs.
    let Some(value) = value else {
        return Ok(());
    };
    let (bytes, depth) = measure(value);
    if path.as_str().matches('/').count() + depth > MAX_DEPTH {
        return Err(format!("the object would be deeper than {MAX_DEPTH}"));
    }
    if counts {
        *handled += bytes;
        if *handled > MAX_HANDLED_BYTES {
            return Err(format!(
                "copies and moves of more than {MAX_HANDLED_BYTES} bytes in one patch"
            ));
        }
    }
    Ok(())
}

/// About how long a value is as JSON, and how deep. A value that is here is never deeper
/// than [`MAX_DEPTH`] below what a reader of JSON lets through.
fn measure(value: &Value) -> (usize, usize) {
    let inner = |bytes: usize, values: &mut dyn Iterator<Item = (usize, &Value)>| {
        values.fold((bytes, 1), |(bytes, deepest), (extra, value)| {
            let (inner, depth) = measure(value);
            (bytes + extra + inner + 1, deepest.max(depth + 1))
        })
    };
    match value {
        Value::Array(items) => inner(2, &mut items.iter().map(|item| (0, item))),
        Value::Object(fields) => inner(2, &mut fields.iter().map(|(k, v)| (k.len() + 3, v))),
        Value::String(text) => (text.len() + 2, 0),
        Value::Number(_) => (8, 0),
        Value::Null | Value::Bool(_) => (4, 0),
    }
}
