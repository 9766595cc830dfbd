//! The document of OpenAPI 2 as Protobuf, in which kubectl before 1.27 asks for it: the
//! messages `openapi.v2.*` of gnostic, as far as our documents have their fields.

use prost::{Message, Oneof};
use serde_json::{Map, Value};

/// The media type, as clients ask for it.
pub(super) const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type, as it is answered: Go's parser takes no `@` in one.
pub(super) const ANSWERED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

#[derive(Clone, PartialEq, Message)]
struct Document {
    #[prost(string, tag = "1")]
    swagger: String,
    #[prost(message, optional, tag = "2")]
    info: Option<Info>,
    #[prost(message, optional, tag = "8")]
    paths: Option<Paths>,
    #[prost(message, optional, tag = "9")]
    definitions: Option<Schemas>,
}

#[derive(Clone, PartialEq, Message)]
struct Info {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Paths {
    #[prost(message, repeated, tag = "2")]
    path: Vec<NamedPath>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedPath {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Path>,
}

#[derive(Clone, PartialEq, Message)]
struct Path {
    #[prost(message, optional, tag = "2")]
    get: Option<Operation>,
    #[prost(message, optional, tag = "3")]
    put: Option<Operation>,
    #[prost(message, optional, tag = "4")]
    post: Option<Operation>,
    #[prost(message, optional, tag = "5")]
    delete: Option<Operation>,
    #[prost(message, optional, tag = "8")]
    patch: Option<Operation>,
}

#[derive(Clone, PartialEq, Message)]
struct Operation {
    #[prost(message, repeated, tag = "8")]
    parameters: Vec<ParametersItem>,
    #[prost(message, optional, tag = "9")]
    responses: Option<Responses>,
    #[prost(message, repeated, tag = "13")]
    extensions: Vec<Extension>,
}

#[derive(Clone, PartialEq, Message)]
struct ParametersItem {
    #[prost(message, optional, tag = "1")]
    parameter: Option<Parameter>,
}

#[derive(Clone, PartialEq, Message)]
struct Parameter {
    #[prost(message, optional, tag = "2")]
    non_body: Option<NonBodyParameter>,
}

#[derive(Clone, PartialEq, Message)]
struct NonBodyParameter {
    #[prost(message, optional, tag = "3")]
    query: Option<QueryParameter>,
}

#[derive(Clone, PartialEq, Message)]
struct QueryParameter {
    #[prost(string, tag = "2")]
    place: String,
    #[prost(string, tag = "4")]
    name: String,
    #[prost(string, tag = "6")]
    kind: String,
    #[prost(bool, tag = "20")]
    unique_items: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Responses {
    #[prost(message, repeated, tag = "1")]
    codes: Vec<NamedResponse>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedResponse {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<ResponseValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ResponseValue {
    #[prost(message, optional, tag = "1")]
    response: Option<Response>,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(string, tag = "1")]
    description: String,
}

/// `Definitions` and `Properties`, which are alike.
#[derive(Clone, PartialEq, Message)]
struct Schemas {
    #[prost(message, repeated, tag = "1")]
    named: Vec<NamedSchema>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedSchema {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Schema>,
}

#[derive(Clone, PartialEq, Message)]
struct Schema {
    #[prost(string, tag = "1")]
    reference: String,
    #[prost(string, tag = "2")]
    format: String,
    #[prost(string, tag = "4")]
    description: String,
    #[prost(string, repeated, tag = "19")]
    required: Vec<String>,
    #[prost(message, optional, boxed, tag = "21")]
    additional: Option<Box<Additional>>,
    #[prost(message, optional, tag = "22")]
    kind: Option<Texts>,
    #[prost(message, optional, tag = "23")]
    items: Option<Items>,
    #[prost(message, optional, tag = "25")]
    properties: Option<Schemas>,
    #[prost(message, repeated, tag = "31")]
    extensions: Vec<Extension>,
}

#[derive(Clone, PartialEq, Message)]
struct Additional {
    #[prost(oneof = "Values", tags = "1, 2")]
    values: Option<Values>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Values {
    #[prost(message, tag = "1")]
    Schema(Box<Schema>),
    #[prost(bool, tag = "2")]
    Any(bool),
}

#[derive(Clone, PartialEq, Message)]
struct Texts {
    #[prost(string, repeated, tag = "1")]
    value: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Items {
    #[prost(message, repeated, tag = "1")]
    schema: Vec<Schema>,
}

#[derive(Clone, PartialEq, Message)]
struct Extension {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Yaml>,
}

/// `Any`, whose value is written as YAML, which JSON is.
#[derive(Clone, PartialEq, Message)]
struct Yaml {
    #[prost(string, tag = "2")]
    yaml: String,
}

/// The document that the JSON is.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let info = Info {
        title: text(&document["info"], "title"),
        version: text(&document["info"], "version"),
    };
    let path = fields(&document["paths"]).map(|(name, methods)| NamedPath {
        name: name.clone(),
        value: Some(Path {
            get: methods.get("get").map(operation),
            put: methods.get("put").map(operation),
            post: methods.get("post").map(operation),
            delete: methods.get("delete").map(operation),
            patch: methods.get("patch").map(operation),
        }),
    });
    let told = Document {
        swagger: text(document, "swagger"),
        info: Some(info),
        paths: Some(Paths {
            path: path.collect(),
        }),
        definitions: Some(schemas(&document["definitions"])),
    };
    told.encode_to_vec()
}

fn operation(operation: &Value) -> Operation {
    let parameters = items(&operation["parameters"]).iter().map(|parameter| {
        let query = QueryParameter {
            place: text(parameter, "in"),
            name: text(parameter, "name"),
            kind: text(parameter, "type"),
            unique_items: parameter["uniqueItems"] == true,
        };
        let non_body = Some(NonBodyParameter { query: Some(query) });
        ParametersItem {
            parameter: Some(Parameter { non_body }),
        }
    });
    let codes = fields(&operation["responses"]).map(|(code, response)| {
        let description = text(response, "description");
        NamedResponse {
            name: code.clone(),
            value: Some(ResponseValue {
                response: Some(Response { description }),
            }),
        }
    });
    Operation {
        parameters: parameters.collect(),
        responses: Some(Responses {
            codes: codes.collect(),
        }),
        extensions: extensions(operation),
    }
}

fn schemas(of: &Value) -> Schemas {
    let named = fields(of).map(|(name, of)| NamedSchema {
        name: name.clone(),
        value: Some(schema(of)),
    });
    Schemas {
        named: named.collect(),
    }
}

fn schema(of: &Value) -> Schema {
    let strings = |of: &Value| -> Vec<String> {
        let strings = items(of).iter().filter_map(Value::as_str);
        strings.map(str::to_owned).collect()
    };
    let additional = of.get("additionalProperties").map(|additional| {
        let values = match additional.as_bool() {
            Some(any) => Values::Any(any),
            None => Values::Schema(Box::new(schema(additional))),
        };
        Box::new(Additional {
            values: Some(values),
        })
    });
    Schema {
        reference: text(of, "$ref"),
        format: text(of, "format"),
        description: text(of, "description"),
        required: strings(&of["required"]),
        additional,
        kind: of.get("type").and_then(Value::as_str).map(|kind| Texts {
            value: vec![kind.to_owned()],
        }),
        items: of.get("items").map(|items| Items {
            schema: vec![schema(items)],
        }),
        properties: of.get("properties").map(schemas),
        extensions: extensions(of),
    }
}

fn extensions(of: &Value) -> Vec<Extension> {
    let named = fields(of).filter(|(name, _)| name.starts_with("x-"));
    let named = named.map(|(name, value)| Extension {
        name: name.clone(),
        value: Some(Yaml {
            yaml: value.to_string(),
        }),
    });
    named.collect()
}

fn fields(of: &Value) -> impl Iterator<Item = (&String, &Value)> {
    of.as_object().into_iter().flat_map(Map::iter)
}

fn items(of: &Value) -> &[Value] {
    of.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(of: &Value, name: &str) -> String {
    let text = of.get(name).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::{kinds::Kinds, openapi::everything};

    #[test]
    fn the_bytes_say_what_the_json_says() {
        let json = everything(&Kinds::builtin().registry());
        let told = Document::decode(encode(&json).as_slice()).unwrap();
        assert_eq!(told.swagger, "2.0");
        let definitions = told.definitions.unwrap().named;
        assert_eq!(
            definitions.len(),
            json["definitions"].as_object().unwrap().len()
        );
        let of = |named: &[NamedSchema], name: &str| {
            let found = named.iter().find(|schema| schema.name == name);
            found.and_then(|found| found.value.clone()).unwrap()
        };
        let pod = of(&definitions, "io.k8s.api.core.v1.Pod");
        let gvk = r#"[{"group":"","kind":"Pod","version":"v1"}]"#;
        let told_gvk = pod.extensions[0].value.as_ref().unwrap();
        assert_eq!(told_gvk.yaml, gvk);
        let spec = of(&definitions, "io.k8s.api.core.v1.PodSpec");
        assert_eq!(spec.required, ["containers"]);
        let containers = of(&spec.properties.unwrap().named, "containers");
        assert_eq!(containers.kind.unwrap().value, ["array"]);
        assert_eq!(
            containers.items.unwrap().schema[0].reference,
            "#/definitions/io.k8s.api.core.v1.Container"
        );
        let map = of(&definitions, "io.k8s.api.core.v1.ConfigMap");
        let data = of(&map.properties.unwrap().named, "data");
        assert!(matches!(
            data.additional.unwrap().values,
            Some(Values::Schema(_))
        ));
        let paths = told.paths.unwrap().path;
        assert_eq!(paths.len(), json["paths"].as_object().unwrap().len());
        let patches = paths
            .iter()
            .filter_map(|path| path.value.as_ref()?.patch.as_ref());
        let can_dry_run = patches.clone().all(|patch| {
            let parameters = patch.parameters.iter();
            let mut names = parameters.filter_map(|parameter| {
                let parameter = parameter.parameter.as_ref()?;
                Some(&parameter.non_body.as_ref()?.query.as_ref()?.name)
            });
            names.any(|name| name == "dryRun")
        });
        assert!(can_dry_run && patches.count() > 0);
    }
}
