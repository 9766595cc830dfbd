//! How much one answer holds, and that the next one goes on just there.

use super::{
    conformance::{Fixture, brief, every_store},
    *,
};

every_store!(
    a_page_is_full_at_just_the_bytes_that_were_asked_for,
    a_limit_may_be_as_large_as_can_be_said,
    a_name_that_is_the_prefix_comes_once_and_the_namespace_ends,
    a_chunk_of_the_log_ends_at_either_limit_and_with_a_whole_commit,
    a_net_difference_in_bytes_splits_no_revision,
    a_net_difference_over_collections_leaves_none_out,
);

/// Says whether less than so many steps were taken: what does not get on must not go on for ever.
fn steps(most: usize) -> impl FnMut() -> bool {
    let mut steps = 0..most;
    move || steps.next().is_some()
}

/// Puts of 1,000 bytes are limited by values, so that what is added to them does not matter.
const VALUE: usize = 1000;

fn large(name: &str) -> Operation {
    put(name, &"x".repeat(VALUE))
}

fn put_in(collection: &str, namespace: &str, name: &str) -> Operation {
    Operation::Put {
        key: Key::new(collection, namespace, name).unwrap(),
        condition: PutCondition::Any,
        content: content("1"),
    }
}

fn revisions(chunk: &LogChunk) -> Vec<u64> {
    brief(chunk).into_iter().map(|event| event.0).collect()
}

async fn a_page_is_full_at_just_the_bytes_that_were_asked_for(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    for name in ["ab", "cd", "ef"] {
        let mut operation = put(name, "0123456789");
        if let Operation::Put { content, .. } = &mut operation {
            content.labels.insert("k".into(), "vvv".into());
        }
        write(&*store, operation).await;
    }
    // "default", the name, the label, the value.
    let one = 7 + 2 + 4 + 10;
    for (bytes, objects) in [
        (0, 1),
        (one, 1),
        (one + 1, 2),
        (2 * one, 2),
        (2 * one + 1, 3),
    ] {
        let limit = PageLimit { items: 10, bytes };
        let page = store.list(&all_pods(), r(3), limit).await.unwrap();
        assert_eq!(page.objects.len(), objects, "of {bytes} bytes");
        let last = (objects < 3).then(|| page.objects[objects - 1].key.object.clone());
        assert_eq!(page.next, last, "after {bytes} bytes");
    }
}

async fn a_limit_may_be_as_large_as_can_be_said(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    for name in ["a", "b"] {
        write(&*store, put(name, "1")).await;
    }
    let limit = PageLimit {
        items: usize::MAX,
        bytes: usize::MAX,
    };
    let page = store.list(&all_pods(), r(2), limit).await.unwrap();
    assert_eq!((page.objects.len(), page.next), (2, None));
    for collection in [None, Some(pods())] {
        let collection = collection.as_ref();
        let log = store.read_log(collection, r(0), limit).await.unwrap();
        let net = store.changes_since(collection, r(0), limit).await.unwrap();
        assert_eq!((revisions(&log), revisions(&net)), (vec![1, 2], vec![1, 2]));
    }
}

async fn a_name_that_is_the_prefix_comes_once_and_the_namespace_ends(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    for (namespace, name) in [
        ("alpha", "b"),
        ("default", "a"),
        ("default", "b"),
        ("default", "b-1"),
        ("default", "c"),
        ("kube", "a"),
        ("kube", "b"),
    ] {
        write(&*store, put_in("pods", namespace, name)).await;
    }
    for (prefix, expected) in [
        ("", &["a", "b", "b-1", "c"][..]),
        ("b", &["b", "b-1"]),
        ("b-1", &["b-1"]),
        ("d", &[]),
    ] {
        let mut range = KeyRange {
            namespace: Some("default".into()),
            name_prefix: prefix.into(),
            ..all_pods()
        };
        let one = PageLimit {
            items: 1,
            bytes: 1 << 20,
        };
        let (mut found, mut step) = (Vec::new(), steps(10));
        while step() {
            let page = store.list(&range, r(7), one).await.unwrap();
            found.extend(page.objects.iter().map(|o| format!("{:?}", o.key.object)));
            match page.next {
                Some(next) => range.after = Bound::Excluded(next),
                None => break,
            }
        }
        let expected: Vec<_> = expected.iter().map(|n| format!("default/{n}")).collect();
        assert_eq!(found, expected, "that begin with {prefix:?}");
    }
}

async fn a_chunk_of_the_log_ends_at_either_limit_and_with_a_whole_commit(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    store.commit(batch([large("a"), large("b")])).await.unwrap();
    for name in ["a", "b", "c"] {
        write(&*store, large(name)).await;
    }
    for collection in [None, Some(pods())] {
        for (items, bytes, expected) in [
            // By either, alone.
            (1, 1 << 20, &[1, 1][..]),
            (2, 1 << 20, &[1, 1]),
            (3, 1 << 20, &[1, 1, 2]),
            (100, VALUE / 2, &[1, 1]),
            (100, 2 * VALUE + VALUE / 2, &[1, 1, 2]),
            (100, 1 << 20, &[1, 1, 2, 3, 4]),
        ] {
            let limit = PageLimit { items, bytes };
            let chunk = store.read_log(collection.as_ref(), r(0), limit).await;
            let chunk = chunk.unwrap();
            assert_eq!(revisions(&chunk), expected, "{limit:?} of {collection:?}");
            let last = expected.last().copied().unwrap();
            assert_eq!((chunk.scanned_to, chunk.head), (r(last), r(4)), "{limit:?}");
        }
    }
}

async fn a_net_difference_in_bytes_splits_no_revision(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    write(&*store, put("b", "superseded")).await;
    store.commit(batch([large("a"), large("b")])).await.unwrap();
    write(&*store, large("c")).await;
    write(&*store, large("d")).await;
    for (bytes, expected) in [
        (0, &[2, 2][..]),
        (VALUE / 2, &[2, 2]),
        (2 * VALUE + VALUE / 2, &[2, 2, 3]),
        (1 << 20, &[2, 2, 3, 4]),
    ] {
        let limit = PageLimit { items: 100, bytes };
        let chunk = store.changes_since(None, r(1), limit).await.unwrap();
        assert_eq!(revisions(&chunk), expected, "of {bytes} bytes");
        let last = expected.last().copied().unwrap();
        assert_eq!((chunk.scanned_to, chunk.head), (r(last), r(4)));
        // The client may never have seen what was replaced.
        let mut events = chunk.commits.iter().flat_map(|commit| &commit.events);
        assert!(events.all(|e| e.previous_revision.is_none() && e.previous.is_none()));
    }
}

async fn a_net_difference_over_collections_leaves_none_out(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    for (collection, name) in [
        ("pods", "a"),
        ("nodes", "a"),
        ("pods", "b"),
        ("pods", "c"),
        ("nodes", "b"),
        ("events", "a"),
    ] {
        write(&*store, put_in(collection, "default", name)).await;
    }
    let both = ["pods", "nodes"].map(|collection| put_in(collection, "default", "z"));
    store.commit(batch(both)).await.unwrap();
    for items in 1..=8 {
        for tombstones in [true, false] {
            let limit = PageLimit {
                items,
                bytes: 1 << 20,
            };
            let (mut at, mut found, mut step) = (r(0), Vec::new(), steps(10));
            while step() {
                let chunk = if tombstones {
                    store.changes_since(None, at, limit).await.unwrap()
                } else {
                    store.live_since(None, at, limit).await.unwrap()
                };
                assert!(chunk.commits.len() <= items);
                found.extend(revisions(&chunk));
                at = chunk.scanned_to;
                if at == chunk.head {
                    break;
                }
            }
            assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 7], "{items} at a time");
            assert_eq!(at, r(7));
        }
    }
}
