//! What every store promises, run against every store.

use super::*;

/// Makes the store under test.
pub(super) trait Fixture {
    fn open(&self, options: StoreOptions) -> Arc<dyn Store>;
}

pub(super) struct Memory;

impl Fixture for Memory {
    fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(options))
    }
}

/// A store on disk, in a folder that goes with the fixture.
pub(super) struct Sled(pub(super) tempfile::TempDir);

impl Fixture for Sled {
    fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        Arc::new(SledStore::open(self.0.path(), options).unwrap())
    }
}

macro_rules! every_store {
    ($($case:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $case() {
                super::$case(&$crate::store::tests::conformance::Memory).await;
            })*
        }
        mod sled {
            $(#[tokio::test]
            async fn $case() {
                let folder = tempfile::tempdir().unwrap();
                super::$case(&$crate::store::tests::conformance::Sled(folder)).await;
            })*
        }
    };
}
pub(super) use every_store;

every_store!(
    a_batch_takes_one_revision_and_its_events_stay_together,
    conditions_hold_or_nothing_is_written,
    concurrent_creates_of_one_name_have_one_winner,
    reads_at_a_retained_revision_see_that_state,
    lists_are_ordered_and_paged_at_one_revision,
    the_log_gives_each_change_with_its_previous_version,
    the_feed_begins_after_the_newest_commit,
    compaction_keeps_the_newest_version_of_each_key,
    the_deletion_at_the_compacted_revision_survives,
    deletions_are_forgotten_by_age_in_revision_order,
    deletions_are_forgotten_by_count,
    the_net_difference_crosses_compacted_history,
    a_deleted_and_recreated_object_has_another_uid,
    a_repeated_request_id_gives_the_first_answer,
    an_expired_object_is_deleted_with_its_cause,
    a_renewed_object_outlives_its_first_deadline,
    a_pin_holds_compaction_back,
    a_time_names_the_revision_that_was_newest_then,
    a_full_store_refuses_puts_and_recovers,
    a_closed_store_says_so,
    reads_stay_whole_beside_writes_and_compactions,
);

async fn value(store: &dyn Store, name: &str, at: u64) -> Option<String> {
    let object = store.get(&key(name), r(at)).await.unwrap()?;
    Some(String::from_utf8(object.content.value.to_vec()).unwrap())
}

/// Events as (revision, name, sign) for short comparisons.
pub(super) fn brief(chunk: &LogChunk) -> Vec<(u64, String, char)> {
    chunk
        .commits
        .iter()
        .flat_map(|commit| &commit.events)
        .map(|event| {
            let sign = match event.change {
                Change::Created => '+',
                Change::Updated => '~',
                Change::Deleted(_) => '-',
            };
            let object = &event.object;
            (object.revision.get(), object.key.name().to_owned(), sign)
        })
        .collect()
}

async fn a_batch_takes_one_revision_and_its_events_stay_together(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    assert_eq!(store.progress().revision, Revision::ZERO);
    let done = store.commit(batch([put("a", "1"), put("b", "1")])).await;
    assert_eq!(done.unwrap().revision, r(1));
    write(&*store, put("c", "1")).await;
    let limit = PageLimit { items: 1, bytes: 1 };
    let chunk = store.read_log(None, r(0), limit).await.unwrap();
    assert_eq!(chunk.commits.len(), 1);
    assert_eq!(chunk.commits[0].events.len(), 2);
    assert_eq!((chunk.scanned_to, chunk.head), (r(1), r(2)));
    let chunk = store.read_log(Some(&pods()), r(0), limit).await.unwrap();
    assert_eq!(chunk.commits[0].events.len(), 2);
    assert_eq!((chunk.scanned_to, chunk.head), (r(1), r(2)));
}

async fn conditions_hold_or_nothing_is_written(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    let first = write(&*store, put_if("a", "1", PutCondition::Absent)).await;
    let uid = first.objects[0].as_ref().unwrap().uid;
    let fails = |second: Operation| {
        let store = store.clone();
        async move {
            let both = batch([put("other", "x"), second]);
            let error = store.commit(both).await.unwrap_err();
            assert_eq!(store.progress().revision, r(1), "{error}");
            error
        }
    };
    let exists = CommitError::Exists {
        operation: 1,
        revision: r(1),
    };
    assert_eq!(fails(put_if("a", "2", PutCondition::Absent)).await, exists);
    let absent = CommitError::NotFound { operation: 1 };
    assert_eq!(fails(put_if("b", "2", PutCondition::Present)).await, absent);
    assert_eq!(
        fails(put_if("b", "2", PutCondition::At(r(1)))).await,
        absent
    );
    assert_eq!(fails(delete("b")).await, absent);
    let elsewhere = |current| CommitError::RevisionMismatch {
        operation: 1,
        current,
    };
    let wrong = PutCondition::At(r(7));
    assert_eq!(fails(put_if("a", "2", wrong)).await, elsewhere(Some(r(1))));
    let delete_if = |if_revision, if_uid| Operation::Delete {
        key: key("a"),
        if_revision,
        if_uid,
        allow_missing: false,
        cause: DeleteCause::Request,
    };
    assert_eq!(
        fails(delete_if(Some(r(7)), None)).await,
        elsewhere(Some(r(1)))
    );
    assert_eq!(
        fails(delete_if(None, Some(Uid(1)))).await,
        CommitError::UidMismatch {
            operation: 1,
            current: uid
        }
    );
    let check = |name: &str, revision| Operation::Check {
        key: key(name),
        revision,
    };
    assert_eq!(fails(check("a", None)).await, exists);
    assert_eq!(fails(check("a", Some(r(7)))).await, elsewhere(Some(r(1))));
    assert_eq!(fails(check("b", Some(r(1)))).await, elsewhere(None));

    // Checks and allowed absences alone write nothing.
    let nothing = store
        .commit(batch([
            check("a", Some(r(1))),
            check("b", None),
            Operation::Delete {
                key: key("c"),
                if_revision: None,
                if_uid: None,
                allow_missing: true,
                cause: DeleteCause::Request,
            },
        ]))
        .await
        .unwrap();
    assert_eq!(nothing.revision, r(1));
    assert_eq!(nothing.objects[0].as_ref().unwrap().uid, uid);
    assert!(nothing.objects[1].is_none() && nothing.objects[2].is_none());
    write(&*store, put_if("a", "2", PutCondition::At(r(1)))).await;
    write(&*store, delete_if(Some(r(2)), Some(uid))).await;
    assert_eq!(store.progress().revision, r(3));
}

async fn concurrent_creates_of_one_name_have_one_winner(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    let tries = (0..32).map(|i| {
        let store = store.clone();
        tokio::spawn(async move {
            let create = put_if("a", &i.to_string(), PutCondition::Absent);
            store.commit(batch([create])).await
        })
    });
    let mut won = 0;
    for one in tries.collect::<Vec<_>>() {
        match one.await.unwrap() {
            Ok(_) => won += 1,
            Err(error) => assert!(matches!(error, CommitError::Exists { .. }), "{error}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(store.progress().revision, r(1));
}

async fn reads_at_a_retained_revision_see_that_state(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    write(&*store, put("a", "1")).await;
    write(&*store, put("a", "2")).await;
    write(&*store, delete("a")).await;
    write(&*store, put("a", "4")).await;
    assert_eq!(value(&*store, "a", 0).await, None);
    assert_eq!(value(&*store, "a", 1).await.as_deref(), Some("1"));
    assert_eq!(value(&*store, "a", 2).await.as_deref(), Some("2"));
    assert_eq!(value(&*store, "a", 3).await, None);
    assert_eq!(value(&*store, "a", 4).await.as_deref(), Some("4"));
    assert_eq!(
        store.get(&key("a"), r(5)).await.unwrap_err(),
        StoreError::Future {
            requested: r(5),
            latest: r(4)
        }
    );
}

async fn lists_are_ordered_and_paged_at_one_revision(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    let names = ["b-2", "a", "b", "c", "b-1"];
    for name in names {
        write(&*store, put(name, "1")).await;
    }
    let elsewhere = Key::new("pods", "alpha", "b-9").unwrap();
    let other = Key::new("nodes", "", "n").unwrap();
    for key in [elsewhere, other] {
        let operation = Operation::Put {
            key,
            condition: PutCondition::Any,
            content: content("1"),
        };
        write(&*store, operation).await;
    }
    let at = store.progress().revision;
    write(&*store, delete("b")).await;
    write(&*store, put("a0", "1")).await;

    let mut range = all_pods();
    let mut found = Vec::new();
    let limit = PageLimit {
        items: 2,
        bytes: 1 << 20,
    };
    loop {
        let page = store.list(&range, at, limit).await.unwrap();
        assert!(page.objects.len() <= 2);
        found.extend(page.objects.iter().map(|o| format!("{:?}", o.key.object)));
        match page.next {
            Some(next) => range.after = Bound::Excluded(next),
            None => break,
        }
    }
    let all = [
        "alpha/b-9",
        "default/a",
        "default/b",
        "default/b-1",
        "default/b-2",
        "default/c",
    ];
    assert_eq!(found, all);

    let names = |range: KeyRange| {
        let store = store.clone();
        async move {
            let page = store.list(&range, at, PAGE).await.unwrap();
            let names = page.objects.iter().map(|o| format!("{:?}", o.key.object));
            names.collect::<Vec<_>>()
        }
    };
    let mut range = all_pods();
    range.name_prefix = "b-".into();
    assert_eq!(names(range.clone()).await, [all[0], all[3], all[4]]);
    range.namespace = Some("default".into());
    assert_eq!(names(range.clone()).await, [all[3], all[4]]);
    range.after = Bound::Excluded(ObjectName::new("default", "b-1").unwrap());
    assert_eq!(names(range).await, [all[4]]);
}

async fn the_log_gives_each_change_with_its_previous_version(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    write(&*store, put("a", "1")).await;
    write(&*store, put("a", "2")).await;
    write(&*store, delete("a")).await;
    for collection in [None, Some(pods())] {
        let chunk = store
            .read_log(collection.as_ref(), r(0), PAGE)
            .await
            .unwrap();
        assert_eq!(chunk.scanned_to, r(3));
        let events: Vec<_> = chunk.commits.iter().flat_map(|c| &c.events).collect();
        assert_eq!(events[0].change, Change::Created);
        assert!(events[0].previous.is_none());
        assert_eq!(events[1].change, Change::Updated);
        assert_eq!(events[1].previous_revision, Some(r(1)));
        let previous = events[1].previous.as_ref().unwrap();
        assert_eq!(&previous.content.value[..], b"1");
        assert_eq!(events[2].change, Change::Deleted(DeleteCause::Request));
        assert_eq!(&events[2].object.content.value[..], b"2");
        assert_eq!(events[2].object.revision, r(3));
        assert_eq!(events[2].object.create_revision, r(1));
    }
    let nodes = Collection::new("nodes").unwrap();
    let chunk = store.read_log(Some(&nodes), r(1), PAGE).await.unwrap();
    assert!(chunk.commits.is_empty());
    assert_eq!(chunk.scanned_to, r(3));
}

async fn the_feed_begins_after_the_newest_commit(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    write(&*store, put("a", "1")).await;
    let mut feed = store.subscribe();
    write(&*store, put("a", "2")).await;
    write(&*store, delete("a")).await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let commits = feed.recv().await.unwrap();
        seen.extend(commits.iter().map(|c| c.revision));
    }
    assert_eq!(seen, [r(2), r(3)]);
}

async fn compaction_keeps_the_newest_version_of_each_key(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    write(&*store, put("idle", "1")).await;
    write(&*store, put("a", "2")).await;
    write(&*store, put("a", "3")).await;
    write(&*store, put("a", "4")).await;
    write(&*store, put("a", "5")).await;
    assert_eq!(store.compact(r(4), true).await.unwrap(), r(4));
    assert_eq!(store.progress().compacted, r(4));
    assert_eq!(value(&*store, "idle", 4).await.as_deref(), Some("1"));
    assert_eq!(value(&*store, "a", 4).await.as_deref(), Some("4"));
    assert_eq!(value(&*store, "a", 5).await.as_deref(), Some("5"));
    let compacted = StoreError::Compacted {
        requested: r(3),
        compacted: r(4),
        revision: r(5),
    };
    assert_eq!(store.get(&key("a"), r(3)).await.unwrap_err(), compacted);
    let list = store.list(&all_pods(), r(3), PAGE).await;
    assert_eq!(list.unwrap_err(), compacted);
    assert_eq!(
        store.read_log(None, r(3), PAGE).await.unwrap_err(),
        compacted
    );
    let chunk = store.read_log(None, r(4), PAGE).await.unwrap();
    assert_eq!(brief(&chunk), [(5, "a".into(), '~')]);
    assert_eq!(
        &chunk.commits[0].events[0]
            .previous
            .as_ref()
            .unwrap()
            .content
            .value[..],
        b"4"
    );
    // Never back.
    assert_eq!(store.compact(r(2), true).await.unwrap(), r(4));
    assert!(matches!(
        store.compact(r(9), true).await,
        Err(StoreError::Future { .. })
    ));
}

/// etcd 18089, 19179.
async fn the_deletion_at_the_compacted_revision_survives(fixture: &dyn Fixture) {
    let clock = TestClock::new();
    let options = StoreOptions {
        tombstone_retention: Duration::ZERO,
        max_tombstones: 0,
        ..clock.options()
    };
    let store = fixture.open(options);
    write(&*store, put("a", "1")).await;
    write(&*store, delete("a")).await;
    clock.advance(Duration::from_secs(10));
    store.compact(r(2), true).await.unwrap();
    let chunk = store.changes_since(None, r(1), PAGE).await.unwrap();
    assert_eq!(brief(&chunk), [(2, "a".into(), '-')]);
    assert_eq!(store.progress().forgotten, r(0));
}

async fn deletions_are_forgotten_by_age_in_revision_order(fixture: &dyn Fixture) {
    let clock = TestClock::new();
    let options = StoreOptions {
        tombstone_retention: Duration::from_secs(60),
        ..clock.options()
    };
    let store = fixture.open(options);
    store
        .commit(batch([put("a", "1"), put("b", "1"), put("c", "1")]))
        .await
        .unwrap();
    write(&*store, delete("a")).await;
    clock.advance(Duration::from_secs(50));
    write(&*store, delete("b")).await;
    write(&*store, put("c", "4")).await;
    clock.advance(Duration::from_secs(20));
    store.compact(r(4), true).await.unwrap();
    assert_eq!(store.progress().forgotten, r(2));
    assert_eq!(store.status().tombstone_count, 1);
    assert_eq!(
        store.changes_since(None, r(1), PAGE).await.unwrap_err(),
        StoreError::Forgotten {
            requested: r(1),
            forgotten: r(2)
        }
    );
    let chunk = store.changes_since(None, r(2), PAGE).await.unwrap();
    assert_eq!(brief(&chunk), [(3, "b".into(), '-'), (4, "c".into(), '~')]);
    // Time alone moves the horizon, with nothing written.
    clock.advance(Duration::from_secs(60));
    store.compact(r(4), true).await.unwrap();
    assert_eq!(store.progress().forgotten, r(3));
    let chunk = store.live_since(None, r(0), PAGE).await.unwrap();
    assert_eq!(brief(&chunk), [(4, "c".into(), '~')]);
}

async fn deletions_are_forgotten_by_count(fixture: &dyn Fixture) {
    let options = StoreOptions {
        max_tombstones: 3,
        ..TestClock::new().options()
    };
    let store = fixture.open(options);
    for i in 0..10 {
        write(&*store, put(&format!("o{i}"), "1")).await;
        write(&*store, delete(&format!("o{i}"))).await;
    }
    store.compact(r(20), true).await.unwrap();
    assert_eq!(store.progress().forgotten, r(14));
    assert_eq!(store.status().tombstone_count, 3);
    let chunk = store.changes_since(None, r(14), PAGE).await.unwrap();
    assert_eq!(chunk.commits.len(), 3);
}

async fn the_net_difference_crosses_compacted_history(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    write(&*store, put("a", "1")).await;
    write(&*store, put("b", "2")).await;
    write(&*store, put("c", "3")).await;
    write(&*store, put("b", "4")).await;
    write(&*store, delete("c")).await;
    write(&*store, put("d", "6")).await;
    store.compact(r(6), true).await.unwrap();
    let all = [
        (4, "b".to_owned(), '~'),
        (5, "c".to_owned(), '-'),
        (6, "d".to_owned(), '+'),
    ];
    let chunk = store.changes_since(None, r(3), PAGE).await.unwrap();
    assert_eq!(brief(&chunk), all);
    assert_eq!(chunk.scanned_to, r(6));
    // In small steps, each of which resumes where the last one ended.
    let limit = PageLimit { items: 1, bytes: 1 };
    let (mut at, mut found) = (r(1), Vec::new());
    loop {
        let chunk = store.changes_since(Some(&pods()), at, limit).await.unwrap();
        found.extend(brief(&chunk));
        at = chunk.scanned_to;
        if at == chunk.head {
            break;
        }
    }
    assert_eq!(found, all);
    assert_eq!(store.count_changes(&pods(), r(3), 100), (3, 3));
    assert_eq!(store.count_changes(&pods(), r(3), 2), (2, 3));
    let live = store.live_since(None, r(0), PAGE).await.unwrap();
    assert_eq!(
        brief(&live),
        [
            (1, "a".into(), '+'),
            (4, "b".into(), '~'),
            (6, "d".into(), '+')
        ]
    );
    assert!(matches!(
        store.changes_since(None, r(7), PAGE).await,
        Err(StoreError::Future { .. })
    ));
}

async fn a_deleted_and_recreated_object_has_another_uid(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    let first = write(&*store, put("a", "1")).await.objects[0].clone();
    write(&*store, delete("a")).await;
    let second = write(&*store, put("a", "2")).await.objects[0].clone();
    let third = write(&*store, put("a", "3")).await.objects[0].clone();
    let (first, second, third) = (first.unwrap(), second.unwrap(), third.unwrap());
    assert_ne!(first.uid, second.uid);
    assert_eq!(second.uid, third.uid);
    assert_eq!(
        (second.create_revision, third.create_revision),
        (r(3), r(3))
    );
}

async fn a_repeated_request_id_gives_the_first_answer(fixture: &dyn Fixture) {
    let clock = TestClock::new();
    let store = fixture.open(clock.options());
    let request = |id: &str, fingerprint, operation| WriteBatch {
        operations: vec![operation],
        request: Some(RequestId {
            id: id.into(),
            fingerprint,
        }),
        ..WriteBatch::default()
    };
    let create = || put_if("a", "1", PutCondition::Absent);
    let first = store.commit(request("x", 1, create())).await.unwrap();
    let again = store.commit(request("x", 1, create())).await.unwrap();
    assert_eq!(again.revision, first.revision);
    let (first, again) = (
        first.objects[0].as_ref().unwrap(),
        again.objects[0].as_ref().unwrap(),
    );
    assert_eq!((first.uid, first.revision), (again.uid, again.revision));
    assert_eq!(first.update_time, again.update_time);
    assert!(again.content.value.is_empty());
    let other = store.commit(request("x", 2, put("b", "1"))).await;
    assert_eq!(other.unwrap_err(), CommitError::RequestIdReused);
    // A failed request is not remembered.
    let refused = store.commit(request("y", 1, create())).await;
    assert!(matches!(refused, Err(CommitError::Exists { .. })));
    store.commit(request("y", 2, put("b", "1"))).await.unwrap();
    // Nor one for longer than the window.
    clock.advance(Duration::from_secs(601));
    write(&*store, put("c", "1")).await;
    let late = store.commit(request("x", 1, create())).await;
    assert!(matches!(late, Err(CommitError::Exists { .. })));
}

pub(super) fn put_until(name: &str, time: SystemTime) -> Operation {
    Operation::Put {
        key: key(name),
        condition: PutCondition::Any,
        content: Content {
            expire_time: Some(time),
            ..content("1")
        },
    }
}

async fn an_expired_object_is_deleted_with_its_cause(fixture: &dyn Fixture) {
    let clock = TestClock::new();
    let store = fixture.open(clock.options());
    let deadline = clock.now() + Duration::from_secs(10);
    write(&*store, put_until("a", deadline)).await;
    assert_eq!(store.expire_due().await.unwrap(), Some(deadline));
    assert_eq!(store.progress().revision, r(1));
    clock.advance(Duration::from_secs(10));
    assert_eq!(store.expire_due().await.unwrap(), None);
    assert_eq!(value(&*store, "a", 2).await, None);
    let chunk = store.read_log(None, r(1), PAGE).await.unwrap();
    let event = &chunk.commits[0].events[0];
    assert_eq!(event.change, Change::Deleted(DeleteCause::Expired));
}

async fn a_renewed_object_outlives_its_first_deadline(fixture: &dyn Fixture) {
    let clock = TestClock::new();
    let store = fixture.open(clock.options());
    let at = |seconds| clock.now() + Duration::from_secs(seconds);
    let (first, second) = (at(10), at(20));
    write(&*store, put_until("a", first)).await;
    write(&*store, put_until("a", second)).await;
    write(&*store, put_until("b", first)).await;
    write(&*store, put("b", "for ever")).await;
    clock.advance(Duration::from_secs(15));
    assert_eq!(store.expire_due().await.unwrap(), Some(second));
    assert_eq!(store.progress().revision, r(4));
    clock.advance(Duration::from_secs(5));
    assert_eq!(store.expire_due().await.unwrap(), None);
    assert_eq!(store.progress().revision, r(5));
    assert_eq!(store.status().object_count, 1);
}

async fn a_pin_holds_compaction_back(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    for i in 1..=5 {
        write(&*store, put("a", &i.to_string())).await;
    }
    let pin = store.pin(r(2)).unwrap();
    let second = store.pin(r(2)).unwrap();
    assert_eq!(store.compact(r(4), true).await.unwrap(), r(2));
    drop(pin);
    assert_eq!(store.compact(r(4), true).await.unwrap(), r(2));
    assert_eq!(value(&*store, "a", 2).await.as_deref(), Some("2"));
    drop(second);
    assert_eq!(store.compact(r(4), true).await.unwrap(), r(4));
    assert!(matches!(store.pin(r(2)), Err(StoreError::Compacted { .. })));
    assert!(matches!(store.pin(r(9)), Err(StoreError::Future { .. })));
}

async fn a_time_names_the_revision_that_was_newest_then(fixture: &dyn Fixture) {
    let clock = TestClock::new();
    let store = fixture.open(clock.options());
    let start = clock.now();
    assert_eq!(store.revision_at(start), r(0));
    write(&*store, put("a", "1")).await;
    write(&*store, put("a", "2")).await;
    clock.advance(Duration::from_secs(10));
    write(&*store, put("a", "3")).await;
    assert_eq!(store.revision_at(start - Duration::from_secs(1)), r(0));
    assert_eq!(store.revision_at(start), r(2));
    assert_eq!(store.revision_at(start + Duration::from_secs(9)), r(2));
    assert_eq!(store.revision_at(start + Duration::from_secs(10)), r(3));
    store.compact(r(3), true).await.unwrap();
    assert_eq!(store.revision_at(start + Duration::from_secs(99)), r(3));
}

/// etcd 9992, 16779, 14497.
async fn a_full_store_refuses_puts_and_recovers(fixture: &dyn Fixture) {
    let options = StoreOptions {
        quota_bytes: 24 << 20,
        segment_bytes: 1 << 20,
        ..TestClock::new().options()
    };
    let store = fixture.open(options);
    let large = "x".repeat(256 << 10);
    let mut full = None;
    for i in 0..2000 {
        match store
            .commit(batch([put(&format!("o{}", i % 8), &large)]))
            .await
        {
            Ok(_) => {}
            Err(error) => {
                full = Some(error);
                break;
            }
        }
    }
    assert!(
        matches!(full, Some(CommitError::StorageFull(_))),
        "{full:?}"
    );
    assert!(store.status().full);
    let at = store.progress().revision;
    assert_eq!(
        store
            .list(&all_pods(), at, PAGE)
            .await
            .unwrap()
            .objects
            .len(),
        4
    );
    write(&*store, delete("o0")).await;
    let at = store.progress().revision;
    store.compact(at, true).await.unwrap();
    assert!(!store.status().full, "{:?}", store.status());
    write(&*store, put("o0", &large)).await;
}

async fn a_closed_store_says_so(fixture: &dyn Fixture) {
    let store = fixture.open(TestClock::new().options());
    write(&*store, put("a", "1")).await;
    store.close().await;
    store.close().await;
    let closed = store.commit(batch([put("a", "2")])).await;
    assert_eq!(closed.unwrap_err(), CommitError::Store(StoreError::Closed));
    let read = store.get(&key("a"), r(1)).await;
    assert_eq!(read.unwrap_err(), StoreError::Closed);
}

async fn reads_stay_whole_beside_writes_and_compactions(fixture: &dyn Fixture) {
    const OBJECTS: usize = 50;
    let options = StoreOptions {
        segment_bytes: 32 << 10,
        ..TestClock::new().options()
    };
    let store = fixture.open(options);
    let all = (0..OBJECTS).map(|i| put(&format!("o{i:02}"), "0"));
    store.commit(batch(all)).await.unwrap();
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for i in 0..1500 {
                let value = format!("{i} {}", "x".repeat(200));
                write(&*store, put(&format!("o{:02}", i % OBJECTS), &value)).await;
                tokio::task::yield_now().await;
            }
        })
    };
    let compactor = {
        let store = store.clone();
        tokio::spawn(async move {
            loop {
                let at = store.progress().revision;
                store.compact(at, true).await.unwrap();
                tokio::task::yield_now().await;
            }
        })
    };
    let compacted = |error| assert!(matches!(error, StoreError::Compacted { .. }), "{error}");
    let mut whole = 0;
    while !writer.is_finished() {
        let at = store.progress().revision;
        match store.list(&all_pods(), at, PAGE).await {
            Ok(page) => {
                assert_eq!(page.objects.len(), OBJECTS);
                assert!(page.objects.iter().all(|o| o.revision <= at));
                whole += 1;
            }
            Err(error) => compacted(error),
        }
        match store.read_log(Some(&pods()), at, PAGE).await {
            Ok(chunk) => {
                let expected = (at.get() + 1)..=chunk.scanned_to.get();
                let found = chunk.commits.iter().map(|c| c.revision.get());
                assert!(found.eq(expected));
            }
            Err(error) => compacted(error),
        }
        let live = store.live_since(None, r(0), PAGE).await.unwrap();
        assert!(live.commits.len() <= OBJECTS);
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
    compactor.abort();
    assert!(whole > 0);
    let at = store.progress().revision;
    assert_eq!(at, r(1501));
    let page = store.list(&all_pods(), at, PAGE).await.unwrap();
    assert_eq!(page.objects.len(), OBJECTS);
}
