//! Takes connections: where to listen is checked before anything else is done, and running out of descriptors is waited out.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use tokio::net::TcpListener;

use super::SocketNews;
use crate::serve::mailbox::Mailbox;
use crate::settings::HostPort;

/// The first pause after a failed accept; it doubles up to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LAST: Duration = Duration::from_secs(1);

/// Why nobody can be listened to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The name has no address.
    #[error("{listen} is not an address of this machine: {source}; choose another with --listen HOST:PORT")]
    Unknown {
        /// What was asked for.
        listen: HostPort,
        /// What the system said.
        source: io::Error,
    },
    /// Other machines could connect, and nobody has to say who he is.
    #[error(
        "{listen} can be reached from other machines, and there is no authentication yet; listen on 127.0.0.1, or accept that with --set insecure=true"
    )]
    Insecure {
        /// What was asked for.
        listen: HostPort,
    },
    /// The port is taken.
    #[error("port {} on {} is in use; stop who has it or choose another with --listen HOST:PORT", listen.port, listen.host)]
    InUse {
        /// What was asked for.
        listen: HostPort,
    },
    /// Something else.
    #[error("cannot listen on {listen}: {source}; choose another with --listen HOST:PORT")]
    Failed {
        /// What was asked for.
        listen: HostPort,
        /// What the system said.
        source: io::Error,
    },
}

/// A port that is taken and not yet served: who connects meanwhile waits.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Takes the port. `insecure` allows addresses that other machines can reach.
    pub(crate) fn bind(listen: &HostPort, insecure: bool) -> Result<Self, ListenError> {
        let unknown = |source| ListenError::Unknown { listen: listen.clone(), source };
        let addresses: Vec<SocketAddr> =
            (listen.host.as_str(), listen.port).to_socket_addrs().map_err(unknown)?.collect();
        if !insecure && !addresses.iter().all(|address| address.ip().is_loopback()) {
            return Err(ListenError::Insecure { listen: listen.clone() });
        }
        let listener = std::net::TcpListener::bind(addresses.as_slice());
        let bound = listener.and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        });
        bound.map_err(|source| {
            let listen = listen.clone();
            if source.kind() == io::ErrorKind::AddrInUse {
                ListenError::InUse { listen }
            } else {
                ListenError::Failed { listen, source }
            }
        })
    }

    /// Where it listens; the port is the real one where 0 was asked for.
    pub(crate) fn address(&self) -> HostPort {
        HostPort { host: self.address.ip().to_string(), port: self.address.port() }
    }

    /// Takes connections from now on. Has to be called in a runtime; dropping the handle does not end it.
    pub(crate) fn serve<T>(self, mailbox: Mailbox<T>) -> io::Result<tokio::task::JoinHandle<()>>
    where
        T: From<SocketNews> + Send + 'static,
    {
        let listener = TcpListener::from_std(self.listener)?;
        Ok(tokio::spawn(accept(listener, mailbox)))
    }
}

async fn accept<T: From<SocketNews>>(listener: TcpListener, mailbox: Mailbox<T>) {
    let mut pause = PAUSE_FIRST;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                pause = PAUSE_FIRST;
                mailbox.push(SocketNews::Accepted(stream));
            }
            // Its own connection's fault, and gone with it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // No descriptors or no memory left: connections wait in the backlog until some are closed.
            Err(_) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_LAST);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> HostPort {
        HostPort { host: host.to_owned(), port }
    }

    #[test]
    fn what_cannot_be_listened_on_is_said_in_a_line() {
        let bound = Bound::bind(&at("127.0.0.1", 0), false).unwrap();
        let taken = bound.address();
        let refused = Bound::bind(&taken, false).unwrap_err();
        assert!(matches!(refused, ListenError::InUse { .. }), "{refused}");
        let open = Bound::bind(&at("0.0.0.0", 0), false).unwrap_err();
        assert!(matches!(open, ListenError::Insecure { .. }), "{open}");
        assert!(Bound::bind(&at("0.0.0.0", 0), true).is_ok());
        let unknown = Bound::bind(&at("nowhere.invalid", 0), false).unwrap_err();
        assert!(!unknown.to_string().contains('\n'), "{unknown}");
    }
}
