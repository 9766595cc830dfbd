//! Which objects and collections a command line names.

use listwatch::v1::Key;

use super::exit::CommandError;

/// Reads `COLLECTION NAME…`, where a name may carry its namespace (`default/web`), or
/// full keys as `-o name` prints them (`pods/default/web pods/default/db`).
pub(super) fn keys(words: &[String], namespace: Option<&str>) -> Result<Vec<Key>, CommandError> {
    let (first, names) = match words.split_first() {
        Some((first, names)) => (first, names),
        None => {
            return Err(CommandError::usage(
                "name a COLLECTION and one NAME or more",
            ));
        }
    };
    if first.contains('/') {
        return words
            .iter()
            .map(|word| match word.split_once('/') {
                Some((collection, name)) => key(collection, name, namespace),
                None => Err(CommandError::usage(format!(
                    "{word:?} has no collection: after COLLECTION/NAMESPACE/NAME write only such"
                ))),
            })
            .collect();
    }
    if names.is_empty() {
        return Err(CommandError::usage(format!(
            "name the objects of {first:?} ({first} NAME…), or use list to see all of them"
        )));
    }
    names
        .iter()
        .map(|name| key(first, name, namespace))
        .collect()
}

/// The key of one name in a collection.
pub(super) fn key(
    collection: &str,
    name: &str,
    namespace: Option<&str>,
) -> Result<Key, CommandError> {
    let (namespace, name) = match (name.split_once('/'), namespace) {
        (None, namespace) => (namespace.unwrap_or_default(), name),
        (Some((own, name)), None) => (own, name),
        (Some((own, name)), Some(given)) if own == given => (own, name),
        (Some((own, _)), Some(given)) => {
            return Err(CommandError::usage(format!(
                "{name:?} is in namespace {own:?}, but -n says {given:?}"
            )));
        }
    };
    Ok(Key {
        collection: collection.into(),
        namespace: namespace.into(),
        name: name.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::key_name;

    fn read(words: &[&str], namespace: Option<&str>) -> Result<Vec<String>, String> {
        let words: Vec<_> = words.iter().map(|word| word.to_string()).collect();
        match keys(&words, namespace) {
            Ok(keys) => Ok(keys.iter().map(|key| key_name(Some(key))).collect()),
            Err(failure) => Err(failure.message),
        }
    }

    #[test]
    fn names_are_taken_in_every_way_they_are_printed() {
        let both = Ok(vec![
            "pods/default/a".to_owned(),
            "pods/default/b".to_owned(),
        ]);
        assert_eq!(read(&["pods", "a", "b"], Some("default")), both);
        assert_eq!(read(&["pods", "default/a", "default/b"], None), both);
        assert_eq!(read(&["pods/default/a", "pods/default/b"], None), both);
        assert_eq!(read(&["pods/a", "pods/b"], Some("default")), both);
        assert_eq!(read(&["nodes", "a"], None), Ok(vec!["nodes/a".to_owned()]));
    }

    #[test]
    fn contradictions_and_gaps_are_usage_errors() {
        assert!(read(&["pods"], None).unwrap_err().contains("use list"));
        assert!(
            read(&["pods/a", "b"], None)
                .unwrap_err()
                .contains("no collection")
        );
        assert!(
            read(&["pods", "x/a"], Some("y"))
                .unwrap_err()
                .contains("-n says")
        );
    }
}
