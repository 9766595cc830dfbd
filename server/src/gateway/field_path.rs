//! Where a field is in an object: `spec.containers[1].image`.
//!
//! Every field below another has that one's path in its own. The names of maps are the
//! client's, and as long as it likes: without a bound, one long name with many short ones
//! below it makes one request copy gigabytes.

/// Longer than the path of any field that there is a rule for.
const MAX_BYTES: usize = 4096;
/// At the end of a path that was cut off; no rule's path ends so.
const CUT: char = '…';

/// The path of a field of the object that is there.
pub(crate) fn join(at: &str, name: &str) -> String {
    match at {
        "" => then(at, name),
        at => then(&then(at, "."), name),
    }
}

/// The path of an item of the list that is there.
pub(crate) fn item(at: &str, place: usize) -> String {
    then(at, &format!("[{place}]"))
}

/// The path with one more step.
pub(crate) fn then(at: &str, step: &str) -> String {
    if at.ends_with(CUT) {
        return at.to_owned();
    }
    let room = MAX_BYTES.saturating_sub(at.len());
    if step.len() <= room {
        return [at, step].concat();
    }
    let mut kept = (0..=room).rev().filter_map(|room| step.get(..room));
    let mut cut = [at, kept.next().unwrap_or_default()].concat();
    cut.push(CUT);
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_bounded() {
        assert_eq!(item(&join(&join("", "a"), "b"), 3), "a.b[3]");
        let long = join("a", &"ä".repeat(MAX_BYTES));
        assert!(long.starts_with("a.ää") && long.ends_with("ä…"));
        assert!(long.len() < MAX_BYTES + 4);
        assert_eq!(item(&join(&long, "b"), 3), long);
        assert_eq!(join("", &"x".repeat(MAX_BYTES)).len(), MAX_BYTES);
    }
}
