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
    assert_eq!(
        definitions.len(),
        registry.kinds().len() + meta::schemas(Dialect::V2).len()
    );
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
fn protobuf_alone_is_not_answered_with_json() {
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    assert!(!is_json_accepted(protobuf));
    assert!(is_json_accepted(&format!(
        "{protobuf}, application/json;q=0.9"
    )));
    assert!(is_json_accepted("") && is_json_accepted("*/*"));
}
