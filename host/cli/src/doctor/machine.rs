//! The kernel: its version, its calls for mounts, and what a mount needs, tried where no process
//! sees it.

use std::path::{Path, PathBuf};

use volhost_kernel::{CallReport, Errno, IdMap, Kernel as _, KernelError, LinuxKernel, Ownership as _};

use super::check::Checks;
use super::needs::Needs;
use super::subject::Subject;

/// The device that makes loop devices.
const LOOP_CONTROL: &str = "/dev/loop-control";
/// The device of FUSE servers.
const FUSE: &str = "/dev/fuse";
/// Two groups that change places in the map that is tried.
const TRIED_GROUPS: (u32, u32) = (1, 2);

/// Checks the kernel. Mounts are tried for the root folder, or for its nearest parent that exists.
pub(super) fn check(checks: &mut Checks, kernel: &LinuxKernel, this: Subject, root: &Path, needs: &Needs) {
    let may_mount = volhost_hardening::capabilities::may_mount(this.capabilities().unwrap_or_default());
    checks.ok("kernel", format!("Linux {}", kernel.release()));
    if may_mount {
        calls(checks, &kernel.mount_calls());
        mounts(checks, kernel, root);
    } else {
        checks.warning(
            "mount calls",
            "not tried: this program may not mount",
            "old kernels and filters of system calls lack calls that volhost needs",
            "run `volhost doctor` as root",
        );
    }
    if kernel.has_statmount() {
        checks.ok("mount table", "read by statmount and listmount");
    } else {
        checks.ok("mount table", "read from mountinfo; Linux 6.13 and later report it faster");
    }
    let device = |name: &str, path: &'static str, module: &str, users: &[String]| Device {
        name: name.to_owned(),
        path,
        module: module.to_owned(),
        users: users.to_vec(),
    };
    device("loop devices", LOOP_CONTROL, "loop", &needs.of_interface("loop-devices")).check(checks, kernel, may_mount);
    device("fuse", FUSE, "fuse", &needs.of_interface("fuse-servers")).check(checks, kernel, may_mount);
}

fn calls(checks: &mut Checks, calls: &[CallReport]) {
    let name = "mount calls";
    let missing: Vec<String> = calls
        .iter()
        .filter_map(|call| {
            let errno = call.problem?;
            let since = if errno == Errno::NOSYS { format!(", since Linux {}", call.since) } else { String::new() };
            Some(format!("{} ({errno}{since})", call.name))
        })
        .collect();
    if missing.is_empty() {
        let names: Vec<&str> = calls.iter().map(|call| call.name).collect();
        checks.ok(name, names.join(", "));
        return;
    }
    checks.problem(
        name,
        format!("they cannot be used: {}", missing.join(", ")),
        "volhost mounts with them and with no others",
        "boot Linux 5.12 or later; in a container, allow them in its filter of system calls (seccomp)",
    );
}

/// Tries each kind of mount. What is mounted has no place in the tree, and is gone at once.
fn mounts(checks: &mut Checks, kernel: &LinuxKernel, root: &Path) {
    let why_each = "volumes in memory and records need it";
    tried(checks, "tmpfs", kernel.tmpfs(&[]).map(drop), why_each);
    let place = existing(root);
    let bind = kernel.open_directory(&place).and_then(|folder| kernel.source(&folder)).and_then(|source| {
        let mount = kernel.bind(&source, false)?;
        kernel.set_options(&mount, &["ro"], false)?;
        Ok(mount)
    });
    let mount = match bind {
        Ok(mount) => mount,
        Err(error) => {
            tried(checks, "bind mounts", Err(error), "volumes are shown to pods by bind mounts");
            return;
        }
    };
    checks.ok("bind mounts", format!("{} can be bound, read-only", place.display()));
    let Some(map) = IdMap::swapping_groups(TRIED_GROUPS.0, TRIED_GROUPS.1) else { return };
    match kernel.idmapped(&mount, &map) {
        Ok(()) => checks.ok("id-mapped mounts", format!("{} can be mounted with other ids", place.display())),
        Err(error) => checks.warning(
            "id-mapped mounts",
            error.to_string(),
            "without them, volhost changes the group of each file of a volume instead of mapping it, which takes long",
            "keep the root folder on a file system that has them (ext4, xfs, btrfs, tmpfs since Linux 6.3), and allow user namespaces",
        ),
    }
}

fn tried(checks: &mut Checks, name: &str, tried: Result<(), KernelError>, why: &str) {
    match tried {
        Ok(()) => checks.ok(name, "can be mounted"),
        Err(error) => checks.problem(
            name,
            error.to_string(),
            why,
            "the message has the kernel's reason; in a container, CAP_SYS_ADMIN and its filter of system calls decide",
        ),
    }
}

/// The path, or its nearest parent that exists.
pub(super) fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_path_buf()
}

/// A device of the kernel, and the plugins that need it.
struct Device {
    name: String,
    path: &'static str,
    module: String,
    users: Vec<String>,
}

impl Device {
    fn check(&self, checks: &mut Checks, kernel: &LinuxKernel, may_open: bool) {
        let path = Path::new(self.path);
        let is_there = path.try_exists().unwrap_or_default();
        // Opening loads the module: that is left to those who need it.
        let tried = match (is_there, self.users.is_empty()) {
            (false, _) => Err(Errno::NOENT),
            (true, false) if may_open => kernel.try_device(path),
            (true, _) => Ok(()),
        };
        match tried {
            Ok(()) => checks.ok(&self.name, format!("{} is there", self.path)),
            Err(errno) if self.users.is_empty() => {
                checks.ok(&self.name, format!("{}: {errno}; no plugin needs it", self.path));
            }
            Err(errno) => checks.problem(
                &self.name,
                format!("{}: {errno}", self.path),
                format!("plugin {} needs it", self.users.join(", ")),
                format!(
                    "load the module (modprobe {}); in a container, give it the device (--device {})",
                    self.module, self.path
                ),
            ),
        }
    }
}
