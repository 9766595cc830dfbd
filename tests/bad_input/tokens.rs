//! Tokens that are damaged, foreign, or of another request.

use listwatch::v1::{self, watch_request::Start};
use tonic::Code;

use super::{Bed, Call, metadata};
use crate::harness::{everything, reason, watch};

fn list(page_token: &str) -> v1::ListRequest {
    v1::ListRequest {
        selector: Some(everything("pods")),
        page_size: 1,
        page_token: page_token.into(),
        ..v1::ListRequest::default()
    }
}

fn resume(token: &str) -> v1::WatchRequest {
    watch("pods", Some(Start::ResumeToken(token.into())))
}

/// A page token and a resume token of `pods`.
async fn tokens(bed: &Bed) -> (String, String) {
    let page = bed
        .service
        .clone()
        .list(list(""))
        .await
        .unwrap()
        .into_inner();
    assert!(!page.next_page_token.is_empty());
    (page.next_page_token, page.resume_token)
}

#[tokio::test]
async fn every_cut_and_every_altered_token_is_refused() {
    let bed = Bed::new().await;
    let (page, resume_token) = tokens(&bed).await;
    bed.accepts(list(&page)).await;
    bed.accepts(resume(&resume_token)).await;
    let damaged = |token: &str| {
        let mut all = Vec::new();
        for place in 0..token.len() {
            // An empty page token asks for the first page.
            if place > 0 {
                all.push(token[..place].to_owned());
                all.push(token[place..].to_owned());
            }
            for other in ['A', 'B', '_', '=', '+', ' ', 'é', '\0'] {
                let mut text: Vec<char> = token.chars().collect();
                if text[place] != other {
                    text[place] = other;
                    all.push(text.into_iter().collect());
                }
            }
            all.push(format!("{}A{}", &token[..place], &token[place..]));
        }
        for extra in ["A", "=", "==", "\n", "AAAA"] {
            all.push(format!("{token}{extra}"));
        }
        all
    };
    for bad in damaged(&page) {
        bed.refuses_token(list(&bad), "page_token").await;
    }
    for bad in damaged(&resume_token) {
        bed.refuses_token(resume(&bad), "resume_token").await;
    }
}

#[tokio::test]
async fn what_is_no_token_at_all_is_refused() {
    let bed = Bed::new().await;
    let zeros = "A".repeat(66);
    let huge = "A".repeat(1 << 20);
    for text in [
        "x",
        "====",
        "not a token",
        "日本",
        "\0",
        &zeros,
        &huge[..1024],
        &huge[..1025],
        &huge,
    ] {
        bed.refuses_token(list(text), "page_token").await;
        bed.refuses_token(resume(text), "resume_token").await;
    }
    // An empty page token asks for the first page; an empty resume token was asked for.
    bed.refuses_token(resume(""), "resume_token").await;
}

#[tokio::test]
async fn a_token_of_one_kind_is_none_of_the_other() {
    let bed = Bed::new().await;
    let (page, resume_token) = tokens(&bed).await;
    bed.refuses_token(list(&resume_token), "page_token").await;
    bed.refuses_token(resume(&page), "resume_token").await;
}

#[tokio::test]
async fn a_resume_token_of_another_selector_is_refused() {
    let bed = Bed::new().await;
    let (_, token) = tokens(&bed).await;
    let start = || Some(Start::ResumeToken(token.clone()));
    let others = [
        everything("nodes"),
        v1::Selector {
            namespace: "default".into(),
            ..everything("pods")
        },
        v1::Selector {
            name: "a".into(),
            ..everything("pods")
        },
        v1::Selector {
            name_prefix: "a".into(),
            ..everything("pods")
        },
        v1::Selector {
            labels: vec![v1::LabelRequirement {
                key: "app".into(),
                operator: v1::LabelOperator::Exists.into(),
                values: vec![],
            }],
            ..everything("pods")
        },
        v1::Selector {
            fields: vec![v1::FieldRequirement {
                path: "metadata.name".into(),
                not_equal: true,
                value: "a".into(),
            }],
            ..everything("pods")
        },
    ];
    for selector in others {
        let request = v1::WatchRequest {
            selector: Some(selector),
            start: start(),
            ..v1::WatchRequest::default()
        };
        bed.refuses_token(request, "resume_token").await;
    }
}

#[tokio::test]
async fn a_page_token_of_another_request_is_refused() {
    let bed = Bed::new().await;
    let (page, _) = tokens(&bed).await;
    let consistency = |kind| Some(v1::Consistency { kind: Some(kind) });
    use v1::consistency::Kind;
    let others = [
        v1::ListRequest {
            selector: Some(everything("nodes")),
            ..list(&page)
        },
        v1::ListRequest {
            selector: Some(v1::Selector {
                namespace: "default".into(),
                ..everything("pods")
            }),
            ..list(&page)
        },
        v1::ListRequest {
            view: v1::View::Key.into(),
            ..list(&page)
        },
        v1::ListRequest {
            consistency: consistency(Kind::Any(true)),
            ..list(&page)
        },
        v1::ListRequest {
            consistency: consistency(Kind::ExactRevision(2)),
            ..list(&page)
        },
    ];
    for request in others {
        bed.refuses_token(request, "page_token").await;
    }
    // The page's size is no part of what the token pins.
    let larger = v1::ListRequest {
        page_size: 7,
        ..list(&page)
    };
    bed.accepts(larger).await;
}

#[tokio::test]
async fn a_token_of_another_store_says_so_and_names_this_one() {
    let (bed, other) = (Bed::new().await, Bed::new().await);
    let (page, token) = tokens(&other).await;
    let calls: [Call; 3] = [
        list(&page).into(),
        resume(&token).into(),
        // Whatever the selector: to a client that meets another store all else is secondary.
        watch("nodes", Some(Start::ResumeToken(token))).into(),
    ];
    for call in calls {
        let status = bed.fails(call).await;
        assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
        assert_eq!(reason(&status), "STORE_CHANGED");
        let id = bed.harness.store.id().to_string();
        assert_eq!(metadata(&status, "store_id"), id);
    }
}
