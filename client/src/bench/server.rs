//! A server under load: one that runs already, or one that is started here.

use std::{
    fs::File,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::time::sleep;

use super::{
    BenchError, System, Target,
    connection::Connection,
    process::{self, Usage},
};

/// How long a server may take to start, and to stop.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// A server that answers.
pub(crate) struct Server {
    pub(super) system: System,
    pub(crate) address: String,
    pid: AtomicU32,
    own: Option<Own>,
}

/// One that was started here.
struct Own {
    binary: PathBuf,
    folder: TempDir,
    peer_port: u16,
    child: Mutex<Child>,
}

impl Drop for Own {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Server {
    /// The target, started if need be, once it answers.
    pub(crate) async fn of(target: &Target, data_parent: &Path) -> Result<Self, BenchError> {
        let server = match target {
            Target::Running {
                system,
                address,
                pid,
            } => Self {
                system: *system,
                address: address.clone(),
                pid: AtomicU32::new(pid.unwrap_or(0)),
                own: None,
            },
            Target::Started { system, .. } => Self::start(*system, target.binary()?, data_parent)?,
        };
        server.ready().await?;
        Ok(server)
    }

    fn start(system: System, binary: PathBuf, data_parent: &Path) -> Result<Self, BenchError> {
        let failed = |error: std::io::Error| BenchError::Server(error.to_string());
        let folder = tempfile::Builder::new()
            .prefix("listwatch-bench-")
            .tempdir_in(data_parent)
            .map_err(failed)?;
        let (port, peer_port) = (free_port().map_err(failed)?, free_port().map_err(failed)?);
        let address = format!("127.0.0.1:{port}");
        let child = spawn(system, &binary, folder.path(), &address, peer_port)?;
        let pid = AtomicU32::new(child.id());
        let child = Mutex::new(child);
        let own = Some(Own {
            binary,
            folder,
            peer_port,
            child,
        });
        Ok(Self {
            system,
            address,
            pid,
            own,
        })
    }

    /// It was started here, so that it can be started again.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    async fn ready(&self) -> Result<(), BenchError> {
        let began = Instant::now();
        loop {
            let answer = match Connection::open(self.system, &self.address).await {
                Ok(connection) => connection.ping().await,
                Err(error) => Err(error),
            };
            let Err(error) = answer else {
                return Ok(());
            };
            let ended = self
                .own
                .as_ref()
                .and_then(|own| own.child.lock().try_wait().ok()?);
            if ended.is_some() || began.elapsed() > PATIENCE || self.own.is_none() {
                let log = self.log();
                return Err(BenchError::Server(format!(
                    "{} does not answer: {error}\n{log}",
                    self.address
                )));
            }
            sleep(POLL).await;
        }
    }

    /// The end of what it wrote to standard error.
    fn log(&self) -> String {
        let log = self.own.as_ref().map(|own| own.folder.path().join("log"));
        let text = log.and_then(|log| std::fs::read_to_string(log).ok());
        let text = text.unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// What its process takes.
    pub(crate) fn usage(&self) -> Option<Usage> {
        match self.pid.load(Ordering::Relaxed) {
            0 => None,
            pid => process::usage(pid),
        }
    }

    /// Makes the peak of its memory the present.
    pub(crate) fn reset_peak(&self) -> bool {
        let pid = self.pid.load(Ordering::Relaxed);
        pid != 0 && process::reset_peak(pid)
    }

    /// Asks it to go away, waits until it has, and starts it again over the same folder and
    /// address.
    pub(crate) async fn restart(&self) -> Result<(), BenchError> {
        let Some(own) = &self.own else {
            return Err(BenchError::Server(
                "only a server started here is restarted".into(),
            ));
        };
        self.terminate(own).await;
        let child = spawn(
            self.system,
            &own.binary,
            own.folder.path(),
            &self.address,
            own.peer_port,
        )?;
        self.pid.store(child.id(), Ordering::Relaxed);
        *own.child.lock() = child;
        self.ready().await
    }

    async fn terminate(&self, own: &Own) {
        let pid = self.pid.load(Ordering::Relaxed) as i32;
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if !matches!(own.child.lock().try_wait(), Ok(None)) {
                return;
            }
            sleep(POLL).await;
        }
        let _ = own.child.lock().kill();
    }

    /// Ends it at once, if it was started here, while others may still hold it.
    pub(crate) fn kill(&self) {
        if let Some(own) = &self.own {
            let mut child = own.child.lock();
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Ends it, if it was started here. What it still holds is of no more use: it is not asked.
    pub(crate) async fn stop(self) {
        drop(self.own);
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

fn spawn(
    system: System,
    binary: &Path,
    folder: &Path,
    address: &str,
    peer_port: u16,
) -> Result<Child, BenchError> {
    let failed = |error| BenchError::Server(format!("cannot start {}: {error}", binary.display()));
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"));
    let mut command = Command::new(binary);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(log.map_err(failed)?);
    let data = folder.join("data");
    match system {
        // One client here is all clients.
        System::Listwatch => command
            .args(["--listen", address, "--max-watch-connections", "0"])
            .args([
                "--max-watches-per-client",
                "0",
                "--max-connections-per-ip",
                "0",
            ])
            .args([
                "--max-mutating-requests-inflight",
                "0",
                "--max-requests-inflight",
                "0",
            ])
            .args(["--max-watch-backlog", "0"])
            .arg("--data-dir")
            .arg(data),
        System::Etcd => {
            let (client, peer) = (
                format!("http://{address}"),
                format!("http://127.0.0.1:{peer_port}"),
            );
            command
                .args([
                    "--listen-client-urls",
                    &client,
                    "--advertise-client-urls",
                    &client,
                ])
                .args([
                    "--listen-peer-urls",
                    &peer,
                    "--initial-advertise-peer-urls",
                    &peer,
                ])
                .args(["--initial-cluster", &format!("default={peer}")])
                // The default of 2 GiB is soon full.
                .args([
                    "--quota-backend-bytes",
                    "8589934592",
                    "--log-level",
                    "error",
                ])
                .arg("--data-dir")
                .arg(data)
        }
    };
    command.spawn().map_err(failed)
}
