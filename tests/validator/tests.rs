//! The validator itself: a history that keeps every promise, and one broken by hand for
//! each check.

use listwatch::v1::{self, BookmarkKind, DeleteCause, EventType, watch_request::Start};

use super::{End, Listed, Model, Recording, check_list, check_watch};

fn pod(name: &str, revision: i64, uid: &str, created: i64, app: &str) -> v1::Resource {
    v1::Resource {
        key: Some(v1::Key {
            collection: "pods".into(),
            namespace: "default".into(),
            name: name.into(),
        }),
        uid: uid.into(),
        revision,
        create_revision: created,
        labels: [("app".to_owned(), app.to_owned())].into(),
        value: format!("{name}{revision}").into_bytes().into(),
        ..v1::Resource::default()
    }
}

/// a is created at 1, b at 2; both change at 3; a stops being `web` at 4, b is deleted at 5
/// and comes back at 6; a is `web` again at 7.
fn model() -> Model {
    let mut model = Model::default();
    model.put(pod("a", 1, "ua", 1, "web"));
    model.put(pod("b", 2, "ub", 2, "web"));
    model.put(pod("a", 3, "ua", 1, "web"));
    model.put(pod("b", 3, "ub", 2, "web"));
    model.put(pod("a", 4, "ua", 1, "db"));
    let b = super::name_of(&pod("b", 5, "ub", 2, "web"));
    model.delete(b, 5, DeleteCause::Request);
    model.put(pod("b", 6, "ub2", 6, "web"));
    model.put(pod("a", 7, "ua", 1, "web"));
    model
}

fn web() -> v1::Selector {
    v1::Selector {
        collection: "pods".into(),
        labels: vec![v1::LabelRequirement {
            key: "app".into(),
            operator: v1::LabelOperator::In.into(),
            values: vec!["web".into()],
        }],
        ..v1::Selector::default()
    }
}

fn event(
    kind: EventType,
    resource: v1::Resource,
    previous: Option<v1::Resource>,
    cause: DeleteCause,
) -> v1::WatchEvent {
    v1::WatchEvent {
        r#type: kind.into(),
        resource: Some(resource),
        previous,
        delete_cause: cause.into(),
    }
}

fn response(events: Vec<v1::WatchEvent>, kind: BookmarkKind, revision: i64) -> v1::WatchResponse {
    let begins = matches!(
        kind,
        BookmarkKind::InitialStateBegin | BookmarkKind::ManifestBegin
    );
    v1::WatchResponse {
        events,
        bookmark: Some(v1::Bookmark {
            revision,
            resume_token: if begins {
                String::new()
            } else {
                revision.to_string()
            },
            kind: kind.into(),
            latest_revision: 7,
            coalesced_count: 0,
        }),
    }
}

/// The live events from 2 on, each revision in a response of its own.
fn live() -> Vec<v1::WatchResponse> {
    let none = DeleteCause::Unspecified;
    let gone = |of: v1::Resource, revision| v1::Resource { revision, ..of };
    let (a1, a3, a4) = (
        pod("a", 1, "ua", 1, "web"),
        pod("a", 3, "ua", 1, "web"),
        pod("a", 4, "ua", 1, "db"),
    );
    let (b2, b3) = (pod("b", 2, "ub", 2, "web"), pod("b", 3, "ub", 2, "web"));
    let (b6, a7) = (pod("b", 6, "ub2", 6, "web"), pod("a", 7, "ua", 1, "web"));
    let events = [
        vec![
            event(EventType::Modified, a3.clone(), Some(a1), none),
            event(EventType::Modified, b3.clone(), Some(b2), none),
        ],
        vec![event(
            EventType::Deleted,
            gone(a3.clone(), 4),
            Some(a3),
            DeleteCause::Unselected,
        )],
        vec![event(
            EventType::Deleted,
            gone(b3.clone(), 5),
            Some(b3),
            DeleteCause::Request,
        )],
        vec![event(EventType::Added, b6, None, none)],
        vec![event(EventType::Added, a7, Some(a4), none)],
    ];
    let live = (3..).zip(events);
    live.map(|(revision, events)| response(events, BookmarkKind::Progress, revision))
        .collect()
}

/// From the initial state at 2 through all the rest.
fn good() -> Recording {
    let existing = |r| event(EventType::Existing, r, None, DeleteCause::Unspecified);
    let mut responses = vec![
        response(vec![], BookmarkKind::InitialStateBegin, 0),
        response(
            vec![
                existing(pod("a", 1, "ua", 1, "web")),
                existing(pod("b", 2, "ub", 2, "web")),
            ],
            BookmarkKind::InitialStateEnd,
            2,
        ),
    ];
    responses.extend(live());
    Recording {
        request: v1::WatchRequest {
            selector: Some(web()),
            send_previous: true,
            ..v1::WatchRequest::default()
        },
        settled: true,
        responses,
        ..Recording::default()
    }
}

/// The same, resumed from 2.
fn resumed() -> Recording {
    let mut recording = good();
    recording.responses = vec![response(vec![], BookmarkKind::Resumed, 2)];
    recording.responses.extend(live());
    recording.request.start = Some(Start::ResumeToken("2".into()));
    recording.since = 2;
    recording.held = model().at(2, &web());
    recording
}

/// The net difference from 2 to 7.
fn net() -> Recording {
    let upserted = |r| event(EventType::Upserted, r, None, DeleteCause::Unspecified);
    let mut recording = resumed();
    recording.compacted = 3;
    recording.responses = vec![
        response(vec![], BookmarkKind::NetBegin, 2),
        response(
            vec![upserted(pod("b", 6, "ub2", 6, "web"))],
            BookmarkKind::Progress,
            6,
        ),
        response(
            vec![upserted(pod("a", 7, "ua", 1, "web"))],
            BookmarkKind::InitialStateEnd,
            7,
        ),
    ];
    recording
}

fn checks(recording: &Recording) -> Vec<u8> {
    let found = check_watch(&model(), recording);
    found.iter().map(|violation| violation.check).collect()
}

fn finds(check: u8, recording: &Recording) {
    let found = check_watch(&model(), recording);
    assert!(found.iter().any(|v| v.check == check), "{found:?}");
}

#[test]
fn a_history_that_keeps_the_promises_passes() {
    for recording in [good(), resumed(), net()] {
        assert_eq!(
            checks(&recording),
            [0u8; 0],
            "{:?}",
            check_watch(&model(), &recording)
        );
    }
}

#[test]
fn check_1_an_event_that_does_not_match() {
    let mut broken = good();
    broken.responses[2].events[0].resource = Some(pod("a", 3, "ua", 1, "db"));
    finds(1, &broken);
}

#[test]
fn check_2_a_revision_that_goes_back() {
    let mut broken = good();
    broken.responses.swap(3, 4);
    finds(2, &broken);
}

#[test]
fn check_3_an_event_that_comes_twice() {
    let mut broken = good();
    let again = broken.responses[3].events[0].clone();
    broken.responses[3].events.push(again);
    finds(3, &broken);
}

#[test]
fn check_4_a_revision_split_over_two_responses() {
    let mut broken = good();
    let half = broken.responses[2].events.split_off(1);
    let whole = broken.responses[2].bookmark.take();
    let rest = v1::WatchResponse {
        events: half,
        bookmark: whole,
    };
    broken.responses.insert(3, rest);
    finds(4, &broken);
}

#[test]
fn check_5_a_bookmark_ahead_of_its_events() {
    let mut broken = good();
    broken.responses[2].bookmark.as_mut().unwrap().revision = 4;
    finds(5, &broken);
    let mut below = good();
    below.responses[3].bookmark.as_mut().unwrap().revision = 3;
    finds(5, &below);
}

#[test]
fn check_6_a_resumed_watch_that_skips_the_first_event() {
    let mut broken = resumed();
    broken.responses.remove(1);
    finds(6, &broken);
}

#[test]
fn check_7_added_though_it_was_held() {
    let mut broken = good();
    broken.responses[2].events[0].r#type = EventType::Added.into();
    finds(7, &broken);
}

#[test]
fn check_8_an_event_missing_and_one_too_many() {
    let mut broken = good();
    broken.responses[4].events.clear();
    finds(8, &broken);
    let mut broken = good();
    let extra = event(
        EventType::Added,
        pod("c", 5, "uc", 5, "web"),
        None,
        DeleteCause::Unspecified,
    );
    broken.responses[4].events.push(extra);
    finds(8, &broken);
}

#[test]
fn check_8_coalescing_that_keeps_an_old_change_or_miscounts() {
    let mut latest = good();
    latest.request.delivery_mode = v1::DeliveryMode::Latest.into();
    assert_eq!(checks(&latest), [0u8; 0]);
    let mut miscounted = latest.clone();
    miscounted.responses[4]
        .bookmark
        .as_mut()
        .unwrap()
        .coalesced_count = 1;
    finds(8, &miscounted);
    // The first change of `a` in a response that reaches its second.
    let mut old = latest;
    old.responses[2].bookmark = None;
    old.responses[3].events.clear();
    finds(8, &old);
}

#[test]
fn check_9_another_previous_value() {
    let mut broken = good();
    broken.responses[2].events[0].previous = Some(pod("a", 2, "ua", 1, "web"));
    finds(9, &broken);
}

#[test]
fn check_10_pages_of_two_revisions_or_of_another_state() {
    let page = |revision, resources| v1::ListResponse {
        resources,
        revision,
        ..v1::ListResponse::default()
    };
    let listed = |pages, acknowledged| Listed {
        selector: web(),
        pages,
        acknowledged,
    };
    let (a1, b2) = (pod("a", 1, "ua", 1, "web"), pod("b", 2, "ub", 2, "web"));
    let good = vec![page(2, vec![a1.clone()]), page(2, vec![b2.clone()])];
    assert_eq!(check_list(&model(), &listed(good.clone(), 2)), []);
    assert!(!check_list(&model(), &listed(good, 3)).is_empty());
    let moved = vec![page(2, vec![a1.clone()]), page(3, vec![b2])];
    assert!(!check_list(&model(), &listed(moved, 2)).is_empty());
    assert!(!check_list(&model(), &listed(vec![page(2, vec![a1])], 2)).is_empty());
}

#[test]
fn check_11_an_initial_state_with_an_object_missing() {
    let mut broken = good();
    broken.responses[1].events.pop();
    finds(11, &broken);
}

#[test]
fn check_12_a_net_difference_without_a_deletion() {
    // Up to 5: b is gone, and nobody says so.
    let mut broken = net();
    broken.responses = vec![
        response(vec![], BookmarkKind::NetBegin, 2),
        response(
            vec![event(
                EventType::Deleted,
                pod("a", 4, "ua", 1, "db"),
                None,
                DeleteCause::Unselected,
            )],
            BookmarkKind::InitialStateEnd,
            5,
        ),
    ];
    finds(12, &broken);
}

#[test]
fn check_12_a_manifest_that_calls_a_changed_object_unchanged() {
    let mut broken = net();
    broken.responses = vec![
        response(vec![], BookmarkKind::ManifestBegin, 0),
        response(
            vec![event(
                EventType::Unchanged,
                pod("b", 3, "ub", 2, "web"),
                None,
                DeleteCause::Unspecified,
            )],
            BookmarkKind::InitialStateEnd,
            4,
        ),
    ];
    finds(12, &broken);
}

#[test]
fn check_13_an_object_that_stops_matching_shows_what_does_not_match() {
    let mut broken = good();
    broken.responses[3].events[0].resource = Some(pod("a", 4, "ua", 1, "db"));
    finds(13, &broken);
    let mut broken = good();
    broken.responses[3].events[0].delete_cause = DeleteCause::Request.into();
    finds(13, &broken);
}

#[test]
fn check_14_an_exact_watch_refused_without_compaction_or_given_a_difference() {
    let mut refused = resumed();
    refused.request.catch_up = v1::CatchUp::Exact.into();
    refused.responses.clear();
    refused.end = End::Failed(tonic::Code::OutOfRange, "REVISION_COMPACTED".into());
    refused.compacted = 2;
    finds(14, &refused);
    refused.compacted = 3;
    assert_eq!(checks(&refused), [0u8; 0]);
    let mut differing = net();
    differing.request.catch_up = v1::CatchUp::Exact.into();
    finds(14, &differing);
}

#[test]
fn check_5_a_live_bookmark_without_a_token() {
    let mut broken = good();
    broken.responses[3]
        .bookmark
        .as_mut()
        .unwrap()
        .resume_token
        .clear();
    finds(5, &broken);
}

#[test]
fn check_6_a_watch_that_resumes_beyond_where_it_left() {
    // Of `a` alone: what is lost at 3 and 4 is made good at 7, and the copy shows nothing.
    let mut broken = resumed();
    let mut selector = web();
    selector.name = "a".into();
    broken.held = model().at(2, &selector);
    broken.request.selector = Some(selector);
    let last = broken.responses.pop().unwrap();
    broken.responses = vec![response(vec![], BookmarkKind::Resumed, 6), last];
    finds(6, &broken);
}

#[test]
fn check_7_types_that_do_not_belong_to_their_part_of_the_stream() {
    let retyped = |recording: &Recording, at: usize, kind: EventType| {
        let mut broken = recording.clone();
        for event in &mut broken.responses[at].events {
            event.r#type = kind.into();
        }
        broken
    };
    finds(7, &retyped(&good(), 1, EventType::Deleted));
    finds(7, &retyped(&good(), 1, EventType::Added));
    finds(7, &retyped(&net(), 1, EventType::Existing));
    finds(7, &retyped(&net(), 1, EventType::Added));
    finds(7, &retyped(&good(), 2, EventType::Upserted));
}

#[test]
fn check_7_the_newest_change_of_what_was_held_is_no_addition() {
    let mut latest = good();
    latest.request.delivery_mode = v1::DeliveryMode::Latest.into();
    assert_eq!(checks(&latest), [0u8; 0]);
    let mut broken = latest.clone();
    broken.responses[2].events[0].r#type = EventType::Added.into();
    finds(7, &broken);
    let mut broken = latest;
    let last = broken.responses.last_mut().unwrap();
    last.events[0].r#type = EventType::Modified.into();
    finds(7, &broken);
}

#[test]
fn check_8_the_newest_change_with_another_value() {
    let mut broken = good();
    broken.request.delivery_mode = v1::DeliveryMode::Latest.into();
    let resource = broken.responses[2].events[0].resource.as_mut().unwrap();
    resource.value = b"rubbish".to_vec().into();
    finds(8, &broken);
}

#[test]
fn check_8_what_comes_after_the_last_bookmark() {
    let none = DeleteCause::Unspecified;
    let ghost = event(
        EventType::Added,
        pod("ghost", 99, "ug", 99, "web"),
        None,
        none,
    );
    for latest in [false, true] {
        let mut broken = good();
        if latest {
            broken.request.delivery_mode = v1::DeliveryMode::Latest.into();
        }
        broken.responses.push(v1::WatchResponse {
            events: vec![ghost.clone()],
            ..v1::WatchResponse::default()
        });
        finds(8, &broken);
    }
    // The last change, and not the one before it.
    let mut broken = good();
    broken.responses.last_mut().unwrap().bookmark = None;
    assert_eq!(checks(&broken), [0u8; 0]);
    let before = broken.responses.len() - 2;
    broken.responses.remove(before);
    finds(8, &broken);
}

#[test]
fn check_11_a_first_watch_that_gets_no_state() {
    let mut broken = good();
    broken.responses = vec![response(vec![], BookmarkKind::Resumed, 7)];
    finds(11, &broken);
}

#[test]
fn check_14_another_way_of_catching_up_though_nothing_was_compacted_or_midway() {
    let mut broken = net();
    broken.compacted = 2;
    finds(14, &broken);
    let mut broken = good();
    broken.responses.truncate(2);
    broken.responses.extend(net().responses);
    finds(14, &broken);
}

/// Only what has no token is without promise, and only of a watch of the newest.
#[test]
fn check_14_and_5_a_watch_that_begins_anew_midway() {
    let state = |begins, kind| {
        let all = [pod("b", 6, "ub2", 6, "web"), pod("a", 7, "ua", 1, "web")];
        let none = DeleteCause::Unspecified;
        let all = all.map(|pod| event(kind, pod, None, none)).to_vec();
        let end = response(all, BookmarkKind::InitialStateEnd, 7);
        [response(vec![], begins, 0), end]
    };
    for (begins, kind) in [
        (BookmarkKind::InitialStateBegin, EventType::Existing),
        (BookmarkKind::ManifestBegin, EventType::Upserted),
    ] {
        let mut anew = good();
        anew.responses.truncate(3);
        anew.responses.extend(state(begins, kind));
        finds(14, &anew);
        anew.request.delivery_mode = v1::DeliveryMode::Latest.into();
        assert_eq!(checks(&anew), [0u8; 0]);
        let mut broken = anew.clone();
        broken.responses[3].bookmark.as_mut().unwrap().kind = BookmarkKind::Progress.into();
        finds(5, &broken);
        // What came before without a bookmark had to be right.
        let mut broken = anew;
        broken.responses[2].bookmark = None;
        let first = broken.responses[2].events[0].resource.as_mut().unwrap();
        first.value = b"other".as_slice().into();
        finds(8, &broken);
    }
}

#[test]
fn check_12_a_net_difference_with_a_change_that_was_not_the_newest() {
    let mut broken = net();
    let early = event(
        EventType::Upserted,
        pod("a", 3, "ua", 1, "web"),
        None,
        DeleteCause::Unspecified,
    );
    broken.responses[1].events.insert(0, early);
    finds(12, &broken);
}

#[test]
fn check_5_a_bookmark_beyond_the_newest_revision() {
    let mut broken = good();
    let bookmark = broken.responses[3].bookmark.as_mut().unwrap();
    bookmark.latest_revision = bookmark.revision - 1;
    finds(5, &broken);
}

#[test]
fn check_8_a_watch_of_every_change_that_leaves_some_out() {
    let mut broken = good();
    broken.responses[3]
        .bookmark
        .as_mut()
        .unwrap()
        .coalesced_count = 1;
    finds(8, &broken);
}

#[test]
fn check_8_and_13_the_newest_change_is_a_deletion_of_another_state_or_cause() {
    let mut latest = good();
    latest.request.delivery_mode = v1::DeliveryMode::Latest.into();
    let mut broken = latest.clone();
    let resource = broken.responses[4].events[0].resource.as_mut().unwrap();
    resource.value = b"rubbish".to_vec().into();
    finds(8, &broken);
    let mut broken = latest;
    broken.responses[4].events[0].delete_cause = DeleteCause::Expired.into();
    finds(13, &broken);
}

#[test]
fn check_9_the_newest_change_of_what_never_was() {
    let mut latest = good();
    latest.request.delivery_mode = v1::DeliveryMode::Latest.into();
    let mut broken = latest.clone();
    broken.responses[2].events[0].previous = Some(pod("a", 2, "ua", 1, "web"));
    finds(9, &broken);
    // It was so, but before the last bookmark.
    let mut broken = latest;
    broken.responses[3].events[0].previous = Some(pod("a", 1, "ua", 1, "web"));
    finds(9, &broken);
}

#[test]
fn check_27_an_end_without_a_reason_or_before_its_time() {
    let refused = tonic::Status::unavailable("no reason");
    let cut = tonic::Status::from_error("the connection broke".into());
    assert_eq!(End::of(&cut), End::Cut);
    let nothing = String::new();
    for (end, is_right) in [
        (End::of(&refused), false),
        (End::Failed(tonic::Code::Unavailable, nothing), false),
        (
            End::Failed(tonic::Code::Unavailable, "NO_SUCH".into()),
            false,
        ),
        (
            End::Failed(tonic::Code::Unavailable, "NOT_READY".into()),
            true,
        ),
        (End::Ended, true),
    ] {
        let mut recorded = good();
        recorded.end = end;
        let wanted = if is_right { vec![] } else { vec![27] };
        assert_eq!(checks(&recorded), wanted, "{:?}", recorded.end);
    }
    let mut early = good();
    early.end = End::Ended;
    early.responses.truncate(2);
    finds(27, &early);
    // That state was all it was for.
    let only = v1::InitialState {
        only: true,
        ..v1::InitialState::default()
    };
    early.request.start = Some(Start::InitialState(only));
    assert_eq!(checks(&early), [0u8; 0]);
}

#[test]
fn check_8_11_and_9_an_object_with_another_time_or_type() {
    let others: [fn(&mut v1::Resource); 3] = [
        |r| r.expire_time = Some(prost_types::Timestamp::default()),
        |r| r.update_time = Some(prost_types::Timestamp::default()),
        |r| r.content_type = "text/plain".into(),
    ];
    for other in others {
        let mut broken = good();
        other(broken.responses[2].events[0].resource.as_mut().unwrap());
        finds(8, &broken);
        let mut broken = good();
        other(broken.responses[2].events[0].previous.as_mut().unwrap());
        finds(9, &broken);
        let mut broken = good();
        other(broken.responses[1].events[0].resource.as_mut().unwrap());
        finds(11, &broken);
    }
    // The time of a deletion is its own.
    let mut deleted = good();
    let shown = |of: &mut Recording, other: fn(&mut v1::Resource)| {
        other(of.responses[3].events[0].resource.as_mut().unwrap());
    };
    shown(&mut deleted, others[1]);
    assert_eq!(checks(&deleted), [0u8; 0]);
    shown(&mut deleted, others[0]);
    finds(13, &deleted);
}
