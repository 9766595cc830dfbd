//! Missing messages, unknown enum values, numbers out of range.

use listwatch::v1;

use super::{Bed, Call};
use crate::harness::{everything, key, watch};

fn list(page_size: i32) -> v1::ListRequest {
    v1::ListRequest {
        selector: Some(everything("pods")),
        page_size,
        ..v1::ListRequest::default()
    }
}

#[tokio::test]
async fn an_empty_request_is_refused_by_the_first_field_that_it_lacks() {
    let bed = Bed::new().await;
    let table: [(Call, &str); 8] = [
        (v1::GetRequest::default().into(), "key"),
        (v1::ListRequest::default().into(), "selector"),
        (v1::WatchRequest::default().into(), "selector"),
        (v1::CreateRequest::default().into(), "resource"),
        (v1::UpdateRequest::default().into(), "resource"),
        (v1::DeleteRequest::default().into(), "key"),
        (v1::BatchRequest::default().into(), "operations"),
        (v1::CompactRequest::default().into(), "revision"),
    ];
    for (call, field) in table {
        bed.refuses(call, field).await;
    }
}

#[tokio::test]
async fn unknown_enum_values_are_refused() {
    let bed = Bed::new().await;
    for number in [4, 100, -1, i32::MIN, i32::MAX] {
        let get = v1::GetRequest {
            key: Some(key("pods", "a")),
            view: number,
            ..v1::GetRequest::default()
        };
        let list = v1::ListRequest {
            view: number,
            ..list(0)
        };
        let view = v1::WatchRequest {
            view: number,
            ..watch("pods", None)
        };
        let mode = v1::WatchRequest {
            delivery_mode: number,
            ..watch("pods", None)
        };
        let catch_up = v1::WatchRequest {
            catch_up: number,
            ..watch("pods", None)
        };
        bed.refuses(get, "view").await;
        bed.refuses(list, "view").await;
        bed.refuses(view, "view").await;
        bed.refuses(mode, "delivery_mode").await;
        bed.refuses(catch_up, "catch_up").await;
    }
}

#[tokio::test]
async fn a_negative_page_size_is_refused_and_a_huge_one_is_taken_as_the_limit() {
    let bed = Bed::new().await;
    for size in [-1, i32::MIN] {
        bed.refuses(list(size), "page_size").await;
    }
    for size in [0, 1, 10_000, 10_001, i32::MAX] {
        bed.accepts(list(size)).await;
    }
}

#[tokio::test]
async fn a_page_holds_no_more_than_was_asked_for_or_the_limit_allows() {
    let bed = Bed::new().await;
    for n in 0..600 {
        bed.harness.put("many", &format!("n{n}"), "").await;
    }
    for (asked, given) in [(0, 500), (1, 1), (i32::MAX, 600)] {
        let request = v1::ListRequest {
            selector: Some(everything("many")),
            page_size: asked,
            ..v1::ListRequest::default()
        };
        let page = bed
            .service
            .clone()
            .list(request)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(page.resources.len(), given, "page_size {asked}");
    }
}

#[tokio::test]
async fn a_watch_refuses_durations_that_are_none() {
    let bed = Bed::new().await;
    let duration = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    for bad in [
        duration(-1, 0),
        duration(0, -1),
        duration(i64::MIN, i32::MIN),
        duration(1, 1_000_000_000),
        duration(315_576_000_001, 0),
        duration(i64::MAX, 0),
    ] {
        let bookmarks = v1::WatchRequest {
            bookmark_interval: bad,
            ..watch("pods", None)
        };
        let delay = v1::WatchRequest {
            max_batch_delay: bad,
            ..watch("pods", None)
        };
        bed.refuses(bookmarks, "bookmark_interval").await;
        bed.refuses(delay, "max_batch_delay").await;
    }
    let never = v1::WatchRequest {
        bookmark_interval: duration(0, 0),
        ..watch("pods", None)
    };
    bed.refuses(never, "bookmark_interval").await;
    // What is only unusual is brought into the server's limits.
    for odd in [duration(0, 1), duration(315_576_000_000, 0)] {
        let request = v1::WatchRequest {
            bookmark_interval: odd,
            max_batch_delay: odd,
            ..watch("pods", None)
        };
        bed.accepts(request).await;
    }
}
