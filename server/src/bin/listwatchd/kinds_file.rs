//! `--kinds FILE`: a list of kinds in YAML, of which every JSON is one.

use std::{fs, path::Path};

use listwatch_server::DeclaredKind;

/// The kinds of a file. What is wrong is said with file, place in the list, field and line, as
/// far as it is the format; the rest is checked by the server, which knows the other kinds.
pub(crate) fn read(file: &Path) -> Result<Vec<DeclaredKind>, String> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| format!("{shown}: {error}"))?;
    parse(&text).map_err(|error| format!("{shown}: {error}"))
}

fn parse(text: &str) -> Result<Vec<DeclaredKind>, String> {
    serde_yaml_ng::from_str(text).map_err(|error| match error.to_string() {
        // A place in the list, as the server's own errors have it.
        within if within.trim_start_matches('.').starts_with('[') => {
            format!("kinds{}", within.trim_start_matches('.'))
        }
        whole => whole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_yaml_or_json() {
        let yaml = "- {group: a.io, version: v1, resource: bs, kind: B}\n\
                    - group: a.io\n  version: v1\n  resource: cs\n  kind: C\n  namespaced: false\n";
        let kinds = parse(yaml).unwrap();
        assert_eq!(kinds[0], DeclaredKind::new("a.io", "v1", "bs", "B"));
        assert!(!kinds[1].namespaced);
        let json = r#"[{"group":"a.io","version":"v1","resource":"bs","kind":"B"}]"#;
        assert_eq!(parse(json).unwrap(), kinds[..1]);
        for nothing in ["", "[]"] {
            assert!(parse(nothing).unwrap().is_empty());
        }
    }

    #[test]
    fn what_is_no_declaration_is_named() {
        let entry = "{group: a.io, version: v1, resource: bs, kind: B}";
        for (text, expected) in [
            (
                format!("- {entry}\n- {{group: a.io}}\n"),
                "kinds[1]: missing field `version`",
            ),
            (
                format!("- {}\n", entry.replace("}", ", scope: x}")),
                "kinds[0]: unknown field `scope`",
            ),
            (
                format!("- {}\n", entry.replace("}", ", status: x}")),
                "kinds[0].status: invalid type",
            ),
            (
                format!("- {}\n", entry.replace("}", ", fields: a}")),
                "kinds[0].fields: invalid type",
            ),
            (entry.to_owned(), "expected a sequence"),
            ("- [".to_owned(), "line"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
