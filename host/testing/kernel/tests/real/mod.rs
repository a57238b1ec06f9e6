//! The suite's view of this machine: each case on a thread with a mount namespace of its own, on a
//! fresh tmpfs.

mod children;
mod ownership;
mod payloads;
mod sub_paths;
mod usage;

use std::any::Any;
use std::cell::OnceCell;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use volhost_kernel::{Errno, Kernel, LinuxKernel, SourceKind};
use volhost_process::Program;

use crate::suite::World;

/// Cases that work with devices look at the machine's loop devices, which are not theirs alone. So
/// one case at a time does.
static DEVICES: Mutex<()> = Mutex::new(());

/// How long a busy machine may take to close a device.
const FREED_WITHIN: Duration = Duration::from_secs(180);

/// `CAP_SYS_RESOURCE`, by its number in <linux/capability.h>.
const SYS_RESOURCE: u32 = 24;

pub struct RealWorld {
    kernel: LinuxKernel,
    base: tempfile::TempDir,
    devices: OnceCell<MutexGuard<'static, ()>>,
}

/// Runs a case in a mount namespace of its own, and fails if it fails.
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
        let world = RealWorld { kernel, base, devices: OnceCell::new() };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&world)));
        let RealWorld { base, devices, .. } = world;
        let loops = loops_over(base.path());
        // What is mounted ends with the thread; the folder beneath is removed here, so it must be
        // no mount any more.
        nix::mount::umount2(base.path(), nix::mount::MntFlags::MNT_DETACH).unwrap();
        // A case may have put a file system of its own over the first.
        while nix::mount::umount2(base.path(), nix::mount::MntFlags::MNT_DETACH).is_ok() {}
        // Loop devices belong to the machine, not to the namespace. One that a pin still keeps goes
        // with the pin. Each once: freed, its number is another test's at once.
        for device in &loops {
            run_program("losetup", &["-d", device.to_str().unwrap()]);
        }
        drop(devices);
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs a program to its end, so that it keeps no case's mounts busy: its success, what it wrote
/// and what it complained.
pub fn run_program(name: &str, arguments: &[&str]) -> (bool, String, String) {
    let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let path = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
    let path =
        path.unwrap_or_else(|| panic!("there is no {name} on this machine: deploy/setup.sh --tests installs it"));
    let mut child = Program::new(path).with_arguments(arguments).with_variable("LC_ALL", "C").start().unwrap();
    drop(child.stdin.take());
    let (mut out, mut complaints) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    (child.wait().unwrap().success(), out, complaints)
}

/// The loop devices over files below a folder, pins of devices mapped there included.
pub fn loops_over(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir("/sys/block").unwrap().map(|entry| entry.unwrap().path());
    let over = |path: &PathBuf| {
        std::fs::read_to_string(path.join("loop/backing_file"))
            .is_ok_and(|file| Path::new(file.trim_end_matches('\n')).starts_with(folder))
    };
    listed.filter(over).map(|path| Path::new("/dev").join(path.file_name().unwrap())).collect()
}

/// Waits until no loop device is over a file below a folder. The kernel frees a detached device
/// when the last process closes it: that may be one that lists the devices of the machine.
pub fn assert_no_loop_over(folder: &Path) {
    let begun = Instant::now();
    while !loops_over(folder).is_empty() {
        assert!(begun.elapsed() < FREED_WITHIN, "left: {:?}", loops_over(folder));
        std::thread::yield_now();
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

    fn owner(&self, path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().uid()
    }

    fn link_target(&self, path: &Path) -> Option<PathBuf> {
        std::fs::read_link(path).ok()
    }

    fn give(&self, path: &Path, owner: u32, group: u32, mode: u32) {
        std::os::unix::fs::chown(path, Some(owner), Some(group)).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn remove(&self, path: &Path) {
        std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path)).unwrap();
    }

    fn hold(&self, path: &Path) -> Box<dyn Any> {
        Box::new(std::fs::File::open(path).unwrap())
    }

    fn mount_count(&self) -> usize {
        mount_lines()
    }

    fn claim_devices(&self) {
        self.devices.get_or_init(|| DEVICES.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A btrfs of its own over the base, whose loop device goes with its last user.
    fn enable_folder_quotas(&self) {
        self.claim_devices();
        let image = self.base.path().join("btrfs.img");
        std::fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
        let run = |program: &str, arguments: &[&str], path: &Path| {
            let (success, _, complaints) = run_program(program, &[arguments, &[path.to_str().unwrap()]].concat());
            assert!(success, "{program}: {complaints}");
        };
        run("mkfs.btrfs", &["--quiet"], &image);
        run("mount", &["-t", "btrfs", "-o", "loop", &image.display().to_string()], self.base.path());
        run("btrfs", &["quota", "enable"], self.base.path());
    }

    fn grows_mounted_ext(&self) -> bool {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap() & (1 << SYS_RESOURCE) != 0
    }
}
