//! What values a setting can have: how each kind reads its text and says what it allows. Knows no setting by name.

use std::fmt::Debug;

/// One kind of value. `parse` answers `None` for whatever `allowed` does not describe.
pub trait Kind: Debug + Send + Sync {
    /// The value in the program.
    type Value;

    /// Reads the value.
    fn parse(&self, text: &str) -> Option<Self::Value>;

    /// The values that are allowed, in words.
    fn allowed(&self) -> String;
}

/// A whole number from `min` to `max`, both included.
#[derive(Clone, Copy, Debug)]
pub struct Integer {
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
}

impl Kind for Integer {
    type Value = i64;

    fn parse(&self, text: &str) -> Option<i64> {
        text.trim().parse().ok().filter(|value| (self.min..=self.max).contains(value))
    }

    fn allowed(&self) -> String {
        match self.max {
            i64::MAX => format!("a whole number from {}", self.min),
            max => format!("a whole number from {} to {max}", self.min),
        }
    }
}

/// A number with decimals from `min` to `max`, both included.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
}

impl Kind for Decimal {
    type Value = f64;

    fn parse(&self, text: &str) -> Option<f64> {
        text.trim().parse().ok().filter(|value| (self.min..=self.max).contains(value))
    }

    fn allowed(&self) -> String {
        if self.max >= f64::MAX {
            format!("a number from {}", self.min)
        } else {
            format!("a number from {} to {}", self.min, self.max)
        }
    }
}

/// `true` or `false`.
#[derive(Clone, Copy, Debug)]
pub struct Flag;

impl Kind for Flag {
    type Value = bool;

    fn parse(&self, text: &str) -> Option<bool> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    fn allowed(&self) -> String {
        "true or false".to_owned()
    }
}

/// One of a few words, each with its value.
#[derive(Clone, Copy, Debug)]
pub struct Choice<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy + Debug + Send + Sync> Kind for Choice<T> {
    type Value = T;

    fn parse(&self, text: &str) -> Option<T> {
        let text = text.trim();
        self.0.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
    }

    fn allowed(&self) -> String {
        self.0.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ")
    }
}

/// A listener or none: `[NAME://]HOST:PORT`, the host in brackets if it is an IPv6 address.
#[derive(Clone, Copy, Debug)]
pub struct Listener;

/// Where to listen, or what clients are told to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an address, without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl HostPort {
    /// Reads `HOST:PORT`.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']')?,
            None if host.contains(':') => return None,
            None => host,
        };
        let legal = !host.is_empty() && !host.chars().any(|c| c.is_whitespace() || c == '/');
        Some(Self { host: host.to_owned(), port: port.parse().ok()? }).filter(|_| legal)
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Kind for Listener {
    type Value = Option<HostPort>;

    fn parse(&self, text: &str) -> Option<Option<HostPort>> {
        let text = text.trim();
        if text.is_empty() {
            return Some(None);
        }
        let address = text.split_once("://").map_or(text, |(_, address)| address);
        HostPort::parse(address).map(Some)
    }

    fn allowed(&self) -> String {
        "one listener as HOST:PORT or PLAINTEXT://HOST:PORT, or nothing".to_owned()
    }
}
