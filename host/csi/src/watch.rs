//! Watches the registry folder: each socket in it is a driver to register until the socket is gone.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_folder_watch::{Below, FolderWatch};
use volhost_model::BackOff;

use super::registry::CsiDrivers;
use super::{probe, refresh, registration};

/// How deep folders may lie in the registry's.
const DEPTH: usize = 8;

/// Distinguishes a socket from an older one of the same path: device, inode, and creation time.
type SocketStamp = (u64, u64, Option<SystemTime>);

/// A socket in the folder.
struct DriverSocket {
    stamp: SocketStamp,
    /// Ends its registration.
    gone: CancellationToken,
}

/// Registers the driver behind each socket in the folder, again when the socket is replaced, and
/// removes it when the socket is gone, until `shutdown`. Names that begin with a dot are skipped. A
/// missing folder is created with mode 0750, as by the kubelet.
pub async fn watch(folder: PathBuf, drivers: Arc<CsiDrivers>, shutdown: CancellationToken) {
    let mut watch = match FolderWatch::folder(&folder, Below::Tree(DEPTH)) {
        Ok(watch) => watch,
        Err(error) => {
            warn!(%error, "the plugin registry cannot be watched; CSI drivers are not registered");
            return;
        }
    };
    let mut sockets: BTreeMap<PathBuf, DriverSocket> = BTreeMap::new();
    loop {
        if let Err(error) = create(&folder) {
            warn!(folder = %folder.display(), %error, "the folder of the plugin registry cannot be created");
        }
        if let Err(error) = watch.arm() {
            warn!(folder = %folder.display(), %error, "the plugin registry cannot be watched");
        }
        let mut found = BTreeMap::new();
        list(&folder, DEPTH, &mut found);
        follow(&mut sockets, &found, &drivers, &shutdown);
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = watch.changed() => {}
        }
    }
}

/// Starts the registration of new sockets, and ends that of sockets that are gone.
fn follow(
    sockets: &mut BTreeMap<PathBuf, DriverSocket>,
    found: &BTreeMap<PathBuf, SocketStamp>,
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
            drivers.found(path);
            let gone = shutdown.child_token();
            tokio::spawn(keep_trying(path.clone(), drivers.clone(), gone.clone()));
            sockets.insert(path.clone(), DriverSocket { stamp: *stamp, gone });
        }
    }
}

/// Registers the driver behind a socket, with back-off, and then keeps its node info and health up
/// to date.
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
                let Some(refresh_now) = drivers.refresh_now(&name) else { return };
                let Some(probe_now) = drivers.probe_now(&name) else { return };
                let objects = drivers.objects.csi_driver_changes();
                tokio::select! {
                    () = gone.cancelled() => {}
                    () = refresh::keep_current(&drivers, &name, refresh_now, objects) => {}
                    () = probe::keep_probing(&drivers, &name, probe_now) => {}
                }
                return;
            }
            Err(error) => error,
        };
        warn!(socket = %socket.display(), %error, "CSI driver not registered; registration is tried again");
        drivers.failed(&socket, registration::failed_row(&socket, &error));
        failures = failures.saturating_add(1);
        tokio::select! {
            () = gone.cancelled() => return,
            () = tokio::time::sleep(BackOff::KUBELET.wait(failures)) => {}
        }
    }
}

fn create(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o750).create(folder)
}

/// The sockets in a folder and below it. A folder that cannot be read counts as empty.
fn list(folder: &Path, depth: usize, found: &mut BTreeMap<PathBuf, SocketStamp>) {
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
