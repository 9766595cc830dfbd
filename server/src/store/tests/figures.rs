//! What a store says of itself, and bounds that are tried on both sides.

use std::task::{Context, Poll, Waker};

use super::{
    conformance::{Fixture, brief, every_store, put_until},
    *,
};

every_store!(
    the_status_counts_what_there_is,
    the_figures_count_what_was_written,
    the_revision_to_read_at_has_every_acknowledged_commit,
    identities_are_random_in_all_their_bits,
    the_compacted_revision_itself_can_be_pinned,
    a_deletion_is_remembered_for_all_of_its_retention,
    a_request_is_remembered_for_all_of_its_window,
    compaction_keeps_the_history_of_each_collection_above_it,
);

fn nodes() -> Collection {
    Collection::new("nodes").unwrap()
}

fn put_node(name: &str) -> Operation {
    Operation::Put {
        key: Key::new("nodes", "", name).unwrap(),
        condition: PutCondition::Any,
        content: content("1"),
    }
}

async fn the_status_counts_what_there_is(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    for operation in [put("a", "1"), put("b", "1"), put("a", "2"), put_node("n")] {
        write(&*store, operation).await;
    }
    let status = store.status();
    assert_eq!(status.collections, [(nodes(), 1), (pods(), 2)]);
    assert_eq!((status.object_count, status.tombstone_count), (3, 0));
    assert_eq!((status.full, status.failure), (false, None));
    assert!(status.database_bytes > 0);
    // A collection without objects is not there, although its deletions are remembered.
    write(&*store, delete("a")).await;
    write(&*store, delete("b")).await;
    let status = store.status();
    assert_eq!(status.collections, [(nodes(), 1)]);
    assert_eq!((status.object_count, status.tombstone_count), (1, 2));
}

async fn the_figures_count_what_was_written(fixture: &dyn Fixture) {
    let clock = TestClock::new();
    let store = fixture.open(clock.options());
    write(&*store, put("a", "1")).await;
    write(&*store, put("b", "1")).await;
    write(&*store, put_until("c", clock.now())).await;
    write(&*store, put("a", "2")).await;
    write(&*store, delete("b")).await;
    store.expire_due().await.unwrap();
    let figures = store.figures().unwrap();
    let written: Vec<u64> = figures.written().collect();
    assert_eq!(written, [3, 1, 1, 1], "{:?}", StoreFigures::CHANGES);
    assert_eq!(figures.failed.get(), 0);
}

async fn the_revision_to_read_at_has_every_acknowledged_commit(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    assert_eq!(store.read_revision().await.unwrap(), r(0));
    for _ in 0..3 {
        let done = write(&*store, put("a", "1")).await;
        assert_eq!(store.read_revision().await.unwrap(), done.revision);
    }
}

async fn identities_are_random_in_all_their_bits(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    let mut ids = vec![store.id().0];
    for name in ["a", "b", "c"] {
        let object = write(&*store, put(name, "1")).await.objects[0].clone();
        ids.push(object.unwrap().uid.0);
    }
    // Of a uid's halves, each with its fixed bits, none is like another's.
    for half in [|id: u128| id >> 80, |id: u128| id & u128::from(u32::MAX)] {
        let mut halves: Vec<_> = ids.iter().copied().map(half).collect();
        halves.sort_unstable();
        halves.dedup();
        assert_eq!(halves.len(), ids.len(), "{ids:x?}");
        assert!(!halves.contains(&0), "{ids:x?}");
    }
}

async fn the_compacted_revision_itself_can_be_pinned(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    for value in ["1", "2", "3", "4"] {
        write(&*store, put("a", value)).await;
    }
    store.compact(r(3), true).await.unwrap();
    assert_eq!(
        store.pin(r(2)).unwrap_err(),
        StoreError::Compacted {
            requested: r(2),
            compacted: r(3),
            revision: r(4)
        }
    );
    let pin = store.pin(r(3)).unwrap();
    assert_eq!(store.compact(r(4), true).await.unwrap(), r(3));
    drop(pin);
    assert_eq!(store.compact(r(4), true).await.unwrap(), r(4));
}

async fn a_deletion_is_remembered_for_all_of_its_retention(fixture: &dyn Fixture) {
    let clock = TestClock::new();
    let retention = Duration::from_secs(60);
    let store = fixture.open(StoreOptions {
        tombstone_retention: retention,
        ..clock.options()
    });
    write(&*store, put("a", "1")).await;
    write(&*store, delete("a")).await;
    write(&*store, put("b", "3")).await;
    clock.advance(retention);
    store.compact(r(3), true).await.unwrap();
    let chunk = store.changes_since(None, r(1), PAGE).await.unwrap();
    assert_eq!(brief(&chunk), [(2, "a".into(), '-'), (3, "b".into(), '+')]);
    clock.advance(Duration::from_millis(1));
    store.compact(r(3), true).await.unwrap();
    assert_eq!(store.progress().forgotten, r(2));
    assert_eq!(store.status().tombstone_count, 0);
}

async fn a_request_is_remembered_for_all_of_its_window(fixture: &dyn Fixture) {
    let clock = TestClock::new();
    let window = Duration::from_secs(60);
    let store = fixture.open(StoreOptions {
        request_window: window,
        ..clock.options()
    });
    let request = || WriteBatch {
        operations: vec![put("a", "1")],
        request: Some(RequestId {
            id: "x".into(),
            fingerprint: 1,
        }),
        ..WriteBatch::default()
    };
    assert_eq!(store.commit(request()).await.unwrap().revision, r(1));
    clock.advance(window);
    let again = store.commit(request()).await.unwrap();
    assert_eq!((again.revision, again.replayed), (r(1), true));
    clock.advance(Duration::from_millis(1));
    let late = store.commit(request()).await.unwrap();
    assert_eq!((late.revision, late.replayed), (r(2), false));
}

async fn compaction_keeps_the_history_of_each_collection_above_it(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    let operations = [
        put("a", "1"),
        put("a", "2"),
        put_node("n"),
        put_node("n"),
        put("a", "5"),
    ];
    for operation in operations {
        write(&*store, operation).await;
    }
    for (compacted, of_nodes) in [(2, &[3, 4][..]), (3, &[4]), (4, &[])] {
        store.compact(r(compacted), true).await.unwrap();
        for (collection, expected) in [(nodes(), of_nodes), (pods(), &[5])] {
            let chunk = store.read_log(Some(&collection), r(compacted), PAGE).await;
            let chunk = chunk.unwrap();
            let found: Vec<_> = brief(&chunk).into_iter().map(|event| event.0).collect();
            assert_eq!(found, expected, "{collection} above {compacted}");
            assert_eq!(chunk.scanned_to, r(5));
        }
    }
}

/// Simulations step through it, and whoever embeds it may have no runtime of that kind.
#[test]
fn a_store_in_memory_is_done_when_the_call_returns() {
    fn at_once<T>(call: impl Future<Output = T>) -> T {
        let mut call = std::pin::pin!(call);
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("it waits"),
        }
    }
    let store = MemoryStore::new(TestClock::new().options());
    at_once(store.commit(batch([put("a", "1")]))).unwrap();
    let object = at_once(store.get(&key("a"), r(1))).unwrap();
    assert!(object.is_some());
    let page = at_once(store.list(&all_pods(), r(1), PAGE)).unwrap();
    assert_eq!(page.objects.len(), 1);
    let chunk = at_once(store.read_log(None, r(0), PAGE)).unwrap();
    assert_eq!(chunk.commits.len(), 1);
    assert_eq!(at_once(store.compact(r(1), true)).unwrap(), r(1));
}
