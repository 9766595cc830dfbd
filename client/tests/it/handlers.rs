//! Handlers: each at its own pace, none at the cost of another.

use std::{sync::Arc, time::Duration};

use listwatch_client::v1::EventType;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    mock::{Mock, event, object},
    reflector::{LONG, build, drain, ready, shown},
};

#[tokio::test(start_paused = true)]
async fn a_slow_handler_neither_loses_the_newest_state_nor_blocks_the_others() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "ua", 1, "")]).await;
    let told: [Arc<Mutex<Vec<String>>>; 2] = Default::default();
    let gate = Arc::new(Semaphore::new(1));
    let slow = reflector.add_handler({
        let (told, gate) = (told[0].clone(), gate.clone());
        move |notice| {
            let (told, gate) = (told.clone(), gate.clone());
            async move {
                told.lock().push(shown(&notice));
                gate.acquire().await.unwrap().forget();
            }
        }
    });
    let fast = reflector.add_handler({
        let told = told[1].clone();
        move |notice| {
            told.lock().push(shown(&notice));
            std::future::ready(())
        }
    });
    for revision in 6..=1000 {
        let changed = object("a", "ua", revision, "");
        open.changes(revision, vec![event(EventType::Modified, changed)])
            .await;
        reflector.wait_for_revision(revision, LONG).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The fast one has seen each change; the slow one has been stuck since its second notice.
    assert_eq!(told[1].lock().len(), 2 + 995);
    assert_eq!(*told[0].lock(), ["+ua@1", "synced"]);
    gate.add_permits(10);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(told[0].lock()[2..], ["ua@1>1000"]);
    drop((slow, fast));
}

#[tokio::test(start_paused = true)]
async fn a_stuck_handlers_queue_is_bounded_by_the_objects() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "ua", 1, "")]).await;
    let mut stuck = reflector.subscribe();
    // Objects that come and go under ever new names, and one that stays and changes.
    let mut revision = 5;
    for round in 0..500 {
        let name = format!("x{round}");
        let steps = [
            event(EventType::Added, object(&name, &name, revision + 1, "")),
            event(EventType::Modified, object("a", "ua", revision + 2, "")),
            event(EventType::Deleted, object(&name, &name, revision + 3, "")),
        ];
        for step in steps {
            revision += 1;
            open.changes(revision, vec![step]).await;
            reflector.wait_for_revision(revision, LONG).await.unwrap();
        }
        assert!(stuck.waiting() <= 2, "{}", stuck.waiting());
    }
    assert_eq!(
        drain(&mut stuck).await,
        [format!("+ua@{}", revision - 1), "synced".into()]
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_object_that_was_told_is_told() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "u1", 1, "")]).await;
    let mut handler = reflector.subscribe();
    drain(&mut handler).await;
    for (revision, kind, uid) in [
        (6, EventType::Modified, "u1"),
        (7, EventType::Deleted, "u1"),
        (8, EventType::Added, "u2"),
        (9, EventType::Deleted, "u2"),
        (10, EventType::Added, "u3"),
    ] {
        open.changes(revision, vec![event(kind, object("a", uid, revision, ""))])
            .await;
        reflector.wait_for_revision(revision, LONG).await.unwrap();
    }
    // u2 came and went unseen.
    assert_eq!(drain(&mut handler).await, ["-u1@1", "+u3@10"]);
    open.changes(
        11,
        vec![event(EventType::Deleted, object("a", "u3", 11, ""))],
    )
    .await;
    reflector.wait_for_revision(11, LONG).await.unwrap();
    assert_eq!(drain(&mut handler).await, ["-u3@10"]);
}

#[tokio::test(start_paused = true)]
async fn synced_comes_after_the_first_state_and_once() {
    let mut mock = Mock::start().await;
    let reflector = build(&mock).spawn();
    let mut early = reflector.subscribe();
    let open = mock.next_watch().await.accept();
    assert!(drain(&mut early).await.is_empty());
    open.initial_state(5, vec![object("a", "ua", 1, ""), object("b", "ub", 2, "")])
        .await;
    reflector.wait_until_ready(LONG).await.unwrap();
    open.changes(6, vec![event(EventType::Added, object("c", "uc", 6, ""))])
        .await;
    reflector.wait_for_revision(6, LONG).await.unwrap();
    assert_eq!(
        drain(&mut early).await,
        ["+ua@1", "+ub@2", "synced", "+uc@6"]
    );
    let mut late = reflector.subscribe();
    assert_eq!(
        drain(&mut late).await,
        ["+ua@1", "+ub@2", "+uc@6", "synced"]
    );
    open.changes(7, vec![event(EventType::Deleted, object("c", "uc", 7, ""))])
        .await;
    reflector.wait_for_revision(7, LONG).await.unwrap();
    assert_eq!(drain(&mut late).await, ["-uc@6"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_looks_finds_at_least_what_it_was_told() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![]).await;
    let (reader, mut handler) = (reflector.reader(), reflector.subscribe());
    let looking = tokio::spawn(async move {
        while let Some(notice) = handler.next().await {
            if let listwatch_client::Notice::Added(object) = notice {
                assert!(reader.snapshot().revision() >= object.revision());
                assert!(reader.get(object.key()).is_some());
                if object.revision() == 50 {
                    return;
                }
            }
        }
    });
    for revision in 6..=50 {
        let added = object(&format!("x{revision}"), "u", revision, "");
        open.changes(revision, vec![event(EventType::Added, added)])
            .await;
    }
    looking.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropping_a_guard_ends_its_handler_alone() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![]).await;
    let told = Arc::new(Mutex::new(0));
    let count = |told: &Arc<Mutex<i32>>| {
        let told = told.clone();
        move |_| {
            *told.lock() += 1;
            std::future::ready(())
        }
    };
    let (dropped, kept) = (Arc::new(Mutex::new(0)), told.clone());
    let guard = reflector.add_handler(count(&dropped));
    let _kept = reflector.add_handler(count(&kept));
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(guard);
    open.changes(6, vec![event(EventType::Added, object("a", "ua", 6, ""))])
        .await;
    reflector.wait_for_revision(6, LONG).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!((*dropped.lock(), *told.lock()), (1, 2));
}
