//! Label and field requirements that say nothing.

use listwatch::v1;
use listwatch_server::{
    ServerOptions,
    store::{Collection, StoreOptions},
};

use super::{Bed, Call};
use crate::harness::{Harness, everything};

fn requirement(key: &str, operator: i32, values: &[&str]) -> v1::LabelRequirement {
    v1::LabelRequirement {
        key: key.into(),
        operator,
        values: values.iter().map(|v| (*v).to_owned()).collect(),
    }
}

fn field(path: &str, value: &str) -> v1::FieldRequirement {
    v1::FieldRequirement {
        path: path.into(),
        not_equal: false,
        value: value.into(),
    }
}

/// List and Watch with this selector.
fn both(selector: &v1::Selector) -> [Call; 2] {
    [
        v1::ListRequest {
            selector: Some(selector.clone()),
            ..v1::ListRequest::default()
        }
        .into(),
        v1::WatchRequest {
            selector: Some(selector.clone()),
            ..v1::WatchRequest::default()
        }
        .into(),
    ]
}

fn labels(labels: Vec<v1::LabelRequirement>) -> v1::Selector {
    v1::Selector {
        labels,
        ..everything("pods")
    }
}

fn fields(fields: Vec<v1::FieldRequirement>) -> v1::Selector {
    v1::Selector {
        fields,
        ..everything("pods")
    }
}

const IN: i32 = v1::LabelOperator::In as i32;
const NOT_IN: i32 = v1::LabelOperator::NotIn as i32;
const EXISTS: i32 = v1::LabelOperator::Exists as i32;
const NOT_EXISTS: i32 = v1::LabelOperator::NotExists as i32;

#[tokio::test]
async fn a_label_requirement_that_says_nothing_is_refused_by_its_index() {
    let bed = Bed::new().await;
    let table = [
        (requirement("app", 0, &["x"]), "operator"),
        (requirement("app", 5, &["x"]), "operator"),
        (requirement("app", -1, &["x"]), "operator"),
        (requirement("app", i32::MAX, &[]), "operator"),
        (requirement("app", IN, &[]), "values"),
        (requirement("app", NOT_IN, &[]), "values"),
        (requirement("app", EXISTS, &["x"]), "values"),
        (requirement("app", EXISTS, &[""]), "values"),
        (requirement("app", NOT_EXISTS, &["x"]), "values"),
        (requirement("", EXISTS, &[]), "key"),
        (requirement("a b", EXISTS, &[]), "key"),
        (requirement("-a", IN, &["x"]), "key"),
        (requirement("a/b/c", IN, &["x"]), "key"),
        (requirement("app", IN, &["a\nb"]), "values"),
        (requirement("app", IN, &["fine", "\0"]), "values"),
    ];
    for (bad, part) in table {
        let fine = requirement("app", EXISTS, &[]);
        for call in both(&labels(vec![fine, bad.clone()])) {
            bed.refuses(call, &format!("selector.labels[1].{part}"))
                .await;
        }
    }
}

#[tokio::test]
async fn a_label_requirement_has_the_limits_of_labels() {
    let bed = Bed::new().await;
    let long = "x".repeat(254);
    let many: Vec<_> = (0..257).map(|n| format!("v{n}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let table = [
        (requirement(&long[..64], EXISTS, &[]), "key", 63, 64),
        (requirement("app", IN, &[&long]), "values", 253, 254),
        (requirement("app", IN, &many), "values", 256, 257),
    ];
    for (bad, part, limit, size) in table {
        for call in both(&labels(vec![bad.clone()])) {
            let field = format!("selector.labels[0].{part}");
            bed.refuses_size(call, &field, limit, size).await;
        }
    }
    for call in both(&labels(vec![requirement("app", NOT_IN, &many[..256])])) {
        bed.accepts(call).await;
    }
}

#[tokio::test]
async fn a_selector_has_at_most_64_requirements() {
    let bed = Bed::new().await;
    let of = |label_count, field_count| v1::Selector {
        labels: vec![requirement("app", EXISTS, &[]); label_count],
        fields: vec![field("metadata.name", "a"); field_count],
        ..everything("pods")
    };
    for (label_count, field_count) in [(65, 0), (0, 65), (33, 32)] {
        for call in both(&of(label_count, field_count)) {
            bed.refuses_size(call, "selector.labels", 64, 65).await;
        }
    }
    for call in both(&of(32, 32)) {
        bed.accepts(call).await;
    }
}

#[tokio::test]
async fn an_unknown_field_is_refused_and_the_known_ones_are_named() {
    let mut options = ServerOptions::default();
    let pods = Collection::new("pods").unwrap();
    options.service.fields.declare(pods, ["spec.nodeName"]);
    let bed = Bed::on(Harness::with(options, StoreOptions::default()).await).await;
    for path in [
        "",
        "spec",
        "spec.nodename",
        "spec.nodeName.x",
        "a\nb",
        "metadata.uid",
    ] {
        let fine = field("spec.nodeName", "n1");
        for call in both(&fields(vec![fine, field(path, "x")])) {
            let status = bed
                .refuses_as("FIELD_INVALID", call, "selector.fields[1].path")
                .await;
            let named = status
                .message()
                .contains("metadata.name, metadata.namespace, spec.nodeName");
            assert!(named, "{status:?}");
        }
    }
    // Declared for one collection is not declared for another.
    let elsewhere = v1::Selector {
        fields: vec![field("spec.nodeName", "n1")],
        ..everything("nodes")
    };
    for call in both(&elsewhere) {
        bed.refuses(call, "selector.fields[0].path").await;
    }
    for call in both(&fields(vec![field("spec.nodeName", &"n".repeat(254))])) {
        bed.refuses_size(call, "selector.fields[0].value", 253, 254)
            .await;
    }
    for path in ["spec.nodeName", "metadata.name", "metadata.namespace"] {
        for call in both(&fields(vec![field(path, "")])) {
            bed.accepts(call).await;
        }
    }
}
