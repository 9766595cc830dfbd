use serde_json::json;

use super::*;

fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {
                    "name": "v1beta1", "served": true, "storage": false,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                },
                {
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {
                            "colour": {"type": "string"}, "list": {"type": "array"},
                            "weight": {"type": "number"},
                        }}},
                    }},
                    "subresources": {"status": {}},
                    "selectableFields": [{"jsonPath": ".spec.colour"}],
                    "additionalPrinterColumns": [
                        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
                    ],
                },
                {
                    "name": "v1alpha1", "served": false, "storage": false,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                },
            ],
        },
    })
}

#[test]
fn every_row_of_the_table_becomes_a_kind_with_a_place_of_its_own() {
    let kinds = Kinds::builtin().registry();
    assert_eq!(kinds.kinds().len(), builtin::rows());
    assert_eq!(kinds.by_collection.len(), builtin::rows());
    for kind in kinds.kinds() {
        assert!(
            kinds
                .find(&kind.group, &kind.version, &kind.resource)
                .is_some()
        );
        let found = kinds.of_object(&kind.api_version(), &kind.kind);
        assert_eq!(found, Some(kind));
    }
}

#[test]
fn kinds_are_found_by_place_and_by_collection() {
    let kinds = Kinds::builtin();
    let pods = kinds.find("", "v1", "pods").unwrap();
    assert_eq!(
        (pods.kind.as_str(), pods.list_kind.as_str()),
        ("Pod", "PodList")
    );
    assert_eq!(pods.api_version(), "v1");
    assert!(pods.namespaced && pods.status);
    let deployments = kinds.in_collection("deployments.apps").unwrap();
    assert_eq!(deployments.api_version(), "apps/v1");
    assert_eq!(deployments.qualified(), "deployments.apps");
    assert!(kinds.find("apps", "v1", "pods").is_none());
    assert!(kinds.find("", "v2", "pods").is_none());
    assert!(kinds.in_collection("pods.apps").is_none());
    assert!(!kinds.find("", "v1", "nodes").unwrap().namespaced);
}

#[test]
fn a_definition_brings_its_served_versions() {
    let brought = Kinds::from_crd(&widgets()).unwrap();
    assert_eq!(brought.len(), 2);
    let v1 = &brought[1];
    assert_eq!(
        (v1.singular.as_str(), v1.list_kind.as_str()),
        ("widget", "WidgetList")
    );
    assert_eq!(v1.selectable, ["spec.colour"]);
    assert_eq!(v1.columns[0].priority, 1);
    assert!(v1.status && !brought[0].status);
    assert!(!v1.takes_strategic_merge());

    let kinds = Kinds::builtin();
    kinds.set(&brought).unwrap();
    assert_eq!(
        kinds.in_collection("widgets.example.com").unwrap().version,
        "v1"
    );
    assert!(kinds.find("example.com", "v1beta1", "widgets").is_some());
    assert!(kinds.find("example.com", "v1alpha1", "widgets").is_none());
    let registry = kinds.registry();
    let group = registry.group("example.com").unwrap();
    let versions: Vec<_> = group.versions.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(versions, ["v1", "v1beta1"]);
}

#[test]
fn a_definition_applied_again_replaces_its_versions() {
    let kinds = Kinds::builtin();
    kinds.set(&Kinds::from_crd(&widgets()).unwrap()).unwrap();
    let mut changed = widgets();
    changed["spec"]["versions"][0]["served"] = json!(false);
    changed["spec"]["names"]["shortNames"] = json!(["wdg"]);
    kinds.set(&Kinds::from_crd(&changed).unwrap()).unwrap();
    assert!(kinds.find("example.com", "v1beta1", "widgets").is_none());
    assert_eq!(
        kinds
            .find("example.com", "v1", "widgets")
            .unwrap()
            .short_names,
        ["wdg"]
    );
    assert!(kinds.remove("example.com", "widgets"));
    assert!(!kinds.remove("example.com", "widgets"));
    assert!(kinds.registry().group("example.com").is_none());
}

#[test]
fn what_is_built_in_stays_as_it_is() {
    let kinds = Kinds::builtin();
    let mut crd = widgets();
    crd["metadata"]["name"] = json!("ingresses.networking.k8s.io");
    crd["spec"]["group"] = json!("networking.k8s.io");
    crd["spec"]["names"] = json!({"plural": "ingresses", "kind": "Ingress"});
    let refused = kinds.set(&Kinds::from_crd(&crd).unwrap());
    assert_eq!(
        refused,
        Err(KindsError::Fixed("ingresses.networking.k8s.io".into()))
    );
    crd["metadata"]["name"] = json!("ingressez.networking.k8s.io");
    crd["spec"]["names"]["plural"] = json!("ingressez");
    let refused = kinds.set(&Kinds::from_crd(&crd).unwrap());
    assert!(matches!(refused, Err(KindsError::KindTaken { .. })));
    assert!(!kinds.remove("networking.k8s.io", "ingresses"));
    assert_eq!(kinds.registry().kinds().len(), builtin::rows());
}

#[test]
fn a_definition_that_is_wrong_names_every_field_at_fault() {
    for (path, value, field) in [
        ("/spec/group", json!("apps"), "spec.group"),
        ("/spec/group", json!(7), "spec.group"),
        ("/spec/scope", json!("Galaxy"), "spec.scope"),
        ("/spec/names/plural", json!("Widgets"), "spec.names.plural"),
        ("/spec/names/kind", json!(""), "spec.names.kind"),
        ("/spec/names/kind", json!("a/b"), "spec.names.kind"),
        (
            "/spec/names/shortNames",
            json!("wd"),
            "spec.names.shortNames",
        ),
        (
            "/spec/names/shortNames",
            json!(["W D"]),
            "spec.names.shortNames[0]",
        ),
        ("/spec/versions", json!([]), "spec.versions"),
        ("/spec/versions", json!({}), "spec.versions"),
        ("/spec/versions/0/storage", json!(true), "spec.versions"),
        (
            "/spec/versions/0/name",
            json!("v1"),
            "spec.versions[1].name",
        ),
        (
            "/spec/versions/0/name",
            json!("V 1"),
            "spec.versions[0].name",
        ),
        (
            "/spec/versions/0/served",
            json!("yes"),
            "spec.versions[0].served",
        ),
        (
            "/spec/versions/0/schema",
            json!(null),
            "spec.versions[0].schema.openAPIV3Schema",
        ),
        ("/metadata/name", json!("widgets"), "metadata.name"),
        (
            "/spec/versions/1/additionalPrinterColumns/0/type",
            json!("colour"),
            "spec.versions[1].additionalPrinterColumns[0].type",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!(".spec.list[0]"),
            "spec.versions[1].selectableFields[0].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!(".spec.nothing"),
            "spec.versions[1].selectableFields[0].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!(".spec.list"),
            "spec.versions[1].selectableFields[0].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!(".spec.weight"),
            "spec.versions[1].selectableFields[0].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!(".spec"),
            "spec.versions[1].selectableFields[0].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!(".spec..colour"),
            "spec.versions[1].selectableFields[0].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!("spec.colour"),
            "spec.versions[1].selectableFields[0].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!(".metadata.name"),
            "spec.versions[1].selectableFields[0].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!(""),
            "spec.versions[1].selectableFields[0].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!(7),
            "spec.versions[1].selectableFields[0].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields/0/jsonPath",
            json!(null),
            "spec.versions[1].selectableFields[0].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields",
            json!([{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.colour"}]),
            "spec.versions[1].selectableFields[1].jsonPath",
        ),
        (
            "/spec/versions/1/selectableFields",
            json!(vec![json!({"jsonPath": ".spec.colour"}); 9]),
            "spec.versions[1].selectableFields",
        ),
        (
            "/spec/versions/1/selectableFields",
            json!({}),
            "spec.versions[1].selectableFields",
        ),
    ] {
        let mut crd = widgets();
        *crd.pointer_mut(path).unwrap() = value;
        let error = Kinds::from_crd(&crd).unwrap_err();
        let fields: Vec<_> = error.causes.iter().map(|c| c.field.as_str()).collect();
        assert!(fields.contains(&field), "{path}: {fields:?}");
    }
    for nothing in [json!(null), json!([]), json!("crd"), json!({"spec": []})] {
        assert!(Kinds::from_crd(&nothing).is_err());
    }
}

#[test]
fn the_configuration_declares_kinds_under_the_same_rules() {
    let declared = json!({
        "group": "shop.example", "version": "v1", "resource": "orders", "kind": "Order",
        "status": true, "fields": ["spec.customer"],
    });
    let declared: DeclaredKind = serde_json::from_value(declared).unwrap();
    let kinds = Kinds::with_declared(std::slice::from_ref(&declared)).unwrap();
    let kind = kinds.in_collection("orders.shop.example").unwrap();
    assert!(kind.namespaced && kind.status && kind.storage && kind.is_fixed && !kind.builtin);
    assert_eq!(kind.selectable, ["spec.customer"]);
    // No definition takes its place, or takes it away.
    let mut crd = widgets();
    crd["metadata"]["name"] = json!("orders.shop.example");
    crd["spec"]["group"] = json!("shop.example");
    crd["spec"]["names"] = json!({"plural": "orders", "kind": "Order"});
    let refused = kinds.set(&Kinds::from_crd(&crd).unwrap());
    assert_eq!(
        refused,
        Err(KindsError::Fixed("orders.shop.example".into()))
    );
    assert!(!kinds.remove("shop.example", "orders"));
    assert_eq!(kinds.in_collection("orders.shop.example"), Some(kind));
}

#[test]
fn a_declaration_that_is_wrong_is_named_with_its_fields() {
    let good = || DeclaredKind::new("shop.example", "v1", "orders", "Order");
    type Change = fn(&mut DeclaredKind);
    let cases: [(Change, &str); 11] = [
        (|k| k.resource = "Orders".into(), "resource: Invalid value"),
        (|k| k.resource = String::new(), "resource: Required value"),
        (|k| k.resource = "lines".into(), "kind: Invalid value"),
        (|k| k.resource = "a".repeat(64), "resource: Invalid value"),
        (|k| k.kind = "Or der".into(), "kind: Invalid value"),
        (|k| k.group = "shop".into(), "group: Invalid value"),
        (|k| k.version = "1".into(), "version: Invalid value"),
        (
            |k| k.short_names = vec!["O".into()],
            "shortNames[0]: Invalid",
        ),
        (
            |k| k.categories = vec![" ".into()],
            "categories[0]: Invalid",
        ),
        (
            |k| k.fields = vec!["a[0]".into()],
            "fields[0]: Invalid value",
        ),
        (|k| k.fields = vec!["spec.a".into(); 9], "fields: Too long"),
    ];
    for (change, expected) in cases {
        let mut bad = good();
        change(&mut bad);
        let error = Kinds::with_declared(&[good(), bad]).unwrap_err();
        assert_eq!(error.place, 1);
        assert!(error.problems.contains(expected), "{expected}: {error}");
    }
    let twice = Kinds::with_declared(&[good(), good()]).unwrap_err();
    assert_eq!(
        twice.to_string(),
        "kinds[1] (orders.shop.example): resource: Duplicate value: is declared twice"
    );
    let builtin = DeclaredKind::new("networking.k8s.io", "v1", "ingresses", "Ingress");
    let error = Kinds::with_declared(&[builtin]).unwrap_err();
    assert!(error.problems.contains("is built in"), "{error}");
    let many: Vec<_> = (0..MAX_KINDS)
        .map(|n| DeclaredKind::new("shop.example", "v1", format!("r{n}"), format!("K{n}")))
        .collect();
    let error = Kinds::with_declared(&many).unwrap_err();
    assert_eq!(error.place, MAX_KINDS - builtin::rows());
    assert!(error.problems.contains("limit"), "{error}");
}

#[test]
fn versions_are_ordered_by_how_stable_they_are() {
    let mut versions = [
        "foo1",
        "v1alpha1",
        "v2",
        "v11beta2",
        "v10",
        "v1",
        "foo10",
        "v3beta1",
        "v12alpha1",
        "v11alpha2",
    ];
    versions.sort_by(|a, b| version_order(a, b));
    assert_eq!(
        versions,
        [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "v1alpha1",
            "foo1",
            "foo10",
        ]
    );
}
