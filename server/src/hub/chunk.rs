//! Parts of the log, as a watch delivers them.

use std::sync::Arc;

use super::window::{SharedCommit, response_weight};
use crate::store::{Commit, LogChunk, PageLimit};

/// Commits from the store as those of a window.
pub(super) fn share(commits: Vec<Arc<Commit>>) -> Vec<Arc<SharedCommit>> {
    let own = |commit| SharedCommit::new(Arc::unwrap_or_clone(commit));
    commits.into_iter().map(own).collect()
}

/// Cuts a chunk to what fits one response: whole commits, at least one. The rest is read
/// again by the next step.
pub(super) fn fit(chunk: &mut LogChunk, limit: PageLimit) {
    let mut bytes = 0;
    let fits = chunk.commits.iter().position(|commit| {
        let first = bytes == 0;
        bytes += response_weight(commit);
        !first && bytes > limit.bytes
    });
    if let Some(count) = fits {
        chunk.commits.truncate(count);
        if let Some(last) = chunk.commits.last() {
            chunk.scanned_to = last.revision;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use bytes::Bytes;

    use super::*;
    use crate::store::{Change, Content, Event, Key, Object, Revision, Uid};

    /// A commit that weighs so much in a response, 300 at least.
    fn commit(revision: u64, weight: usize) -> Arc<Commit> {
        let revision = Revision::new(revision);
        let content = |bytes| Content {
            value: Bytes::from(vec![b'x'; bytes]),
            ..Content::default()
        };
        let object = |bytes| {
            Arc::new(Object::new(
                Key::new("pods", "", "a").unwrap(),
                Uid(1),
                revision,
                revision,
                SystemTime::UNIX_EPOCH,
                content(bytes),
            ))
        };
        let commit = |bytes| Commit {
            revision,
            time: SystemTime::UNIX_EPOCH,
            events: vec![Event {
                change: Change::Updated,
                object: object(bytes),
                previous_revision: None,
                previous: None,
            }],
            trace: None,
        };
        let commit = commit(weight - response_weight(&commit(0)));
        assert_eq!(response_weight(&commit), weight);
        Arc::new(commit)
    }

    #[test]
    fn a_part_of_the_log_is_cut_to_whole_commits_that_fit_and_to_one_at_least() {
        // Up to 9, where there is nothing more for this collection.
        let fitted = |weights: &[usize], bytes: usize| {
            let commits = (1..).zip(weights);
            let mut chunk = LogChunk {
                commits: commits.map(|(n, weight)| commit(n, *weight)).collect(),
                scanned_to: Revision::new(9),
                head: Revision::new(9),
            };
            fit(&mut chunk, PageLimit { items: 100, bytes });
            (chunk.commits.len(), chunk.scanned_to.get())
        };
        assert_eq!(fitted(&[300, 400, 500], 1200), (3, 9));
        assert_eq!(fitted(&[300, 400, 500], 1199), (2, 2));
        assert_eq!(fitted(&[300, 400, 500], 700), (2, 2));
        assert_eq!(fitted(&[300, 400, 500], 699), (1, 1));
        assert_eq!(fitted(&[300, 400, 500], 1), (1, 1));
        assert_eq!(fitted(&[700], 1), (1, 9));
        assert_eq!(fitted(&[], 1), (0, 9));
    }
}
