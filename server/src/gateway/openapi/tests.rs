use super::*;
use crate::gateway::kinds::Kinds;

/// All references of a document lead somewhere.
fn resolve(document: &Value, at: &Value) {
    match at {
        Value::Object(fields) => {
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                let path = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(path).is_some(), "{reference}");
            }
            fields.values().for_each(|value| resolve(document, value));
        }
        Value::Array(items) => items.iter().for_each(|item| resolve(document, item)),
        _ => {}
    }
}

fn kinds() -> Kinds {
    let kinds = Kinds::builtin();
    let crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"colour": {"type": "string"}}},
                }}},
            }],
        },
    });
    kinds.set(&Kinds::from_crd(&crd).unwrap()).unwrap();
    kinds
}

#[test]
fn every_kind_has_a_schema_and_paths_that_name_it() {
    let registry = kinds().registry();
    for kind in registry.kinds() {
        let told = document(&registry, &kind.group, &kind.version).unwrap();
        let gvk = schema::group_version_kind(kind);
        let schemas = told["components"]["schemas"].as_object().unwrap();
        let own = schemas
            .values()
            .filter(|schema| schema["x-kubernetes-group-version-kind"] == json!([gvk]));
        assert_eq!(own.count(), 1, "{}", kind.kind);
        // What kubectl looks for before it lets the server validate.
        let patched = told["paths"].as_object().unwrap().values().any(|path| {
            path["patch"]["x-kubernetes-group-version-kind"] == gvk
                && path["patch"]["parameters"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|parameter| parameter["name"] == "fieldValidation")
        });
        assert!(patched, "{}", kind.kind);
    }
}

#[test]
fn references_lead_to_what_is_in_the_document() {
    let registry = kinds().registry();
    let v2 = everything(&registry);
    resolve(&v2, &v2);
    let definitions = v2["definitions"].as_object().unwrap();
    assert!(definitions.len() > registry.kinds().len() + meta::schemas(Dialect::V2).len());
    // What all of kubectl's runs may have to fetch.
    let bytes = v2.to_string().len();
    assert!(bytes < 600_000, "{bytes} bytes");
    for group in registry.groups() {
        for version in &group.versions {
            let v3 = document(&registry, &group.name, &version.name).unwrap();
            resolve(&v3, &v3);
        }
    }
}

#[test]
fn a_defined_kind_is_described_by_its_own_schema() {
    let registry = kinds().registry();
    let told = document(&registry, "example.com", "v1").unwrap();
    let widget = &told["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(
        widget.pointer("/properties/spec/properties/colour/type"),
        Some(&json!("string"))
    );
    assert!(widget["properties"]["metadata"]["allOf"].is_array());
    let v2 = everything(&registry);
    let widget = &v2["definitions"]["com.example.v1.Widget"];
    assert_eq!(widget["x-kubernetes-preserve-unknown-fields"], true);
}

#[test]
fn the_index_names_every_document_and_changes_with_it() {
    let kinds = kinds();
    let before = index(&kinds.registry());
    for (place, entry) in before["paths"].as_object().unwrap() {
        let address = entry["serverRelativeURL"].as_str().unwrap();
        assert!(
            address.starts_with(&format!("/openapi/v3/{place}?hash=")),
            "{address}"
        );
    }
    assert!(before["paths"]["api/v1"].is_object());
    kinds.remove("example.com", "widgets");
    let after = index(&kinds.registry());
    assert!(after["paths"]["apis/example.com/v1"].is_null());
    assert_eq!(after["paths"]["api/v1"], before["paths"]["api/v1"]);
    assert_eq!(document(&kinds.registry(), "example.com", "v1"), None);
}

#[test]
fn the_second_version_comes_in_the_form_that_is_accepted_first() {
    for (accept, form) in [
        ("", Some(Form::Json)),
        ("*/*", Some(Form::Json)),
        (protobuf::ASKED, Some(Form::Protobuf)),
        (
            "text/html, application/com.github.proto-openapi.spec.v2.v1.0+protobuf, */*",
            Some(Form::Protobuf),
        ),
        ("application/json;q=0.9", Some(Form::Json)),
        ("text/html", None),
    ] {
        assert_eq!(Form::accepted(accept), form, "{accept}");
    }
}

#[test]
fn what_is_below_a_built_in_kind_s_spec_is_described() {
    let registry = kinds().registry();
    let told = document(&registry, "apps", "v1").unwrap();
    let field = |of: &str, name: &str| {
        let schemas = &told["components"]["schemas"];
        schemas[format!("io.k8s.api.{of}")]["properties"][name].clone()
    };
    let reference = |name: &str| Dialect::V3.reference(&format!("io.k8s.{name}"));
    let spec = reference("api.apps.v1.DeploymentSpec");
    assert_eq!(field("apps.v1.Deployment", "spec"), spec);
    let count = json!({"type": "integer", "format": "int32"});
    assert_eq!(field("apps.v1.DeploymentSpec", "replicas"), count);
    assert_eq!(
        field("core.v1.PodSpec", "containers"),
        json!({
            "type": "array",
            "items": reference("api.core.v1.Container"),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "name",
        })
    );
    assert_eq!(
        field("core.v1.Volume", "secret"),
        reference("api.core.v1.SecretVolumeSource")
    );
    assert_eq!(
        field("core.v1.ResourceRequirements", "limits")["additionalProperties"],
        reference("apimachinery.pkg.api.resource.Quantity")
    );
    let selector = &told["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"];
    assert_eq!(selector["required"], json!(["selector", "template"]));
}
