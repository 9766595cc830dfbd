//! Tools of other languages, and what they fetch and keep under the target folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{process::Command, time::timeout};

use super::PATIENCE;

/// A tool's work, which may fetch packages over the network; returns what it printed. It must
/// succeed. `tool` says what it takes.
pub async fn run(tool: &str, command: &mut Command) -> String {
    let run = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(PATIENCE * 40, run).await;
    let output = output.unwrap_or_else(|_| panic!("{command:?} takes too long"));
    let output = output.unwrap_or_else(|error| {
        panic!("{command:?}: {error}: this test takes {tool}, which scripts/test installs")
    });
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {out}\n{err}");
    out.into_owned()
}

/// Go, in a module's folder, with the versions that its go.mod and go.sum name.
pub fn go(module: &Path, arguments: &[&str]) -> Command {
    let mut go = Command::new("go");
    go.args(arguments).current_dir(module);
    go.env("GOFLAGS", "-mod=readonly -buildvcs=false");
    // From 1.21 on, it fetches the version that go.mod names if it is older.
    go.env("GOTOOLCHAIN", "auto");
    go
}

/// A folder with what a package of npm's depends on, by its lock file. It is emptied and filled anew
/// when that has changed.
pub async fn npm_ci(package: &Path, folder: &Path) {
    let complete = folder.join("complete");
    let lock = fs::read(package.join("package-lock.json")).unwrap();
    if fs::read(&complete).ok().as_ref() == Some(&lock) {
        return;
    }
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    for file in ["package.json", "package-lock.json"] {
        fs::copy(package.join(file), folder.join(file)).unwrap();
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    run("npm", npm.current_dir(folder)).await;
    fs::write(&complete, lock).unwrap();
}

/// A Python environment with these packages, and its interpreter. They are fetched the first
/// time and kept for the next.
pub async fn python_with(name: &str, packages: &[&str]) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python = folder.join("bin/python");
    let complete = folder.join("complete");
    if fs::read_to_string(&complete).ok() != Some(packages.join(" ")) {
        let _ = fs::remove_dir_all(&folder);
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(&folder);
        run("Python 3 with its venv module", &mut venv).await;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet"]);
        pip.arg("--disable-pip-version-check").args(packages);
        run("pip, and the package index", &mut pip).await;
        fs::write(&complete, packages.join(" ")).unwrap();
    }
    (folder, python)
}
