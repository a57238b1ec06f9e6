//! The suite's view of this machine: each case on a thread with a mount namespace of its own, on a fresh tmpfs.

use std::any::Any;
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use volhost_kernel::{Errno, Kernel, LinuxKernel, SourceKind};

use crate::suite::World;

pub struct RealWorld {
    kernel: LinuxKernel,
    base: tempfile::TempDir,
}

/// Runs a case where its mounts are nobody else's, and fails if it fails.
pub fn in_namespace(kernel: LinuxKernel, case: impl FnOnce(&RealWorld) + Send + 'static) {
    assert!(
        nix::unistd::geteuid().is_root(),
        "kernel tests mount things: run them as root (they leave the machine's mount table alone)"
    );
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        // Nothing that is mounted here may appear outside.
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        let base = tempfile::tempdir().unwrap();
        mount(Some("test"), base.path(), Some("tmpfs"), MsFlags::empty(), Some("mode=755")).unwrap();
        let world = RealWorld { kernel, base };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&world)));
        let RealWorld { base, .. } = world;
        // What is mounted ends with the thread; the folder beneath is removed here, so it must be no mount any more.
        nix::mount::umount2(base.path(), nix::mount::MntFlags::MNT_DETACH).unwrap();
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

pub fn mount_lines() -> usize {
    std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap().lines().count()
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap()
}

impl World for RealWorld {
    fn kernel(&self) -> &dyn Kernel {
        &self.kernel
    }

    fn base(&self) -> PathBuf {
        self.base.path().to_owned()
    }

    fn add_folder(&self, path: &Path) {
        std::fs::create_dir_all(path).unwrap();
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Errno> {
        std::fs::write(path, bytes).map_err(errno)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, Errno> {
        std::fs::read(path).map_err(errno)
    }

    fn add_symlink(&self, path: &Path, target: &Path) {
        symlink(target, path).unwrap();
    }

    fn add_node(&self, path: &Path, kind: SourceKind) {
        let kind = match kind {
            SourceKind::Socket => {
                drop(UnixListener::bind(path).unwrap());
                return;
            }
            SourceKind::CharDevice => SFlag::S_IFCHR,
            SourceKind::BlockDevice => SFlag::S_IFBLK,
            SourceKind::Fifo => SFlag::S_IFIFO,
            SourceKind::File => SFlag::S_IFREG,
            SourceKind::Directory => return self.add_folder(path),
        };
        mknod(path, kind, Mode::S_IRUSR, makedev(1, 3)).unwrap();
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn list(&self, path: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    fn mode_and_group(&self, path: &Path) -> (u32, u32) {
        let seen = std::fs::metadata(path).unwrap();
        (seen.mode() & 0o7777, seen.gid())
    }

    fn hold(&self, path: &Path) -> Box<dyn Any> {
        Box::new(std::fs::File::open(path).unwrap())
    }

    fn mount_count(&self) -> usize {
        mount_lines()
    }
}
