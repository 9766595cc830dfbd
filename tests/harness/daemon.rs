//! Real `listwatchd` processes.

use std::{
    fs::File,
    io::Read as _,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    time::Duration,
};

use listwatch_client::Client;

use super::PATIENCE;

/// The workspace's binaries, built once for this run of the tests, with its profile.
pub fn binary(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built(&["--bins"])).join(name)
}

/// An example of a package, built the same way.
pub fn example(package: &str, name: &str) -> PathBuf {
    built(&["--package", package, "--example", name])
        .join("examples")
        .join(name)
}

/// Builds, and says in which folder.
fn built(what: &[&str]) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked"]).args(what);
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().parent().unwrap().to_owned();
    if folder.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "{what:?} does not build");
    folder
}

/// A running server process. Killed when dropped.
pub struct Daemon {
    child: Child,
    pub address: String,
    log: PathBuf,
}

/// A port that was free a moment ago.
pub fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string()
}

impl Daemon {
    /// Starts a server over a folder and waits until it answers.
    pub async fn start(data: &Path, address: &str, flags: &[&str]) -> Self {
        let mut daemon = Self::spawn(data, address, flags);
        daemon.ready().await;
        daemon
    }

    /// Starts a server and does not wait.
    pub fn spawn(data: &Path, address: &str, flags: &[&str]) -> Self {
        Self::spawn_within(&[], data, address, flags)
    }

    /// The same, started by a program that sets something up and becomes the server.
    pub fn spawn_within(around: &[&str], data: &Path, address: &str, flags: &[&str]) -> Self {
        let log = data.with_extension(format!("log{}", rand_suffix()));
        let binary = binary("listwatchd");
        let mut command = match around {
            [] => Command::new(binary),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(binary);
                command
            }
        };
        let child = command
            .args(["--listen", address, "--data-dir"])
            .arg(data)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self {
            child,
            address: address.to_owned(),
            log,
        }
    }

    pub async fn ready(&mut self) {
        let started = tokio::time::Instant::now();
        loop {
            if let Ok(client) = Client::connect(self.address.clone()).await
                && client.status().await.is_ok()
            {
                return;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the server ended with {status}: {}", self.log());
            }
            assert!(
                started.elapsed() < PATIENCE,
                "the server does not start: {}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As a power cut to the process: no goodbye.
    pub fn kill_9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop and waits for it.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal_terminate();
        self.ended().await
    }

    /// Asks it to stop.
    pub fn signal_terminate(&self) {
        self.signal("TERM");
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let told = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(told.unwrap().success());
    }

    /// Waits until it has logged this.
    pub async fn logs(&self, text: &str) {
        let started = tokio::time::Instant::now();
        while !self.log().contains(text) {
            assert!(started.elapsed() < PATIENCE, "no {text:?}: {}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub async fn ended(&mut self) -> ExitStatus {
        let started = tokio::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "the server does not end: {}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What it wrote to standard error.
    pub fn log(&self) -> String {
        let mut text = String::new();
        File::open(&self.log)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rand_suffix() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
