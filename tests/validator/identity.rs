//! Which object is which, in the log.
//!
//! | check | promise |
//! | --- | --- |
//! | 26 | an object keeps its uid and the revision of its creation until it is deleted; another of its name has others |

use std::collections::HashSet;

use super::{Model, Violation};

/// Checks a whole log. `base`: it begins after this revision, with the state that it has there.
pub fn check_identity(log: &Model, base: i64) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut uids = HashSet::new();
    for (revision, name, now, _) in log.changes() {
        let Some(now) = now else {
            continue;
        };
        let fits = match log.version(name, revision - 1) {
            Some(before) => {
                (&now.uid, now.create_revision) == (&before.uid, before.create_revision)
            }
            None => uids.insert(&now.uid) && now.create_revision == revision,
        };
        if !fits && revision > base {
            let what = format!(
                "{name:?}@{revision} is {:?}, created at {}",
                now.uid, now.create_revision
            );
            found.push(Violation { check: 26, what });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use listwatch::v1::{self, DeleteCause};

    use super::*;
    use crate::validator::name_of;

    fn pod(revision: i64, uid: &str, create_revision: i64) -> v1::Resource {
        v1::Resource {
            key: Some(v1::Key {
                collection: "pods".into(),
                name: "a".into(),
                ..v1::Key::default()
            }),
            uid: uid.into(),
            revision,
            create_revision,
            ..v1::Resource::default()
        }
    }

    /// Written twice and deleted; then this.
    fn found(last: v1::Resource, base: i64) -> usize {
        let mut log = Model::default();
        log.put(pod(1, "u1", 1));
        log.put(pod(2, "u1", 1));
        log.delete(name_of(&pod(3, "", 0)), 3, DeleteCause::Request);
        log.put(pod(4, "u2", 4));
        log.put(last);
        check_identity(&log, base).len()
    }

    #[test]
    fn check_26_an_object_that_is_suddenly_another_is_found() {
        assert_eq!(found(pod(5, "u2", 4), 0), 0);
        assert_eq!(found(pod(5, "u3", 4), 0), 1);
        assert_eq!(found(pod(5, "u2", 5), 0), 1);
        assert_eq!(found(pod(5, "u3", 4), 5), 0);
        let mut again = Model::default();
        again.put(pod(1, "u1", 1));
        again.delete(name_of(&pod(2, "", 0)), 2, DeleteCause::Request);
        again.put(pod(3, "u1", 3));
        assert_eq!(check_identity(&again, 0).len(), 1);
        let mut older = Model::default();
        older.put(pod(3, "u1", 1));
        assert_eq!(check_identity(&older, 0).len(), 1);
        assert_eq!(check_identity(&older, 3).len(), 0);
    }
}
