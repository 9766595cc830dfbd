//! What fuzzing has kept, given to a check once more. Not a part of the fuzz targets: ordinary
//! tests of two crates lay it beside themselves.

use std::{fs, path::Path};

/// Gives a check everything that is kept for it, and an empty input. `fuzz`: this crate's folder.
#[allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "says which input it is, if the check fails"
)]
pub(crate) fn replay(fuzz: &Path, name: &str, check: fn(&[u8])) {
    check(&[]);
    let mut count = 0;
    for folder in ["corpus", "regressions"] {
        let Ok(entries) = fs::read_dir(fuzz.join(folder).join(name)) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let data = fs::read(&path).unwrap();
            println!("{}", path.display());
            check(&data);
            count += 1;
        }
    }
    assert!(count > 0, "nothing is kept for {name}");
}
