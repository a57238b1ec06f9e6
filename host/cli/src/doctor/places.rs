//! Folders: the root folder and how its mounts travel, the cache, plugins and manifests.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use volhost_config::RunConfig;
use volhost_kernel::LinuxKernel;

use super::check::Checks;
use super::machine::existing;
use super::subject::Subject;

/// Below this share of free bytes or inodes, a file system is nearly full: a hundredth each.
const NEARLY_FULL_PERCENT: u64 = 5;
/// Bytes that a cache needs for the code of some plugins.
const CACHE_BYTES: u64 = 256 << 20;
/// The namespace's mounts may be so many hundredths of the kernel's limit.
const MANY_MOUNTS_PERCENT: u64 = 80;
/// The kernel's limit of mounts for each namespace.
const MOUNT_MAX: &str = "/proc/sys/fs/mount-max";

/// Checks the folders.
pub(super) fn check(checks: &mut Checks, kernel: &LinuxKernel, subject: Subject, config: &RunConfig, root: &Path) {
    root_folder(checks, kernel, subject, root);
    namespace(checks, subject);
    mount_count(checks, kernel);
    cache(checks, kernel, &config.cache_dir);
    plugin_folder(checks, &config.plugin_dir);
    if let Some(folder) = &config.manifests {
        readable(checks, "manifest folder", folder, "pods come from its files", "manifests");
    }
    if let Some(folder) = &config.plugin_registry {
        readable(checks, "driver registry", folder, "CSI drivers register there", "plugin-registry");
    }
}

fn root_folder(checks: &mut Checks, kernel: &LinuxKernel, subject: Subject, root: &Path) {
    let place = existing(root);
    let shown = place.display();
    let mount = match kernel.mount_of(&place) {
        Ok(mount) => mount,
        Err(error) => {
            checks.problem(
                "root folder",
                error.to_string(),
                "every volume is mounted below it",
                "correct root-dir, or repair the file system",
            );
            return;
        }
    };
    if mount.read_only {
        checks.problem(
            "root folder",
            format!("{shown} is read-only ({} at {})", mount.fs_type, mount.point.display()),
            "volhost makes a folder for each pod and volume there",
            "mount the file system with rw, or name another folder with root-dir",
        );
    } else {
        let missing = if place == root { "" } else { "; volhost makes the root folder below it" };
        checks.ok("root folder", format!("{shown} is on {} at {}{missing}", mount.fs_type, mount.point.display()));
    }
    if mount.is_shared {
        checks.ok("propagation", format!("the mount at {} is shared", mount.point.display()));
    } else {
        let action = if subject.is_daemon() && mount.point == root {
            format!("restart volhostd, which makes it shared, or: mount --make-shared {}", root.display())
        } else {
            format!("mount --make-rshared {} (systemd does that to / at boot)", mount.point.display())
        };
        checks.warning(
            "propagation",
            format!("the mount at {} is private", mount.point.display()),
            "containers and kubelets with a mount namespace of their own do not see volumes that are mounted later",
            action,
        );
    }
    space(checks, kernel, "root folder's space", &place, 0, "pods' folders, and emptyDir volumes on disk, need it");
}

/// Bytes and inodes of the file system that a folder is on.
fn space(checks: &mut Checks, kernel: &LinuxKernel, name: &str, folder: &Path, least_bytes: u64, why: &str) {
    let shown = folder.display();
    let usage = match kernel.space_of(folder) {
        Ok(usage) => usage,
        Err(error) => {
            checks.problem(name, error.to_string(), why, "repair the file system");
            return;
        }
    };
    let is_low = |free: u64, all: u64| all > 0 && free.saturating_mul(100) < all.saturating_mul(NEARLY_FULL_PERCENT);
    let inodes = if usage.inodes == 0 { String::new() } else { format!(", {} inodes free", usage.inodes_free) };
    let found = format!("{} MiB free{inodes}", usage.available >> 20);
    let is_full = usage.capacity > 0 && usage.available == 0 || usage.inodes > 0 && usage.inodes_free == 0;
    let action = format!("make room on the file system of {shown}, or move the folder to a larger one");
    if is_full {
        checks.problem(name, found, why, action);
    } else if is_low(usage.available, usage.capacity)
        || is_low(usage.inodes_free, usage.inodes)
        || usage.available < least_bytes
    {
        checks.warning(name, found, why, action);
    } else {
        checks.ok(name, found);
    }
}

/// A daemon in a mount namespace of its own mounts volumes that pods do not see.
fn namespace(checks: &mut Checks, subject: Subject) {
    if !subject.is_daemon() {
        return;
    }
    let (Ok(own), Ok(daemons)) = (fs::read_link("/proc/self/ns/mnt"), fs::read_link(subject.file("ns/mnt"))) else {
        checks.warning(
            "mount namespace",
            format!("that of {} cannot be read", subject.name()),
            "volumes that are mounted in another namespace may not be seen here",
            "run `volhost doctor` as root",
        );
        return;
    };
    if own == daemons {
        checks.ok("mount namespace", "the daemon's is this one");
    } else {
        checks.warning(
            "mount namespace",
            "the daemon has another one than this program",
            "volumes are seen here only if the root folder is shared between both",
            "if containers start here, take settings like PrivateTmp=, ProtectSystem= or PrivateMounts= out of the unit",
        );
    }
}

fn mount_count(checks: &mut Checks, kernel: &LinuxKernel) {
    let name = "number of mounts";
    let limit = fs::read_to_string(MOUNT_MAX).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let (Ok(count), Some(limit)) = (kernel.mount_count(), limit) else { return };
    let found = format!("{count} of at most {limit}");
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    if count.saturating_mul(100) < limit.saturating_mul(MANY_MOUNTS_PERCENT) {
        checks.ok(name, found);
    } else {
        checks.warning(
            name,
            found,
            "the kernel refuses more mounts than that in one namespace",
            "raise fs.mount-max (sysctl)",
        );
    }
}

fn cache(checks: &mut Checks, kernel: &LinuxKernel, folder: &Path) {
    let name = "cache folder";
    let why = "compiled plugins are kept there; without it volhostd does not start";
    let shown = folder.display();
    let place = existing(folder);
    match kernel.mount_of(&place) {
        Err(error) => checks.problem(name, error.to_string(), why, "correct cache-dir, or repair the file system"),
        Ok(mount) if mount.read_only => checks.problem(
            name,
            format!("{shown} is on a read-only file system"),
            why,
            "name another folder with cache-dir",
        ),
        Ok(_) if place != folder => checks.ok(name, format!("{shown} is made at the first start")),
        Ok(_) => match volhost_runtime::examine_cache(folder) {
            Err(error) => checks.problem(name, error.to_string(), why, "correct its owner and mode, or remove it"),
            Ok(plugins) => checks.ok(name, format!("{shown} has the code of {plugins} plugins")),
        },
    }
    space(checks, kernel, "cache folder's space", &place, CACHE_BYTES, "plugins are compiled into it");
}

fn plugin_folder(checks: &mut Checks, folder: &Path) {
    let name = "plugin folder";
    let shown = folder.display();
    let why = "volhost mounts nothing without plugins";
    let Ok(entries) = fs::read_dir(folder) else {
        checks.problem(name, format!("{shown} cannot be read"), why, "make the folder, or correct plugin-dir");
        return;
    };
    let is_plugin = |path: &Path| path.extension() == Some(OsStr::new("wasm"));
    match entries.filter_map(Result::ok).filter(|entry| is_plugin(&entry.path())).count() {
        0 => checks.problem(
            name,
            format!("{shown} has no *.wasm file"),
            why,
            "put plugins there (`volhost plugin pull REF --out DIR`), or correct plugin-dir",
        ),
        count => checks.ok(name, format!("{shown} has {count} plugin files")),
    }
    // Who may write there decides which code mounts.
    if let Ok(found) = fs::metadata(folder)
        && (found.uid() != 0 || found.mode() & 0o022 != 0)
    {
        checks.warning(
            "plugin folder's owner",
            format!("{shown} belongs to user {} and has mode {:o}", found.uid(), found.mode() & 0o7777),
            "who can write there decides which plugins are loaded",
            format!("chown root {shown} && chmod go-w {shown}"),
        );
    }
}

fn readable(checks: &mut Checks, name: &str, folder: &Path, why: &str, option: &str) {
    match fs::read_dir(folder) {
        Ok(_) => checks.ok(name, format!("{} can be read", folder.display())),
        Err(error) => checks.problem(
            name,
            format!("{}: {error}", folder.display()),
            why,
            format!("make the folder, or correct {option}"),
        ),
    }
}
