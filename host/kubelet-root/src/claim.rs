//! Whose root folder it is: the files by which a kubelet's folder is known, and the one by which
//! volhost has adopted it.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use thiserror::Error;
use volhost_kernel::{Directory, Entry, Kernel, KernelError};
use volhost_volume_ops::layout::ADOPTED;

/// What a kubelet writes at its start, in the folder itself.
const OF_KUBELET: [&str; 5] =
    ["cpu_manager_state", "memory_manager_state", "allocated_pods_state", "actuated_pods_state", "device-plugins"];
/// The sockets on which a running kubelet listens.
const SOCKETS: [&str; 2] = ["device-plugins/kubelet.sock", "pod-resources/kubelet.sock"];

/// Why a daemon leaves a root folder alone.
#[derive(Debug, Error)]
#[error(
    "the root folder {} is a kubelet's (it has {found}), and was not adopted; nothing was changed. Stop the kubelet and run `volhost adopt --kubelet-root {}`, or name another folder with --root-dir",
    root.display(),
    root.display()
)]
pub struct NotAdopted {
    root: PathBuf,
    found: &'static str,
}

/// Refuses a kubelet's root folder that was not adopted.
///
/// # Errors
/// [`NotAdopted`]. What cannot be read is for the steps after this one to report.
pub fn check(kernel: &dyn Kernel, root: &Path) -> Result<(), NotAdopted> {
    let Ok(folder) = kernel.open_directory(root) else { return Ok(()) };
    match kubelets_file(kernel, &folder) {
        Ok(Some(found)) if !is_adopted(kernel, &folder) => Err(NotAdopted { root: root.to_owned(), found }),
        _ => Ok(()),
    }
}

/// Returns whether volhost has adopted the folder.
pub fn is_adopted(kernel: &dyn Kernel, root: &Directory) -> bool {
    matches!(kernel.entry(root, OsStr::new(ADOPTED)), Ok(Entry::File))
}

/// Returns the first of the files by which a kubelet's folder is known.
///
/// # Errors
/// The kernel's error.
pub fn kubelets_file(kernel: &dyn Kernel, root: &Directory) -> Result<Option<&'static str>, KernelError> {
    for name in OF_KUBELET {
        if kernel.entry(root, OsStr::new(name))? != Entry::Absent {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns the socket on which a kubelet answers that still runs on this folder.
pub fn running_kubelet(root: &Path) -> Option<PathBuf> {
    SOCKETS.iter().map(|socket| root.join(socket)).find(|socket| match UnixStream::connect(socket) {
        Ok(_) => true,
        // Its backlog is full.
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    })
}
