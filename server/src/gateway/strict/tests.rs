use serde_json::json;

use super::*;
use crate::gateway::kinds::Kinds;

#[test]
fn a_built_in_kind_keeps_what_it_has() {
    let pods = Kinds::builtin().in_collection("pods").unwrap();
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "spek": {},
        "metadata": {
            "name": "a", "label": {}, "labels": {"any": "x"},
            "ownerReferences": [{"uid": "1", "colour": "red"}],
        },
        "spec": {
            "anything": {"goes": 1}, "nodeSelector": {"any": "x"},
            "containers": [{"name": "a"}, {"imagee": "b", "livenessProbe": {"httpGet": {"x": 1}}}],
        },
    });
    let mut told = prune(&pods, &mut pod).unwrap();
    told.sort();
    assert_eq!(
        told,
        [
            "metadata.label",
            "metadata.ownerReferences[0].colour",
            "spec.anything",
            "spec.containers[1].imagee",
            "spec.containers[1].livenessProbe.httpGet.x",
            "spek",
        ]
    );
    assert_eq!(
        pod,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "labels": {"any": "x"}, "ownerReferences": [{"uid": "1"}],
            },
            "spec": {
                "nodeSelector": {"any": "x"},
                "containers": [{"name": "a"}, {"livenessProbe": {"httpGet": {}}}],
            },
        })
    );
    assert!(
        refusal(&pods, &told)
            .contains(r#"strict decoding error: unknown field "metadata.label", "#)
    );
    assert!(prune(&pods, &mut pod).unwrap().is_empty());
    assert!(prune(&pods, &mut json!([])).unwrap().is_empty());
}

#[test]
fn every_built_in_kind_has_the_fields_that_kubernetes_gives_it() {
    let kinds = Kinds::builtin();
    for (collection, mut object) in [
        (
            "configmaps",
            json!({"data": {}, "binaryData": {}, "immutable": true}),
        ),
        (
            "secrets",
            json!({"data": {}, "stringData": {}, "type": "Opaque"}),
        ),
        ("leases.coordination.k8s.io", json!({"spec": {}})),
        ("nodes", json!({"spec": {}, "status": {}})),
        (
            "events",
            json!({"involvedObject": {}, "message": "x", "source": {}}),
        ),
        (
            "clusterroles.rbac.authorization.k8s.io",
            json!({"rules": []}),
        ),
        (
            "customresourcedefinitions.apiextensions.k8s.io",
            json!({"spec": {}, "status": {}}),
        ),
    ] {
        let kind = kinds.in_collection(collection).unwrap();
        assert_eq!(prune(&kind, &mut object), Ok(Vec::new()), "{collection}");
    }
}

#[test]
fn a_defined_kind_keeps_what_its_schema_says() {
    let crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "colour": {"type": "string"},
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        "byName": {"type": "object", "additionalProperties": {
                            "type": "object", "properties": {"a": {"type": "integer"}},
                        }},
                        "list": {"type": "array", "items": {
                            "type": "object", "properties": {"a": {"type": "integer"}},
                        }},
                    }},
                }}},
            }],
        },
    });
    let widget = Kinds::from_crd(&crd).unwrap().pop().unwrap();
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
        "spec": {
            "colour": "red", "size": 1, "free": {"x": {"y": 1}},
            "byName": {"n": {"a": 1, "b": 2}}, "list": [{"a": 1}, {"b": 2}],
        },
        "extra": 1,
    });
    let mut told = prune(&widget, &mut object).unwrap();
    told.sort();
    assert_eq!(
        told,
        ["extra", "spec.byName.n.b", "spec.list[1].b", "spec.size"]
    );
    assert_eq!(object["metadata"], json!({"name": "a"}));
    assert_eq!(
        object["spec"],
        json!({
            "colour": "red", "free": {"x": {"y": 1}},
            "byName": {"n": {"a": 1}}, "list": [{"a": 1}, {}],
        })
    );
}

#[test]
fn a_value_of_another_type_than_its_field_is_told_as_go_tells_it() {
    let kinds = Kinds::builtin();
    let problem = |collection: &str, mut object: Value| {
        let kind = kinds.in_collection(collection).unwrap();
        prune(&kind, &mut object).unwrap_err()
    };
    for (spec, said) in [
        (
            json!({"hostNetwork": "yes"}),
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type \
             bool",
        ),
        (
            json!({"containers": [{"name": "a"}, {"image": 1}]}),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.image \
             of type string",
        ),
        (
            json!({"containers": {}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type \
             []v1.Container",
        ),
        (
            json!({"securityContext": []}),
            "json: cannot unmarshal array into Go struct field PodSpec.spec.securityContext of \
             type v1.PodSecurityContext",
        ),
        (
            json!({"nodeSelector": {"a": true}}),
            "json: cannot unmarshal bool into Go struct field PodSpec.spec.nodeSelector of type \
             string",
        ),
        (
            json!({"priority": 1.5}),
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type \
             int32",
        ),
        (
            json!({"overhead": {"cpu": "much"}}),
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        assert_eq!(problem("pods", json!({"spec": spec})), said);
    }
    let secret = problem("secrets", json!({"data": {"a": "YQ==", "b": "x!"}}));
    assert_eq!(secret, "illegal base64 data at input byte 1");
    let lease = json!({"spec": {"renewTime": "now"}});
    let lease = problem("leases.coordination.k8s.io", lease);
    assert!(lease.starts_with("parsing time \"now\" as "), "{lease}");
    // Nothing is of any type.
    let pods = kinds.in_collection("pods").unwrap();
    let mut pod = json!({"spec": {"containers": [null, {"ports": null}], "hostNetwork": null}});
    assert_eq!(prune(&pods, &mut pod), Ok(Vec::new()));
}
