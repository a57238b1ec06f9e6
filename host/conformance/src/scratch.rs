//! A scratch file system in a mount namespace of its own, for one case.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use thiserror::Error;
use volhost_kernel::{Detach, FsOption, Kernel, KernelError, LinuxKernel, LoopDevices};
use volhost_process::linux_kernel;

/// The name of the scratch file system in the temporary folder that it is mounted in.
const NAME: &str = "scratch";

/// Why there is no scratch file system.
#[derive(Debug, Error)]
pub enum ScratchError {
    /// No folder to mount it on.
    #[error("no temporary folder can be made: {0}")]
    Folder(#[source] std::io::Error),
    /// No thread to run in.
    #[error("no thread can be started: {0}")]
    Thread(#[source] std::io::Error),
    /// No namespace, or nothing mounted in it.
    #[error("no scratch file system can be mounted in a mount namespace of its own (this takes root): {0}")]
    Mount(#[source] KernelError),
    /// What ran in it panicked.
    #[error("the case ended early: a fault of the suite; please report it")]
    Ended,
}

/// Runs `work` on a thread with a mount namespace of its own, where an empty file system in memory
/// is mounted at the path that `work` gets.
///
/// # Guarantees
/// When it returns, nothing is left of what was mounted, and no loop device over a file in there.
pub(crate) fn in_scratch<T: Send>(work: impl FnOnce(&Path) -> T + Send) -> Result<T, ScratchError> {
    // FUSE servers, which run as other users, reach their files through it.
    let open = std::fs::Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().permissions(open).tempdir().map_err(ScratchError::Folder)?;
    let inside = || {
        let kernel = linux_kernel();
        let path = mount(&kernel, folder.path()).map_err(ScratchError::Mount)?;
        let result = work(&path);
        clear(&kernel, folder.path(), &path);
        Ok(result)
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("case".to_owned()).spawn_scoped(scope, inside);
        thread.map_err(ScratchError::Thread)?.join().unwrap_or(Err(ScratchError::Ended))
    })
}

fn mount(kernel: &LinuxKernel, folder: &Path) -> Result<PathBuf, KernelError> {
    volhost_kernel::namespace::unshare_mounts()?;
    let parent = kernel.open_directory(folder)?;
    let scratch = kernel.tmpfs(&[FsOption::new("mode", "0755")])?;
    kernel.attach(scratch, &parent, NAME.as_ref())?;
    Ok(folder.join(NAME))
}

/// Loop devices are the machine's, not the namespace's: they do not go with it. What is mounted
/// keeps them busy, so it goes first.
fn clear(kernel: &LinuxKernel, folder: &Path, scratch: &Path) {
    let files = loops_below(scratch);
    if let Ok(parent) = kernel.open_directory(folder) {
        let opened: Vec<_> =
            files.iter().filter_map(|file| kernel.open_host_path(file, &[scratch.to_owned()]).ok()).collect();
        // Whatever fails here goes with the namespace, but for the devices, which are tried all the
        // same.
        let _ = kernel.detach(&parent, NAME.as_ref(), Detach::Lazy);
        for file in &opened {
            let _ = kernel.detach_loop(file);
        }
    }
}

/// The files below a folder that have a loop device, sorted.
pub(crate) fn loops_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(devices) = std::fs::read_dir("/sys/block") else { return Vec::new() };
    let attribute =
        |device: &std::fs::DirEntry, name: &str| std::fs::read_to_string(device.path().join("loop").join(name)).ok();
    // The kernel removes a device with autoclear after its last user, who may be another process
    // that looks at every device.
    let stays = |device: &std::fs::DirEntry| attribute(device, "autoclear").is_some_and(|text| text.trim() == "0");
    let backing = |device: std::fs::DirEntry| attribute(&device, "backing_file").filter(|_| stays(&device));
    let files = devices.flatten().filter_map(backing).map(|file| PathBuf::from(file.trim_end()));
    let mut files: Vec<PathBuf> = files.filter(|file| file.starts_with(folder)).collect();
    files.sort();
    files
}
