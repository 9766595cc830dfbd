//! What compaction lets go of, to the entry, and how much is looked at under one hold of the lock.

use super::*;

fn r(number: u64) -> Revision {
    Revision::new(number)
}

fn key(collection: &str, name: &str) -> Key {
    Key::new(collection, "default", name).unwrap()
}

/// Versions, one a revision from 1 on: of whom, and whether it is a deletion.
fn index(versions: &[(Key, bool)]) -> Index {
    let mut index = Index::default();
    for ((key, tombstone), revision) in versions.iter().zip(1..) {
        index.add(&NewVersion {
            key,
            slot: Slot::first(r(revision)),
            uid: Uid(1),
            create_revision: r(revision),
            size: 10,
            tombstone: *tombstone,
            time: SystemTime::UNIX_EPOCH,
        });
    }
    index
}

/// Prunes in slices. Returns the revisions that went, and in how many slices.
fn prune(index: &mut Index, compacted: u64, forgotten: u64, most: usize) -> (Vec<u64>, usize) {
    let (mut cursor, mut dropped) = (None, Vec::new());
    for slices in 1..100 {
        let (compacted, forgotten) = (r(compacted), r(forgotten));
        cursor = index.prune(cursor.as_ref(), compacted, forgotten, most, &mut dropped);
        if cursor.is_none() {
            let mut gone: Vec<_> = dropped.iter().map(|d| d.slot.revision.get()).collect();
            gone.sort_unstable();
            return (gone, slices);
        }
    }
    panic!("it has no end");
}

#[test]
fn a_deletion_that_was_followed_by_a_creation_goes_when_it_is_forgotten() {
    let (a, b) = (key("pods", "a"), key("pods", "b"));
    let versions = [
        (a.clone(), false),
        (a.clone(), true),
        (b, false),
        (a, false),
    ];
    for (forgotten, gone) in [(1, &[1][..]), (2, &[1, 2])] {
        let mut index = index(&versions);
        assert_eq!(prune(&mut index, 3, forgotten, 10).0, gone);
        let kept = (1..=4).filter(|at| !gone.contains(at));
        for at in kept {
            let (key, _) = &versions[usize::try_from(at - 1).unwrap()];
            assert!(index.holds(key, Slot::first(r(at))), "{at}");
        }
    }
}

#[test]
fn what_is_forgotten_leaves_nothing_behind() {
    let (pod, node) = (key("pods", "a"), key("nodes", "a"));
    let versions = [(pod.clone(), false), (pod.clone(), true), (node, false)];
    let mut index = index(&versions);
    // Its deletion is remembered, so the name is.
    assert_eq!(prune(&mut index, 3, 1, 10).0, [1]);
    assert_eq!((index.collections.len(), index.tombstones()), (2, 1));
    assert!(index.collections.values().all(|c| c.history.is_empty()));
    assert_eq!(prune(&mut index, 3, 2, 10).0, [2]);
    assert_eq!((index.collections.len(), index.tombstones()), (1, 0));
    assert!(index.collections.contains_key("nodes"));
}

#[test]
fn compaction_in_slices_comes_to_every_key_once() {
    let names = ["a", "b", "c", "d", "e"];
    let keys = ["nodes", "pods"].map(|collection| names.map(|name| key(collection, name)));
    let once = keys.iter().flatten().map(|key| (key.clone(), false));
    let versions: Vec<_> = once.clone().chain(once).collect();
    let whole: Vec<u64> = (1..=10).collect();
    // Five keys: 2, 2 and 1 of each collection; 5 and none left; all.
    for (most, slices) in [(2, 6), (4, 4), (5, 2), (6, 2)] {
        let mut index = index(&versions);
        assert_eq!(
            prune(&mut index, 20, 0, most),
            (whole.clone(), slices),
            "{most}"
        );
    }
}

#[test]
fn a_look_at_names_ends_when_enough_are_found_or_enough_were_looked_at() {
    let names = ["a", "b", "c", "d", "e"].map(|name| (key("pods", name), false));
    let deleted = ["b", "c"].map(|name| (key("pods", name), true));
    let index = index(&[&names[..], &deleted].concat());
    let range = KeyRange {
        collection: Collection::new("pods").unwrap(),
        namespace: None,
        name_prefix: "".into(),
        after: Bound::Unbounded,
    };
    for (found, looked_at, expected, upto) in [
        (1, 100, "a", Some("a")),
        (2, 100, "ad", Some("d")),
        (3, 100, "ade", Some("e")),
        (4, 100, "ade", None),
        (100, 1, "a", Some("a")),
        (100, 2, "a", Some("b")),
        (100, 4, "ad", Some("d")),
        (100, 5, "ade", Some("e")),
        (100, 6, "ade", None),
    ] {
        let (seen, end) = index.names(&range, &Bound::Unbounded, r(7), found, looked_at);
        let seen: String = seen.iter().map(|(name, _)| name.name()).collect();
        let end = match &end {
            Names::End => None,
            Names::Upto(name) => Some(name.name()),
        };
        assert_eq!((&*seen, end), (expected, upto), "{found} of {looked_at}");
    }
}

#[test]
fn enough_are_whole_revisions() {
    let revisions = [1, 1, 2, 3, 3];
    for (at_least, taken, all) in [
        (1, 2, false),
        (2, 2, false),
        (3, 3, false),
        (4, 5, true),
        (5, 5, true),
        (6, 5, true),
    ] {
        let found = whole_revisions(revisions, |number| r(*number), at_least);
        assert_eq!(found, (revisions[..taken].to_vec(), all), "{at_least}");
    }
}
