//! A disk that fails or is slow, by strace: it attaches to a running process and tampers with
//! its system calls, so that the server is the one that is shipped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{PATIENCE, daemon::Daemon};

/// While this lives, calls of a process are traced and tampered with.
pub struct Tampering {
    strace: Child,
    trace: PathBuf,
}

impl Tampering {
    /// `calls`: which to trace. `inject`: what to do to them, as strace has it; empty: nothing.
    pub async fn with(daemon: &Daemon, folder: &Path, calls: &str, inject: &str) -> Self {
        Self::of(daemon, folder, calls, inject, None).await
    }

    /// The same, of calls that are about one path only.
    pub async fn of(
        daemon: &Daemon,
        folder: &Path,
        calls: &str,
        inject: &str,
        about: Option<&Path>,
    ) -> Self {
        let trace = folder.join(format!("trace-{calls}-{inject}"));
        let trace = trace.with_file_name(
            trace
                .file_name()
                .unwrap()
                .to_string_lossy()
                .replace([',', ':', '='], "-"),
        );
        let mut command = Command::new("strace");
        command
            .args(["-f", "-qq", "-y", "-e", &format!("trace={calls}"), "-o"])
            .arg(&trace);
        if !inject.is_empty() {
            command.args(["-e", &format!("inject={inject}")]);
        }
        if let Some(path) = about {
            command.arg("-P").arg(path);
        }
        let strace = command
            .args(["-p", &daemon.pid().to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("strace is needed: scripts/test installs it");
        let mut tampering = Self { strace, trace };
        // It has attached once the tracer is known to the kernel, for each thread.
        let tasks = format!("/proc/{}/task", daemon.pid());
        let untraced = || {
            fs::read_dir(&tasks).unwrap().flatten().any(|task| {
                let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
                status.lines().any(|line| line == "TracerPid:\t0")
            })
        };
        let started = tokio::time::Instant::now();
        while untraced() {
            let ended = tampering.strace.try_wait().unwrap();
            assert!(ended.is_none(), "strace cannot attach");
            assert!(started.elapsed() < PATIENCE, "strace does not attach");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tampering
    }

    /// What was traced so far.
    pub fn text(&self) -> String {
        fs::read_to_string(&self.trace).unwrap_or_default()
    }

    /// Waits until so many lines of the trace hold this.
    pub async fn shows(&self, text: &str, times: usize) {
        let started = tokio::time::Instant::now();
        while self.text().matches(text).count() < times {
            let trace = self.text();
            assert!(started.elapsed() < PATIENCE, "no {text:?} in {trace}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Lets the process go on untouched.
    pub fn end(self) {}

    /// Ends at once, also in the middle of a call that is delayed. For processes that are gone.
    pub fn kill(mut self) {
        self.strace.kill().unwrap();
    }
}

impl Drop for Tampering {
    fn drop(&mut self) {
        // strace detaches when it is asked to end; killed, it could leave a call tampered with.
        let pid = self.strace.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.strace.wait();
    }
}
