//! What a cluster on one machine is made of: which brokers, where they listen, where their data lies, how each is started.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::claims::Needs;
use crate::settings::{self, Settings};

/// The address of a cluster on one machine.
pub const HOST: &str = "127.0.0.1";

/// A cluster as somebody asked for it.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program that a broker is: this one, asked to `serve`.
    pub program: PathBuf,
    /// How many brokers are configured.
    pub brokers: i32,
    /// Which of them are started.
    pub only: Vec<i32>,
    /// The port of broker 1; the others take the next ones.
    pub port: u16,
    /// The data directory, with one folder for each broker.
    pub data: PathBuf,
    /// What was set, for all brokers.
    pub settings: Settings,
}

/// Why a cluster cannot be as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A cluster has at least one broker.
    #[error("--brokers {brokers}: a cluster has 1 to {} brokers", BROKERS_MAX)]
    Brokers {
        /// The number that was asked for.
        brokers: i32,
    },
    /// `--only` names a broker that is not configured.
    #[error("--only {broker}: there are brokers 1 to {brokers}; say --brokers N for more")]
    NoSuchBroker {
        /// The broker.
        broker: i32,
        /// How many there are.
        brokers: i32,
    },
    /// There are not so many ports.
    #[error("--port {port}: {brokers} brokers need the ports from {port} on, and the last one is 65535")]
    Ports {
        /// The first port.
        port: u16,
        /// How many brokers.
        brokers: i32,
    },
    /// All brokers have these settings, and no two can listen at one place.
    #[error(
        "{key} cannot be set for all brokers of a machine; say --port P, or start each with `highwater serve`"
    )]
    SetForAll {
        /// The setting.
        key: &'static str,
    },
}

/// More processes than this on one machine is a mistake.
const BROKERS_MAX: i32 = 100;

impl Launch {
    /// Checks what was asked for, and puts the settings in that a cluster on one machine has.
    pub fn check(mut self) -> Result<Self, LaunchError> {
        let brokers = self.brokers;
        if !(1..=BROKERS_MAX).contains(&brokers) {
            return Err(LaunchError::Brokers { brokers });
        }
        if self.only.is_empty() {
            self.only = (1..=brokers).collect();
        }
        self.only.sort_unstable();
        self.only.dedup();
        if let Some(&broker) = self.only.iter().find(|broker| !(1..=brokers).contains(*broker)) {
            return Err(LaunchError::NoSuchBroker { broker, brokers });
        }
        if self.port == 0 || i32::from(self.port) + brokers - 1 > i32::from(u16::MAX) {
            return Err(LaunchError::Ports { port: self.port, brokers });
        }
        for setting in [&settings::LISTENERS, &settings::ADVERTISED_LISTENERS] {
            if self.settings.is_set(setting) {
                return Err(LaunchError::SetForAll { key: setting.name });
            }
        }
        if !self.settings.is_set(&settings::BROKER_SESSION_TIMEOUT_MS) {
            // On one machine a heartbeat does not get lost: whoever is silent for so long hangs.
            let set = self.settings.set(settings::BROKER_SESSION_TIMEOUT_MS.name, "3000");
            debug_assert!(set.is_ok(), "3000 is allowed");
        }
        Ok(self)
    }

    /// The port of a broker.
    pub fn port_of(&self, broker: i32) -> u16 {
        self.port.saturating_add(u16::try_from(broker - 1).unwrap_or(0))
    }

    /// Where a broker listens, as `HOST:PORT`.
    pub fn address_of(&self, broker: i32) -> String {
        format!("{HOST}:{}", self.port_of(broker))
    }

    /// Where a broker's data lies.
    pub fn directory_of(&self, broker: i32) -> PathBuf {
        self.data.join(broker.to_string())
    }

    /// Where the controller's data lies.
    pub fn controller_directory(&self) -> PathBuf {
        self.data.join("controller")
    }

    /// What the brokers need for themselves.
    pub fn needs(&self) -> Vec<Needs> {
        let need = |&broker: &i32| Needs {
            broker,
            host: HOST.to_owned(),
            port: self.port_of(broker),
            directory: self.directory_of(broker),
        };
        self.only.iter().map(need).collect()
    }

    /// How a broker is started.
    pub fn command(&self, broker: i32, controller: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--supervised").arg("--controller").arg(controller);
        command.arg("--id").arg(broker.to_string()).arg("--listen").arg(self.address_of(broker));
        command.arg("--brokers").arg(self.brokers.to_string());
        command.arg("--data").arg(self.directory_of(broker));
        for pair in self.settings.pairs() {
            command.arg("--set").arg(pair);
        }
        command
    }
}

/// A path as people would type it from here.
pub fn for_people(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let near = here.as_deref().and_then(|here| path.strip_prefix(here).ok());
    near.unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Launch {
        Launch {
            program: PathBuf::from("highwater"),
            brokers: 3,
            only: Vec::new(),
            port: 9092,
            data: PathBuf::from("/data"),
            settings: Settings::default(),
        }
    }

    #[test]
    fn brokers_take_the_ports_and_folders_that_people_expect() {
        let launch = three().check().unwrap();
        assert_eq!(launch.only, [1, 2, 3]);
        assert_eq!(launch.address_of(3), "127.0.0.1:9094");
        assert_eq!(launch.directory_of(2), Path::new("/data/2"));
        let command = launch.command(2, "127.0.0.1:7000");
        let arguments: Vec<_> =
            command.as_std().get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        assert_eq!(
            arguments.join(" "),
            "serve --supervised --controller 127.0.0.1:7000 --id 2 --listen 127.0.0.1:9093 --brokers 3 --data /data/2 \
             --set broker.session.timeout.ms=3000"
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(
            Launch { brokers: 0, ..three() }.check().unwrap_err(),
            LaunchError::Brokers { brokers: 0 }
        );
        assert_eq!(
            Launch { only: vec![1, 4], ..three() }.check().unwrap_err(),
            LaunchError::NoSuchBroker { broker: 4, brokers: 3 }
        );
        assert_eq!(
            Launch { port: 65_534, ..three() }.check().unwrap_err(),
            LaunchError::Ports { port: 65_534, brokers: 3 }
        );
        assert!(Launch { port: 65_533, ..three() }.check().is_ok());
        let settings = Settings::from_pairs(["listeners=127.0.0.1:1"]).unwrap();
        assert_eq!(
            Launch { settings, ..three() }.check().unwrap_err(),
            LaunchError::SetForAll { key: "listeners" }
        );
    }

    #[test]
    fn a_session_timeout_that_was_set_is_kept() {
        let settings = Settings::from_pairs(["broker.session.timeout.ms=500"]).unwrap();
        let launch = Launch { settings, ..three() }.check().unwrap();
        assert_eq!(launch.settings.value(&settings::BROKER_SESSION_TIMEOUT_MS), 500);
    }
}
