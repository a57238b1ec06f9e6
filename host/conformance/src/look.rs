//! Records what is at a target, and what exists on the node, so that two moments can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use volhost_kernel::{Directory, Entry, Kernel, KernelError, LinuxKernel, MountId};

use crate::scratch::loops_below;

/// How deep into a volume is looked.
const DEPTH: usize = 3;
/// How many entries of a volume are looked at.
const ENTRIES: usize = 1000;
/// A mount option that depends on the past: an overlay has it from the second mount of its folders
/// on.
const OF_THE_PAST: &str = "uuid=";
/// Up to how many bytes the content of a file is compared.
const CONTENT_BYTES: u64 = 64 << 10;

/// What is at a target, as a pod sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetView {
    /// `mount of ext4`, `folder`, or what else.
    pub(crate) kind: String,
    /// The mount's options, sorted.
    pub(crate) options: Vec<String>,
    /// Writing through it is refused.
    pub(crate) read_only: bool,
    /// The root's permission bits.
    pub(crate) mode: u32,
    /// The root's group.
    pub(crate) group: u32,
    /// What is in it, by relative path, one line each.
    pub(crate) content: BTreeMap<PathBuf, String>,
}

/// Returns what is at a name in a folder, and the ids of the mounts there, the topmost last; none
/// when nothing is there.
pub(crate) fn view(
    kernel: &LinuxKernel,
    parent: &Directory,
    name: &str,
    path: &Path,
) -> Result<Option<(TargetView, Vec<MountId>)>, KernelError> {
    let name = OsStr::new(name);
    let (kind, options, read_only) = match kernel.entry(parent, name)? {
        Entry::Absent => return Ok(None),
        Entry::Mount(_) => match kernel.mount_at(parent, name)? {
            Some(mount) => {
                let mut options = mount.options;
                options.retain(|option| !option.starts_with(OF_THE_PAST));
                options.sort();
                (format!("mount of {}", mount.fs_type), options, mount.read_only)
            }
            None => ("mount that goes".to_owned(), Vec::new(), false),
        },
        Entry::Folder => ("folder".to_owned(), Vec::new(), false),
        Entry::File => ("ordinary file".to_owned(), Vec::new(), false),
        Entry::Symlink => ("symbolic link".to_owned(), Vec::new(), false),
        Entry::Other => ("something else".to_owned(), Vec::new(), false),
    };
    let stacked = kernel.mounts_below(parent)?.into_iter().filter(|mount| mount.point == Path::new(name));
    let ids = stacked.map(|mount| mount.id).collect();
    let (mode, group) = fs::metadata(path).map_or((0, 0), |found| (found.mode() & 0o7777, found.gid()));
    let mut content = BTreeMap::new();
    list(path, Path::new(""), DEPTH, &mut content);
    Ok(Some((TargetView { kind, options, read_only, mode, group, content }, ids)))
}

/// Lists a folder as a pod sees it: links are followed, and the folders behind a payload's links
/// (`..data`) are not.
fn list(folder: &Path, at: &Path, depth: usize, into: &mut BTreeMap<PathBuf, String>) {
    let Ok(entries) = fs::read_dir(folder.join(at)) else { return };
    for entry in entries.flatten() {
        let (name, place) = (entry.file_name(), at.join(entry.file_name()));
        if into.len() >= ENTRIES || name.as_encoded_bytes().starts_with(b"..") {
            continue;
        }
        let path = folder.join(&place);
        let Ok(found) = fs::metadata(&path) else {
            into.insert(place, "leads nowhere".to_owned());
            continue;
        };
        let (mode, user, group) = (found.mode() & 0o7777, found.uid(), found.gid());
        if found.is_dir() {
            into.insert(place.clone(), format!("folder, mode {mode:o}, of {user}:{group}"));
            if depth > 0 {
                list(folder, &place, depth - 1, into);
            }
        } else if found.is_file() && found.len() <= CONTENT_BYTES {
            let bytes = fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            into.insert(place, format!("file, mode {mode:o}, of {user}:{group}: {text:?}"));
        } else {
            into.insert(place, format!("file, mode {mode:o}, of {user}:{group}, {} bytes", found.len()));
        }
    }
}

impl TargetView {
    /// Describes how another view differs from this one; none when it does not.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let mut said = Vec::new();
        let mut compare = |what: &str, mine: String, others: String| {
            if mine != others {
                said.push(format!("{what}: {mine} before, {others} now"));
            }
        };
        compare("kind", self.kind.clone(), other.kind.clone());
        compare("options", self.options.join(","), other.options.join(","));
        compare("read-only", self.read_only.to_string(), other.read_only.to_string());
        compare("mode", format!("{:o}", self.mode), format!("{:o}", other.mode));
        compare("group", self.group.to_string(), other.group.to_string());
        for path in self.content.keys().chain(other.content.keys()).collect::<BTreeSet<_>>() {
            let (mine, others) = (self.content.get(path), other.content.get(path));
            if mine != others {
                let word = |line: Option<&String>| line.cloned().unwrap_or_else(|| "not there".to_owned());
                said.push(format!("{}: {} before, {} now", path.display(), word(mine), word(others)));
            }
        }
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// What exists on the scratch node besides volumes' content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeSnapshot {
    /// Mounts: where, and of what type.
    mounts: BTreeSet<String>,
    /// Files with a loop device.
    loops: BTreeSet<String>,
    /// Every path that is not on a mount of its own.
    paths: BTreeSet<String>,
    /// The files that the process has open, by path.
    handles: Vec<String>,
    /// The number of running FUSE servers.
    fuse_servers: usize,
    /// Sessions with iSCSI targets, and the units that they show.
    iscsi: BTreeSet<String>,
    /// Units of Fibre Channel targets. Adapters find them by themselves, so one may have been there
    /// before any volume.
    fc: BTreeSet<String>,
}

impl NodeSnapshot {
    /// Records what exists below the scratch folder. `root` is the host's root folder in it, a
    /// mount that always exists.
    pub(crate) fn take(kernel: &LinuxKernel, scratch: &Path, root: &str) -> Result<Self, KernelError> {
        let folder = kernel.open_directory(scratch)?;
        let all = kernel.mounts_below(&folder)?;
        let mounts: Vec<_> = all.into_iter().filter(|mount| mount.point != Path::new(root)).collect();
        let points: BTreeSet<&Path> = mounts.iter().map(|mount| mount.point.as_path()).collect();
        let mut snapshot = Self {
            mounts: mounts.iter().map(|mount| format!("{} ({})", mount.point.display(), mount.fs_type)).collect(),
            loops: loops_below(scratch).iter().map(|file| relative(file, scratch)).collect(),
            ..Self::default()
        };
        walk(scratch, Path::new(""), &points, &mut snapshot.paths);
        drop(folder);
        let descriptors = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let open = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        snapshot.handles = open.filter(|path| path.starts_with(scratch)).map(|path| relative(&path, scratch)).collect();
        snapshot.handles.sort();
        Ok(snapshot)
    }

    /// Sets the number of running FUSE servers.
    pub(crate) fn with_fuse_servers(mut self, running: usize) -> Self {
        self.fuse_servers = running;
        self
    }

    /// Sets the sessions with iSCSI targets, and the units that they show.
    pub(crate) fn with_iscsi(mut self, connected: Vec<String>) -> Self {
        self.iscsi = connected.into_iter().collect();
        self
    }

    /// Sets the units of Fibre Channel targets that the node has.
    pub(crate) fn with_fc(mut self, units: Vec<String>) -> Self {
        self.fc = units.into_iter().collect();
        self
    }

    /// Sets the sessions with targets and the units of targets to those of another moment.
    pub(crate) fn with_targets_of(mut self, other: &Self) -> Self {
        self.iscsi.clone_from(&other.iscsi);
        self.fc.clone_from(&other.fc);
        self
    }

    /// Describes the units of Fibre Channel targets that are missing now. They may be by the end of a
    /// volume, but not of another one.
    pub(crate) fn missing_units(&self, now: &Self) -> Option<String> {
        let missing: Vec<String> =
            self.fc.difference(&now.fc).map(|unit| format!("the FC unit {unit} is missing")).collect();
        (!missing.is_empty()).then(|| missing.join("; "))
    }

    /// Describes what exists now and not in this snapshot: mounts, loop devices, iSCSI sessions,
    /// units of targets, FUSE servers, handles, and paths that are not in `known` either. And which mounts, loop
    /// devices, iSCSI sessions and units, and FUSE servers are missing.
    pub(crate) fn left_over(&self, now: &Self, known: &Self) -> Option<String> {
        let mut said = Vec::new();
        let mut more = |what: &str, before: &BTreeSet<String>, now: &BTreeSet<String>| {
            said.extend(now.difference(before).map(|one| format!("{what} {one} is left over")));
        };
        more("the mount", &self.mounts, &now.mounts);
        more("the loop device over", &self.loops, &now.loops);
        more("iSCSI:", &self.iscsi, &now.iscsi);
        more("the FC unit", &self.fc, &now.fc);
        more("", &self.paths.union(&known.paths).cloned().collect(), &now.paths);
        more("a handle of", &self.handles.iter().cloned().collect(), &now.handles.iter().cloned().collect());
        if now.fuse_servers > self.fuse_servers {
            said.push(format!("{} FUSE servers are left over", now.fuse_servers - self.fuse_servers));
        }
        said.extend(self.mounts.difference(&now.mounts).map(|one| format!("the mount {one} is missing")));
        said.extend(self.loops.difference(&now.loops).map(|one| format!("the loop device over {one} is missing")));
        said.extend(self.iscsi.difference(&now.iscsi).map(|one| format!("iSCSI: {one} is missing")));
        if now.fuse_servers < self.fuse_servers {
            said.push(format!("{} FUSE servers are missing", self.fuse_servers - now.fuse_servers));
        }
        (!said.is_empty()).then(|| said.join("; ").trim().to_owned())
    }
}

fn relative(path: &Path, to: &Path) -> String {
    path.strip_prefix(to).unwrap_or(path).display().to_string()
}

/// Adds every path below a folder, but for what lies on mounts.
fn walk(scratch: &Path, at: &Path, mounts: &BTreeSet<&Path>, into: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(scratch.join(at)) else { return };
    for entry in entries.flatten() {
        let place = at.join(entry.file_name());
        into.insert(place.display().to_string());
        let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if folder && !mounts.contains(place.as_path()) {
            walk(scratch, &place, mounts, into);
        }
    }
}
