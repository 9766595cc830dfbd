//! Reading across segments, and how many of them are open.

use super::*;

#[tokio::test]
async fn the_log_is_read_across_segments_up_to_each_revision() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path(), &options());
    for revision in 1..=5 {
        write(&store, put("a", &revision.to_string())).await;
        if revision % 2 == 0 {
            begin_segment(&store);
        }
    }
    assert_eq!(numbers(&store).len(), 3);
    for after in 0..=5 {
        for to in after..=5 {
            let mut found = Vec::new();
            let scanned = log(&store).scan(r(after), r(to), &mut |entry| {
                found.push(entry.slot.revision.get());
                true
            });
            scanned.unwrap();
            assert_eq!(found, Vec::from_iter(after + 1..=to));
        }
    }
}

#[tokio::test]
async fn no_more_segments_are_open_than_may_be() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path(), &options());
    let sealed = MAX_OPEN_SEGMENTS as u64 + 2;
    for i in 0..sealed {
        write(&store, put(&format!("o{i:02}"), "1")).await;
        begin_segment(&store);
    }
    drop(store);
    let store = reopen(folder.path(), &options());
    let open = || log(&store).open.load(Ordering::Relaxed);
    assert_eq!(open(), 1);
    for i in 0..sealed {
        let found = log(&store).read(Slot::first(r(i + 1))).unwrap();
        assert!(found.is_some());
        let read = usize::try_from(i).unwrap() + 1;
        assert_eq!(open(), (read + 1).min(MAX_OPEN_SEGMENTS));
    }
    let mut found = 0;
    let scanned = log(&store).scan(r(0), r(sealed), &mut |_| {
        found += 1;
        true
    });
    scanned.unwrap();
    assert_eq!((found, open()), (sealed, MAX_OPEN_SEGMENTS));
}

#[tokio::test]
async fn segments_that_nobody_reads_are_put_away_as_new_ones_are_begun() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path(), &options());
    write(&store, put("a", "1")).await;
    begin_segment(&store);
    write(&store, put("a", "2")).await;
    let segments = log(&store).segments();
    let used = |i: usize| segments[i].last_used().unwrap();
    let unread_since = |since| {
        let unread = unread(&segments, since);
        unread.iter().map(|s| s.number).collect::<Vec<_>>()
    };
    assert!(used(0) < used(1));
    assert_eq!(unread_since(used(0)), Vec::<u64>::new());
    assert_eq!(unread_since(used(1)), [1]);
    assert_eq!(unread_since(used(1) + 1), [1, 2]);
    begin_segment(&store);
    let begun = Instant::now();
    while segments[0].last_used().is_some() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays open");
        std::thread::sleep(Duration::from_millis(5));
    }
    let found = log(&store).read(Slot::first(r(1))).unwrap();
    assert!(found.is_some());
}
