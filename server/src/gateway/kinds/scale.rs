//! Where the objects of a kind keep what their `/scale` subresource shows.

use serde_json::Value;

/// What a kind's objects are scaled by. Paths are dotted, without a leading dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scaling {
    /// How many replicas are wanted, below `spec`.
    pub(crate) wanted: String,
    /// How many there are, below `status`.
    pub(crate) present: String,
    /// What selects them.
    pub(crate) selector: ReplicaSelector,
    /// How many are wanted where the object does not say.
    pub(crate) default: Option<i64>,
}

/// Where an object says what selects its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaSelector {
    /// Nowhere.
    None,
    /// `spec.selector`, labels and their values.
    Labels,
    /// `spec.selector`, a LabelSelector.
    LabelSelector,
    /// At this path, as text.
    Text(String),
}

impl Scaling {
    /// Of a kind of Kubernetes, which wants one replica where it says nothing.
    pub(super) fn builtin(selector: ReplicaSelector) -> Self {
        Self {
            wanted: "spec.replicas".to_owned(),
            present: "status.replicas".to_owned(),
            selector,
            default: Some(1),
        }
    }

    /// How many replicas an object wants; `None` if it does not say.
    pub(crate) fn wanted_by(&self, object: &Value) -> Option<i64> {
        let wanted = find(object, &self.wanted).and_then(Value::as_i64);
        wanted.or(self.default)
    }

    /// How many replicas an object has.
    pub(crate) fn present_at(&self, object: &Value) -> i64 {
        let present = find(object, &self.present).and_then(Value::as_i64);
        present.unwrap_or(0)
    }

    /// What selects an object's replicas, as a label selector in words.
    pub(crate) fn selector_of(&self, object: &Value) -> String {
        match &self.selector {
            ReplicaSelector::None => String::new(),
            ReplicaSelector::Labels => {
                let mut terms = equalities(find(object, "spec.selector"));
                terms.sort();
                terms.join(",")
            }
            ReplicaSelector::LabelSelector => {
                find(object, "spec.selector").map_or_else(String::new, in_words)
            }
            ReplicaSelector::Text(path) => {
                let text = find(object, path).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            }
        }
    }

    /// Has the object want so many replicas.
    ///
    /// # Errors
    /// The path of something on the way that is there and holds no fields.
    pub(crate) fn set_wanted(&self, object: &mut Value, replicas: i64) -> Result<(), String> {
        let mut at = object;
        for (n, step) in self.wanted.split('.').enumerate() {
            if at.is_null() {
                *at = Value::Object(serde_json::Map::new());
            }
            let Some(fields) = at.as_object_mut() else {
                let way: Vec<&str> = self.wanted.split('.').take(n).collect();
                return Err(way.join("."));
            };
            at = fields.entry(step).or_insert(Value::Null);
        }
        *at = replicas.into();
        Ok(())
    }
}

fn find<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |at, step| at.get(step))
}

fn equalities(labels: Option<&Value>) -> Vec<String> {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let texts = labels.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    texts.collect()
}

/// A LabelSelector in words, its terms in order.
fn in_words(selector: &Value) -> String {
    let mut terms = equalities(selector.get("matchLabels"));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let text = |name: &str| expression.get(name).and_then(Value::as_str);
        let Some(key) = text("key") else { continue };
        let values = expression.get("values").and_then(Value::as_array);
        let values = values.into_iter().flatten().filter_map(Value::as_str);
        let mut values: Vec<&str> = values.collect();
        values.sort_unstable();
        let values = values.join(",");
        match text("operator") {
            Some("In") => terms.push(format!("{key} in ({values})")),
            Some("NotIn") => terms.push(format!("{key} notin ({values})")),
            Some("Exists") => terms.push(key.to_owned()),
            Some("DoesNotExist") => terms.push(format!("!{key}")),
            _ => {}
        }
    }
    terms.sort_by(|a, b| a.trim_start_matches('!').cmp(b.trim_start_matches('!')));
    terms.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_is_told_in_words() {
        let of = |selector, object: Value| Scaling::builtin(selector).selector_of(&object);
        let expressions = json!({"spec": {"selector": {
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [
                {"key": "d", "operator": "In", "values": ["y", "x"]},
                {"key": "c", "operator": "DoesNotExist"},
                {"key": "e", "operator": "NotIn", "values": ["z"]},
                {"key": "f", "operator": "Exists"},
                {"key": "g", "operator": "Between"},
                7,
            ],
        }}});
        assert_eq!(
            of(ReplicaSelector::LabelSelector, expressions),
            "a=1,b=2,!c,d in (x,y),e notin (z),f"
        );
        let labels = json!({"spec": {"selector": {"b": "2", "a": "1"}}});
        assert_eq!(of(ReplicaSelector::Labels, labels.clone()), "a=1,b=2");
        assert_eq!(of(ReplicaSelector::None, labels), "");
        let text = json!({"status": {"selector": "a in (b)"}});
        let path = || ReplicaSelector::Text("status.selector".to_owned());
        assert_eq!(of(path(), text), "a in (b)");
        for nothing in [json!({}), json!({"spec": 1, "status": []}), json!(null)] {
            for selector in [
                ReplicaSelector::Labels,
                ReplicaSelector::LabelSelector,
                path(),
            ] {
                assert_eq!(of(selector, nothing.clone()), "");
            }
        }
    }

    #[test]
    fn what_is_wanted_is_put_where_the_kind_keeps_it() {
        let scaling = Scaling {
            wanted: "spec.size.nodes".to_owned(),
            default: None,
            ..Scaling::builtin(ReplicaSelector::None)
        };
        for mut object in [
            json!({}),
            json!({"spec": null}),
            json!({"spec": {"size": {"nodes": "x"}}}),
        ] {
            assert_eq!(scaling.wanted_by(&object), None);
            assert_eq!(scaling.set_wanted(&mut object, 3), Ok(()));
            assert_eq!(object, json!({"spec": {"size": {"nodes": 3}}}));
            assert_eq!(scaling.wanted_by(&object), Some(3));
        }
        let mut taken = json!({"spec": {"size": "large"}});
        let refused = scaling.set_wanted(&mut taken, 3);
        assert_eq!(refused, Err("spec.size".to_owned()));
    }
}
