//! What is written down of each response to a watch: how many events of which type, how late
//! they are, and which writes they carry on. Once a response, in plain atomics.

use crate::{
    clock::Clock,
    hub::{Cursor, EVENT_TYPES, Step},
    measure::{Tally, nanoseconds},
    traces::Delivered,
};

/// Accounts for a step that is sent. `in_step`: the watch had caught up, so that what comes
/// late now is late.
pub(crate) fn sent(cursor: &Cursor, step: &Step, in_step: bool, clock: &Clock) {
    if step.deliveries.is_empty() {
        return;
    }
    let mut types = [0; EVENT_TYPES.len()];
    let mut delivered = Delivered::default();
    let mut late: Option<(_, Tally<'_>)> =
        in_step.then(|| (clock.now(), cursor.hub_figures().delivery.tally()));
    for delivery in &step.deliveries {
        types[delivery.kind.place()] += 1;
        let Some(commit) = delivery.commit() else {
            continue;
        };
        if let Some((now, late)) = &mut late {
            // A clock that was set back makes no event early.
            let age = now.duration_since(commit.time).unwrap_or_default();
            late.add(nanoseconds(age), 1);
        }
        delivered.note(commit);
    }
    cursor.figures().send(&types);
    delivered.finish(
        cursor.selector().collection().as_str(),
        step.deliveries.len(),
    );
}
