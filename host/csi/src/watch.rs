//! Watches the registry folder: each socket in it is a driver that wants to register, until the socket goes.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_model::BackOff;

use super::registry::CsiDrivers;
use super::{health, refresh, registration};

/// How deep folders may lie in the registry's.
const DEPTH: usize = 8;

/// What tells a socket from an older one of the same path: device, inode, and when it was made.
type Stamp = (u64, u64, Option<SystemTime>);

/// A socket that is there.
struct Socket {
    stamp: Stamp,
    /// Ends its registration.
    gone: CancellationToken,
}

/// Registers the driver behind each socket in the folder, again when the socket is made anew, and forgets it when the socket goes,
/// until `shutdown`. Names that begin with a dot are passed over. A folder that is missing is made, with mode 0750, as the kubelet does.
pub async fn watch(folder: PathBuf, drivers: Arc<CsiDrivers>, shutdown: CancellationToken) {
    let (poke, mut poked) = mpsc::channel::<()>(1);
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.map_or(true, |event| !matches!(event.kind, notify::EventKind::Access(_))) {
            // A full channel means that a look is due already.
            let _ = poke.try_send(());
        }
    });
    let mut watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            warn!(%error, "the plugin registry cannot be watched; CSI drivers are not registered");
            return;
        }
    };
    let mut sockets: BTreeMap<PathBuf, Socket> = BTreeMap::new();
    let mut watched = false;
    loop {
        if !watched {
            if let Err(error) = make(&folder) {
                warn!(folder = %folder.display(), %error, "the folder of the plugin registry cannot be made");
            }
            // The one above too: there it is seen that the folder is removed and made again.
            if let Some(parent) = folder.parent() {
                let _ = watcher.watch(parent, RecursiveMode::NonRecursive);
            }
            match watcher.watch(&folder, RecursiveMode::Recursive) {
                Ok(()) => watched = true,
                Err(error) => warn!(folder = %folder.display(), %error, "the plugin registry cannot be watched"),
            }
        }
        let mut found = BTreeMap::new();
        list(&folder, DEPTH, &mut found);
        follow(&mut sockets, &found, &drivers, &shutdown);
        tokio::select! {
            () = shutdown.cancelled() => return,
            poked = poked.recv() => {
                if poked.is_none() {
                    return;
                }
                watched &= folder.is_dir();
            }
        }
    }
}

/// Begins the registration of sockets that are new, and ends that of those that are gone.
fn follow(
    sockets: &mut BTreeMap<PathBuf, Socket>,
    found: &BTreeMap<PathBuf, Stamp>,
    drivers: &Arc<CsiDrivers>,
    shutdown: &CancellationToken,
) {
    sockets.retain(|path, socket| {
        if found.get(path) == Some(&socket.stamp) {
            return true;
        }
        socket.gone.cancel();
        if let Some(name) = drivers.forget(path) {
            info!(driver = name, socket = %path.display(), "CSI driver deregistered: its socket is gone");
        }
        false
    });
    for (path, stamp) in found {
        if !sockets.contains_key(path) {
            let gone = shutdown.child_token();
            tokio::spawn(keep_trying(path.clone(), drivers.clone(), gone.clone()));
            sockets.insert(path.clone(), Socket { stamp: *stamp, gone });
        }
    }
}

/// Registers the driver behind a socket, however often that takes, and keeps what it says of this node up to date.
async fn keep_trying(socket: PathBuf, drivers: Arc<CsiDrivers>, gone: CancellationToken) {
    let mut failures = 0_u32;
    loop {
        let outcome = tokio::select! {
            biased;
            () = gone.cancelled() => return,
            outcome = registration::register(&drivers, &socket) => outcome,
        };
        let error = match outcome {
            Ok(name) => {
                let Some(asked) = drivers.asking(&name) else { return };
                let Some(suspect) = drivers.suspicion(&name) else { return };
                let objects = drivers.objects.csi_driver_changes();
                tokio::select! {
                    () = gone.cancelled() => {}
                    () = refresh::keep_current(&drivers, &name, asked, objects) => {}
                    () = health::keep_watch(&drivers, &name, suspect) => {}
                }
                return;
            }
            Err(error) => error,
        };
        warn!(socket = %socket.display(), %error, "CSI driver not registered; it is tried again");
        drivers.failed(&socket, registration::failed_row(&socket, &error));
        failures = failures.saturating_add(1);
        tokio::select! {
            () = gone.cancelled() => return,
            () = tokio::time::sleep(BackOff::KUBELET.wait(failures)) => {}
        }
    }
}

fn make(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o750).create(folder)
}

/// The sockets in a folder and those below it. What cannot be read has none.
fn list(folder: &Path, depth: usize, found: &mut BTreeMap<PathBuf, Stamp>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        if metadata.file_type().is_socket() {
            found.insert(path, (metadata.dev(), metadata.ino(), metadata.created().ok()));
        } else if metadata.is_dir() && depth > 0 {
            list(&path, depth - 1, found);
        }
    }
}
