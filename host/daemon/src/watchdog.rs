//! The watchdog of systemd (`WatchdogSec=`), or of another service manager that speaks its
//! protocol.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;
use volhost_node::event_loop::Watchdog;

/// Where the service manager listens.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
/// A sign of life.
const ALIVE: &[u8] = b"WATCHDOG=1\n";

/// The watchdog of this process, if its service manager wants signs of life.
pub(super) fn of_environment() -> Option<Watchdog> {
    let timeout = sd_notify::watchdog_enabled()?;
    let socket = match env::var_os(NOTIFY_SOCKET).map(|address| connect(&address)) {
        Some(Ok(socket)) => socket,
        Some(Err(error)) => {
            warn!(%error, "the service manager wants signs of life, and its socket cannot be used");
            return None;
        }
        None => return None,
    };
    Some(Watchdog::new(timeout, move || {
        // One that is lost because the queue is full is followed by others in time.
        let _ = socket.send(ALIVE);
    }))
}

/// A socket on which sending does not block: the event loop's thread sends.
fn connect(address: &OsStr) -> io::Result<UnixDatagram> {
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sending_to_a_manager_that_does_not_read_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let socket = connect(path.as_os_str()).unwrap();
        let refused = (0..100_000).find_map(|_| socket.send(ALIVE).err()).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let mut message = [0; 64];
        let bytes = manager.recv(&mut message).unwrap();
        assert_eq!(&message[..bytes], ALIVE);
        assert!(connect(OsStr::new("@volhost-test-no-such-name")).is_err());
    }
}
