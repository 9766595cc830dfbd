//! Calls and sightings that keep every promise, and one broken by hand for each check.

use std::time::Duration;

use listwatch::v1::{self, DeleteCause};

use super::{
    Model, State, Violation,
    calls::{
        Call, Change, Condition, Consistency, Kind, Outcome, Part, Read, Write, check_calls,
        check_kept,
    },
    name_of,
    travel::{Seen, check_silence, check_travel},
};

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn pod(name: &str, revision: i64, value: &str) -> v1::Resource {
    v1::Resource {
        key: Some(v1::Key {
            collection: "pods".into(),
            namespace: "default".into(),
            name: name.into(),
        }),
        uid: format!("u{name}"),
        revision,
        create_revision: 1,
        value: value.as_bytes().to_vec().into(),
        ..v1::Resource::default()
    }
}

fn pods() -> v1::Selector {
    v1::Selector {
        collection: "pods".into(),
        ..v1::Selector::default()
    }
}

fn put(name: &str, value: &str, condition: Condition) -> Part {
    Part {
        name: name_of(&pod(name, 0, "")),
        change: Change::Put {
            resource: pod(name, 0, value),
            expires: value.starts_with("brief"),
        },
        condition,
    }
}

fn delete(name: &str) -> Part {
    Part {
        name: name_of(&pod(name, 0, "")),
        change: Change::Delete,
        condition: Condition::Present,
    }
}

fn write(client: &str, times: (u64, u64), parts: Vec<Part>, outcome: Outcome) -> Call {
    Call {
        client: client.into(),
        called_at: at(times.0),
        returned_at: (outcome != Outcome::Unknown).then(|| at(times.1)),
        kind: Kind::Write(Write { parts, outcome }),
    }
}

fn read(times: (u64, u64), consistency: Consistency, revision: i64) -> Call {
    Call {
        client: "reader".into(),
        called_at: at(times.0),
        returned_at: Some(at(times.1)),
        kind: Kind::Read(Read {
            consistency,
            selector: pods(),
            revision,
            shown: log().at(revision, &pods()),
        }),
    }
}

/// a at 1, replaced at 2 together with the first b; b goes at 3, c comes at 4 though nobody
/// was told, d comes at 5 and expires at 6, c is deleted at 7 though nobody was told.
fn log() -> Model {
    let mut log = Model::default();
    log.put(pod("a", 1, "a1"));
    log.put(pod("a", 2, "a2"));
    log.put(pod("b", 2, "b2"));
    log.delete(name_of(&pod("b", 3, "")), 3, DeleteCause::Request);
    log.put(pod("c", 4, "c4"));
    log.put(pod("d", 5, "brief"));
    log.delete(name_of(&pod("d", 6, "")), 6, DeleteCause::Expired);
    log.delete(name_of(&pod("c", 7, "")), 7, DeleteCause::Request);
    log
}

/// Where the calls of [`good`] are.
const FIRST: usize = 0;
const BATCH: usize = 1;
const UNKNOWN: usize = 3;
const REFUSED: usize = 6;
const READ: usize = 7;
const CACHED: usize = 8;
const EXACT: usize = 10;

fn good() -> Vec<Call> {
    vec![
        write(
            "w",
            (0, 10),
            vec![put("a", "a1", Condition::Absent)],
            Outcome::Written(1),
        ),
        write(
            "w",
            (20, 40),
            vec![
                put("a", "a2", Condition::At(1)),
                put("b", "b2", Condition::Any),
            ],
            Outcome::Written(2),
        ),
        write("v", (30, 60), vec![delete("b")], Outcome::Written(3)),
        write(
            "w",
            (50, 0),
            vec![put("c", "c4", Condition::Any)],
            Outcome::Unknown,
        ),
        write(
            "v",
            (70, 80),
            vec![put("d", "brief", Condition::Any)],
            Outcome::Written(5),
        ),
        write("w", (90, 0), vec![delete("c")], Outcome::Unknown),
        write(
            "v",
            (25, 45),
            vec![put("a", "never", Condition::At(1))],
            Outcome::Refused,
        ),
        read((85, 95), Consistency::Linearizable, 6),
        read((85, 95), Consistency::Cached, 2),
        read((20, 22), Consistency::AtLeast(1), 1),
        read((100, 110), Consistency::Exactly(4), 4),
        write(
            "x",
            (90, 0),
            vec![put("e", "e", Condition::Any)],
            Outcome::Unknown,
        ),
        write(
            "x",
            (91, 95),
            vec![put("e", "f", Condition::Any)],
            Outcome::Failed,
        ),
    ]
}

/// The checks that find something.
fn checks(found: &[Violation]) -> Vec<u8> {
    let mut checks: Vec<_> = found.iter().map(|v| v.check).collect();
    checks.dedup();
    checks
}

fn broken(change: impl FnOnce(&mut Model, &mut Vec<Call>)) -> Vec<u8> {
    let (mut log, mut calls) = (log(), good());
    change(&mut log, &mut calls);
    checks(&check_calls(&log, 0, &calls))
}

fn outcome(call: &mut Call) -> &mut Outcome {
    match &mut call.kind {
        Kind::Write(write) => &mut write.outcome,
        _ => panic!("not a write"),
    }
}

fn parts(call: &mut Call) -> &mut Vec<Part> {
    match &mut call.kind {
        Kind::Write(write) => &mut write.parts,
        _ => panic!("not a write"),
    }
}

fn reading(call: &mut Call) -> &mut Read {
    match &mut call.kind {
        Kind::Read(read) => read,
        _ => panic!("not a read"),
    }
}

#[test]
fn calls_that_keep_every_promise_pass() {
    let found = check_calls(&log(), 0, &good());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn check_16_an_acknowledged_write_that_is_not_in_the_log_is_found() {
    // Another value at its revision, and so nobody's is in its place.
    let found = broken(|_, calls| {
        parts(&mut calls[FIRST])[0] = put("a", "another", Condition::Absent);
    });
    assert_eq!(found, [16]);
    // Part of a batch is missing.
    let found = broken(|_, calls| parts(&mut calls[BATCH]).push(put("z", "z", Condition::Any)));
    assert_eq!(found, [16]);
    // A deletion that did nothing.
    let found = broken(|_, calls| parts(&mut calls[BATCH]).push(delete("z")));
    assert_eq!(found, [16, 22]);
    // Done twice.
    let found = broken(|log, _| log.put(pod("a", 8, "a1")));
    assert_eq!(found, [16, 23]);
}

#[test]
fn check_16_an_acknowledged_write_that_a_crash_took_back_is_found() {
    let state = |revision| log().at(revision, &pods());
    let kept = |state: &State, revision| checks(&check_kept(state, revision, &good()));
    assert!(kept(&state(7), 7).is_empty());
    // Neither of the unknown writes need be there.
    let mut without = state(7);
    without.remove(&name_of(&pod("c", 0, "")));
    assert!(kept(&without, 6).is_empty());
    assert_eq!(kept(&state(1), 1), [16]);
    assert_eq!(kept(&State::new(), 7), [16]);
    let mut changed = state(7);
    changed.insert(name_of(&pod("a", 2, "")), pod("a", 2, "other"));
    assert_eq!(kept(&changed, 7), [16]);
    // Newer, but of nobody.
    changed.insert(name_of(&pod("a", 7, "")), pod("a", 7, "other"));
    assert_eq!(kept(&changed, 7), [16]);
    // What was deleted is back.
    let mut back = state(7);
    back.insert(name_of(&pod("b", 2, "")), pod("b", 2, "b2"));
    assert_eq!(kept(&back, 7), [16]);
}

#[test]
fn check_17_a_write_below_what_was_known_before_it_is_found() {
    // The first begins only after the second has returned.
    let found = broken(|_, calls| {
        calls[FIRST].called_at = at(200);
        calls[FIRST].returned_at = Some(at(210));
    });
    assert!(found.contains(&17), "{found:?}");
    // Two writes say the same revision.
    let found = broken(|_, calls| {
        let twice = write(
            "y",
            (300, 310),
            vec![put("a", "y", Condition::Any)],
            Outcome::Written(7),
        );
        calls.push(read((250, 260), Consistency::Linearizable, 7));
        calls.push(twice);
    });
    assert!(found.contains(&17), "{found:?}");
}

#[test]
fn check_18_a_read_older_than_it_may_be_is_found() {
    let with = |place: usize, consistency, revision| {
        broken(|_, calls| {
            let read = reading(&mut calls[place]);
            (read.consistency, read.revision) = (consistency, revision);
            read.shown = log().at(revision, &pods());
        })
    };
    assert_eq!(with(READ, Consistency::Linearizable, 4), [18]);
    assert_eq!(with(READ, Consistency::AtLeast(5), 4), [18]);
    assert_eq!(with(READ, Consistency::Exactly(5), 4), [18]);
    assert!(with(READ, Consistency::AtLeast(4), 4).is_empty());
    // Nobody acknowledged it, but somebody had read it: c was there.
    let found = broken(|_, calls| {
        calls.push(read((62, 64), Consistency::Cached, 4));
        calls.push(read((66, 68), Consistency::Linearizable, 3));
    });
    assert_eq!(found, [18]);
}

#[test]
fn check_19_a_read_that_shows_something_else_is_found() {
    let found = broken(|_, calls| {
        reading(&mut calls[CACHED]).shown.pop_first();
    });
    assert_eq!(found, [19]);
    let found = broken(|_, calls| reading(&mut calls[EXACT]).shown = log().at(2, &pods()));
    assert_eq!(found, [19]);
}

#[test]
fn check_20_a_read_that_knows_what_had_not_begun_is_found() {
    let found = broken(|_, calls| calls.push(read((61, 65), Consistency::Cached, 5)));
    assert!(found.contains(&20), "{found:?}");
    let found = broken(|_, calls| calls.push(read((500, 501), Consistency::Linearizable, 9)));
    assert_eq!(found, [20]);
    // The same of what a watch tells; and what it told is known from then on.
    let heard = |millis, revision| {
        let kind = Kind::Heard(revision);
        broken(move |_, calls| {
            calls.push(Call {
                kind,
                ..read((millis, millis), Consistency::Cached, 1)
            })
        })
    };
    assert!(heard(74, 5).is_empty());
    assert_eq!(heard(62, 5), [17, 20]);
    // The deletion at 7 was asked for at 90: told before, it is nobody's.
    assert_eq!(heard(84, 7), [18, 23]);
}

#[test]
fn check_21_a_write_of_unknown_outcome_that_is_there_in_part_or_twice_is_found() {
    let found = broken(|_, calls| parts(&mut calls[UNKNOWN]).push(put("z", "z", Condition::Any)));
    assert_eq!(found, [21]);
    let found = broken(|log, _| log.put(pod("c", 8, "c4")));
    assert_eq!(found, [21, 23]);
    // It took effect before it was asked for.
    let found = broken(|_, calls| {
        calls[UNKNOWN].called_at = at(82);
    });
    assert!(found.contains(&21), "{found:?}");
    // What certainly failed is there.
    let found = broken(|_, calls| *outcome(&mut calls[UNKNOWN]) = Outcome::Failed);
    assert_eq!(found, [21]);
}

#[test]
fn check_22_a_condition_that_did_not_hold_is_found() {
    let found = broken(|_, calls| parts(&mut calls[BATCH])[0].condition = Condition::At(7));
    assert_eq!(found, [22]);
    let found = broken(|_, calls| parts(&mut calls[FIRST])[0].condition = Condition::Present);
    assert_eq!(found, [22]);
    let found = broken(|_, calls| parts(&mut calls[BATCH])[0].condition = Condition::Absent);
    assert_eq!(found, [22]);
    // Refused although it held all the time.
    let found = broken(|_, calls| {
        (calls[REFUSED].called_at, calls[REFUSED].returned_at) = (at(11), Some(at(12)));
    });
    assert_eq!(found, [22]);
}

#[test]
fn check_23_what_nobody_asked_for_is_found() {
    assert_eq!(broken(|log, _| log.put(pod("q", 8, "q"))), [23]);
    // One deletion of unknown outcome deletes once.
    let found = broken(|log, calls| {
        log.put(pod("c", 8, "c8"));
        let again = vec![put("c", "c8", Condition::Absent)];
        calls.push(write("v", (200, 210), again, Outcome::Written(8)));
        log.delete(name_of(&pod("c", 9, "")), 9, DeleteCause::Request);
    });
    assert_eq!(found, [23]);
    let expired = |name: &'static str| {
        broken(move |log, _| log.delete(name_of(&pod(name, 8, "")), 8, DeleteCause::Expired))
    };
    // It has no time to live.
    assert_eq!(expired("a"), [23]);
    let found = broken(|log, _| {
        log.delete(name_of(&pod("a", 8, "")), 8, DeleteCause::Request);
    });
    assert_eq!(found, [23]);
}

fn seen(client: &str, store: &str, times: (u64, u64), revision: i64, value: &str) -> Seen {
    Seen {
        client: client.into(),
        store: store.into(),
        called_at: at(times.0),
        returned_at: at(times.1),
        revision,
        shown: vec![pod("a", revision, value)],
    }
}

#[test]
fn check_15_a_silence_longer_than_the_interval_is_found() {
    let (interval, slack) = (at(1000), at(100));
    let silence = |spoke: &[u64], until, excused: &[_]| {
        let spoke: Vec<_> = spoke.iter().map(|m| at(*m)).collect();
        checks(&check_silence(&spoke, at(until), interval, slack, excused))
    };
    assert!(silence(&[0, 1000, 1500, 2600], 3000, &[]).is_empty());
    assert_eq!(silence(&[0, 1000, 2101], 2500, &[]), [15]);
    assert_eq!(silence(&[0, 1000], 2500, &[]), [15]);
    assert!(silence(&[0, 1000], 2500, &[(at(1200), at(1300))]).is_empty());
    assert_eq!(silence(&[0, 1000], 2500, &[(at(100), at(300))]), [15]);
}

#[test]
fn check_24_a_client_that_goes_back_in_time_is_found() {
    let first = seen("c", "s", (0, 10), 5, "x");
    let travels = |second: Seen| checks(&check_travel(&[first.clone(), second]));
    assert_eq!(travels(seen("c", "s", (20, 30), 4, "y")), [24]);
    assert!(travels(seen("c", "s", (20, 30), 5, "x")).is_empty());
    assert!(travels(seen("c", "s", (5, 30), 4, "y")).is_empty());
    assert!(travels(seen("other", "s", (20, 30), 4, "y")).is_empty());
    assert!(travels(seen("c", "new", (20, 30), 4, "y")).is_empty());
}

#[test]
fn check_25_a_revision_that_is_two_versions_is_found() {
    let first = seen("c", "s", (0, 10), 5, "x");
    let differs = |second: Seen| checks(&check_travel(&[first.clone(), second]));
    assert_eq!(differs(seen("other", "s", (0, 10), 5, "y")), [25]);
    assert!(differs(seen("other", "s", (0, 10), 5, "x")).is_empty());
    assert!(differs(seen("other", "new", (0, 10), 5, "y")).is_empty());
}
