//! What a README shows, as its readers copy it.

use std::{fs, path::Path};

fn text(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The lines of its console blocks that begin with this command, without their prompt;
/// continued lines as one.
pub fn lines_of(path: &str, command: &str) -> Vec<String> {
    let text = text(path).replace("\\\n", " ");
    let commands = text.lines().filter_map(|line| line.strip_prefix("$ "));
    let is_it = |line: &&str| line.starts_with(command);
    commands.filter(is_it).map(ToOwned::to_owned).collect()
}

/// Its first block of code in this language.
#[allow(dead_code)]
pub fn block(path: &str, language: &str) -> String {
    let text = text(path);
    let start = format!("```{language}\n");
    let (_, after) = text
        .split_once(&start)
        .unwrap_or_else(|| panic!("{path} has no block of {language}"));
    let (block, _) = after.split_once("\n```").expect("an end of the block");
    format!("{block}\n")
}
