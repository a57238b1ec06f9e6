//! `local` volumes: folders and block devices, for one pod and for several, from the manifest to
//! the file system and back.

use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::inotify;
use volhost_tests::Node;
use volhost_tests::disks::Disk;
use volhost_tests::manifests::{device_pod, local_volume, pod};
use volhost_tests::wait::eventually;

const LOCAL: &str = "kubernetes.io~local-volume";
const MIB: u64 = 1 << 20;

/// The manifests of a volume at this path, with more lines of `spec.local` and of `spec`.
fn local(path: &Path, source: &str, more: &str) -> String {
    let plain = local_volume("pv", &path.display().to_string(), "test-node");
    let path = format!("path: {} }}", path.display());
    let block = if more.contains("Block") { "\n  volumeMode: Block" } else { "" };
    plain.replace(&path, &path.replace(" }", &format!("{source} }}\n{more}"))).replace(
        "accessModes: [ReadWriteOnce]\n  resources",
        &format!("accessModes: [ReadWriteOnce]{block}\n  resources"),
    )
}

fn claimed(name: &str, uid: &str, group: Option<u32>) -> String {
    let pod = pod(name, uid, &["name: data, persistentVolumeClaim: { claimName: pv-claim }"]);
    match group {
        Some(group) => pod.replace("spec:\n", &format!("spec:\n  securityContext: {{ fsGroup: {group} }}\n")),
        None => pod,
    }
}

fn volume(node: &Node, uid: &str) -> PathBuf {
    node.volume(uid, LOCAL, "pv")
}

/// The mounts of pods and of the node.
fn mounts(node: &Node) -> Vec<PathBuf> {
    let (pods, plugins) = (node.root().join("pods"), node.root().join("plugins"));
    let all = node.all_mounts().into_iter().map(|mount| mount.point);
    all.filter(|point| point.starts_with(&pods) || point.starts_with(&plugins)).collect()
}

/// Takes the pods' manifests away, and waits until nothing of their volumes is left.
fn assert_all_goes(node: &Node, pods: &[&str]) {
    for pod in pods {
        node.remove_manifest(&format!("{pod}.yaml"));
        node.wait_unmounted(&format!("default/{pod}"));
    }
    node.ok(&["drain"]);
    assert_eq!(mounts(node), Vec::<PathBuf>::new());
    for folder in ["pods", "plugins"] {
        let folder = node.path(&node.root().join(folder));
        let is_empty = || fs::read_dir(&folder).map_or(0, Iterator::count) == 0;
        assert!(eventually(is_empty), "{}\n{}", folder.display(), node.log());
    }
}

#[test]
fn a_blank_device_is_formatted_and_shared_by_the_pods_of_the_node() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let node = Node::start_default();
        let disk = Disk::blank(&node.folder().join("image"), 512 * MIB);
        let link = node.folder().join("disk/by-name");
        std::os::unix::fs::symlink(&disk.device, &link).unwrap();
        node.manifest("pv.yaml", &local(&link, &format!(", fsType: {fs_type}"), "  mountOptions: [noexec]"));
        node.manifest("a.yaml", &claimed("a", "uid-a", None));
        node.manifest("b.yaml", &claimed("b", "uid-b", None).replace("pv-claim", "pv-claim, readOnly: true"));
        node.wait_mounted("default/a");
        node.wait_mounted("default/b");
        let pods = node.pod_mounts();
        assert!(pods.len() == 2 && pods.iter().all(|mount| mount.fs_type == fs_type), "{pods:?}");
        assert!(pods.iter().all(|mount| mount.options.iter().any(|option| option == "noexec")), "{pods:?}");
        assert_eq!(mounts(&node).len(), 3, "one for the node, one a pod");
        fs::write(volume(&node, "uid-a").join("file"), fs_type).unwrap();
        assert_eq!(fs::read_to_string(volume(&node, "uid-b").join("file")).unwrap(), fs_type);
        assert!(fs::write(volume(&node, "uid-b").join("file"), "x").is_err(), "one pod has it read-only");
        assert_all_goes(&node, &["a", "b"]);
        assert!(eventually(|| !disk.is_in_use()));

        let mut node = node;
        assert!(node.terminate().success());
        node.start();
        node.manifest("c.yaml", &claimed("c", "uid-c", None));
        node.wait_mounted("default/c");
        assert_eq!(fs::read_to_string(volume(&node, "uid-c").join("file")).unwrap(), fs_type, "the data stays");
    }
}

#[test]
fn a_device_with_other_data_or_in_use_is_left_alone_until_it_is_free() {
    let node = Node::start_default();
    let disk = Disk::blank(&node.folder().join("image"), 64 * MIB);
    let run = |program: &str, arguments: &[&str]| {
        assert!(node.inside(program).args(arguments).arg(&disk.device).status().unwrap().success(), "{program}");
    };
    run("mkfs.ext4", &["-q", "-F"]);
    node.manifest("pv.yaml", &local(&disk.device, ", fsType: xfs", ""));
    node.manifest("a.yaml", &claimed("a", "uid-a", None));
    node.wait_event(&["FailedMount", "default/a", "MountVolume.MountDevice", "ext4, not xfs"]);

    let elsewhere = node.folder().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    assert!(node.inside("mount").arg(&disk.device).arg(&elsewhere).status().unwrap().success());
    node.manifest("pv.yaml", &local(&disk.device, ", fsType: ext4", ""));
    node.wait_event(&["FailedMount", "default/a", "is in use on node test-node", "mounted at another path"]);
    assert_eq!(mounts(&node), Vec::<PathBuf>::new());
    assert!(node.inside("umount").arg(&elsewhere).status().unwrap().success());
    node.wait_mounted("default/a");
}

#[test]
fn what_no_tool_recognises_on_a_disk_is_never_formatted() {
    let node = Node::start_default();
    let disk = Disk::blank(&node.folder().join("image"), 64 * MIB);
    let raw = fs::OpenOptions::new().write(true).open(&disk.device).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&raw, b"SQLite format 3\0", 0).unwrap();
    raw.sync_all().unwrap();
    drop(raw);
    node.manifest("pv.yaml", &local(&disk.device, ", fsType: ext4", ""));
    node.manifest("a.yaml", &claimed("a", "uid-a", None));
    node.wait_event(&["FailedMount", "default/a", "data that no tool recognises", "blkdiscard --force --zeroout"]);
    assert!(fs::read(node.folder().join("image")).unwrap().starts_with(b"SQLite format 3\0"));
    // The way out that the pod's event names.
    let zero = node.inside("blkdiscard").args(["--force", "--zeroout"]).arg(&disk.device).status();
    assert!(zero.unwrap().success());
    node.wait_mounted("default/a");
    assert_all_goes(&node, &["a"]);
}

#[test]
fn a_device_is_handed_over_as_it_is_and_a_folder_is_not() {
    let node = Node::start_default();
    let disk = Disk::blank(&node.folder().join("image"), 16 * MIB);
    node.manifest("pv.yaml", &local(&disk.device, "", "  volumeMode: Block"));
    node.manifest("a.yaml", &device_pod("a", "uid-a", "pv-claim"));
    node.wait_mounted("default/a");
    let link = node.path(&node.root().join("pods/uid-a/volumeDevices").join(LOCAL).join("pv"));
    let device = fs::read_link(link).unwrap();
    assert_eq!(device, disk.device);
    assert!(fs::metadata(&device).unwrap().file_type().is_block_device());
    assert_all_goes(&node, &["a"]);
    assert!(eventually(|| !disk.is_in_use()), "nothing keeps it any more");
    drop(node);

    let node = Node::start_default();
    node.manifest("pv.yaml", &local(&node.folder().join("disk"), "", "  volumeMode: Block"));
    node.manifest("a.yaml", &device_pod("a", "uid-a", "pv-claim"));
    node.wait_event(&["FailedMapVolume", "default/a", "is a directory, and volumeMode Block needs a block device"]);
}

#[test]
fn a_file_system_grows_with_its_device_while_it_is_used() {
    let node = Node::start_default();
    let disk = Disk::blank(&node.folder().join("image"), 512 * MIB);
    // XFS, because ext4 grows only with CAP_SYS_RESOURCE, which root does not have in every
    // container.
    let of_size =
        |size: &str| local(&disk.device, ", fsType: xfs", "").replace("storage: 1Gi", &format!("storage: {size}"));
    node.manifest("pv.yaml", &of_size("512Mi"));
    node.manifest("a.yaml", &claimed("a", "uid-a", None));
    node.wait_mounted("default/a");
    fs::write(volume(&node, "uid-a").join("file"), "before").unwrap();
    let size = || {
        let found = rustix::fs::statvfs(volume(&node, "uid-a")).unwrap();
        found.f_blocks * found.f_frsize
    };
    assert!(size() < 512 * MIB);
    node.manifest("pv.yaml", &of_size("1000Mi"));
    node.wait_event(&["VolumeResizeFailed", "default/a", "enlarge the device first"]);
    disk.grow(1024 * MIB);
    node.wait_event(&["FileSystemResizeSuccessful", "default/a"]);
    assert!(size() > 700 * MIB, "{}", size());
    assert_eq!(fs::read_to_string(volume(&node, "uid-a").join("file")).unwrap(), "before");
}

#[test]
fn the_first_pods_group_counts_and_a_later_one_gets_an_event() {
    let node = Node::start_default();
    let folder = node.folder().join("disk");
    fs::write(folder.join("file"), "x").unwrap();
    node.manifest("pv.yaml", &local(&folder, "", ""));
    node.manifest("a.yaml", &claimed("a", "uid-a", Some(4321)));
    node.wait_mounted("default/a");
    let group = || fs::metadata(folder.join("file")).unwrap().gid();
    assert_eq!((group(), fs::metadata(&folder).unwrap().mode() & 0o2070), (4321, 0o2070));
    node.manifest("b.yaml", &claimed("b", "uid-b", Some(5678)));
    node.wait_event(&["AlreadyMountedVolume", "default/b", "The requested fsGroup is 5678", "has GID 4321"]);
    node.wait_mounted("default/b");
    assert_eq!(group(), 4321);
    node.manifest("c.yaml", &claimed("c", "uid-c", Some(4321)));
    node.wait_mounted("default/c");
    assert!(
        !node.ok(&["events"]).lines().any(|line| line.contains("AlreadyMountedVolume") && line.contains("default/c"))
    );
    for name in ["a", "b", "c"] {
        node.remove_manifest(&format!("{name}.yaml"));
        node.wait_unmounted(&format!("default/{name}"));
    }
    node.manifest("d.yaml", &claimed("d", "uid-d", Some(5678)));
    node.wait_mounted("default/d");
    assert_eq!(group(), 5678, "it is the only one now");
}

#[test]
fn mapped_groups_let_pods_share_a_volume_of_which_no_file_is_changed() {
    let node = Node::start_default();
    let folder = node.folder().join("disk");
    fs::write(folder.join("file"), "x").unwrap();
    std::os::unix::fs::chown(&folder, None, Some(700)).unwrap();
    std::os::unix::fs::chown(folder.join("file"), None, Some(700)).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o2770)).unwrap();
    let annotated =
        local(&folder, "", "").replace("{ name: pv }", "{ name: pv, annotations: { volhost.io/fs-group: map } }");
    node.manifest("pv.yaml", &annotated);
    node.manifest("a.yaml", &claimed("a", "uid-a", Some(4321)));
    node.manifest("b.yaml", &claimed("b", "uid-b", Some(5678)));
    node.wait_mounted("default/a");
    node.wait_mounted("default/b");
    for (uid, group) in [("uid-a", 4321), ("uid-b", 5678)] {
        let seen = fs::metadata(volume(&node, uid).join("file")).unwrap();
        assert_eq!(seen.gid(), group);
        fs::write(volume(&node, uid).join(uid), "made by the pod").unwrap();
        assert_eq!(fs::metadata(volume(&node, uid).join(uid)).unwrap().gid(), group, "by the folder's setgid");
    }
    let stored = |name: &str| fs::metadata(folder.join(name)).unwrap().gid();
    assert_eq!([stored("file"), stored("uid-a"), stored("uid-b")], [700; 3]);
    assert!(node.pod_mounts().iter().all(|mount| mount.options.iter().any(|option| option == "idmapped")));
    assert!(!node.ok(&["events"]).contains("AlreadyMountedVolume"));
}

#[test]
fn mounts_are_adopted_after_a_crash_with_and_without_records_and_all_are_unmounted_in_the_end() {
    let mut node = Node::start_default();
    let disk = Disk::blank(&node.folder().join("image"), 64 * MIB);
    let folders = [node.folder().join("disk/one"), node.folder().join("disk/two")];
    for (n, folder) in folders.iter().enumerate() {
        fs::create_dir(folder).unwrap();
        let name = ["one", "two"][n];
        let volume = local_volume(name, &folder.display().to_string(), "test-node");
        node.manifest(&format!("pv-{name}.yaml"), &volume);
        let claim = format!("name: data, persistentVolumeClaim: {{ claimName: {name}-claim }}");
        node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &[&claim]));
    }
    node.manifest("pv.yaml", &local(&disk.device, "", ""));
    node.manifest("a.yaml", &claimed("a", "uid-a", None));
    for name in ["one", "two", "a"] {
        node.wait_mounted(&format!("default/{name}"));
    }
    fs::write(volume(&node, "uid-a").join("file"), "stays").unwrap();
    fs::write(node.volume("uid-two", LOCAL, "two").join("file"), "two").unwrap();
    let before = node.all_mounts();
    node.kill();
    node.start();
    for name in ["one", "two", "a"] {
        node.wait_mounted(&format!("default/{name}"));
    }
    assert_eq!(node.all_mounts(), before);
    assert!(!node.ok(&["events"]).contains("SuccessfulMount"), "nothing was mounted again");

    node.kill();
    assert!(node.inside("umount").arg(node.root().join("state")).status().unwrap().success());
    node.start();
    for name in ["one", "two", "a"] {
        node.wait_mounted(&format!("default/{name}"));
    }
    assert_eq!(node.all_mounts().len(), before.len());
    assert_eq!(fs::read_to_string(volume(&node, "uid-a").join("file")).unwrap(), "stays");
    assert_eq!(fs::read_to_string(folders[1].join("file")).unwrap(), "two");
    assert!(fs::read_dir(&folders[0]).unwrap().next().is_none());
    assert_all_goes(&node, &["one", "two", "a"]);
    assert!(eventually(|| !disk.is_in_use()));
}

#[test]
fn a_folder_on_a_disk_of_the_nodes_own_goes_while_the_disk_stays_mounted() {
    let node = Node::start_default();
    let disk = Disk::blank(&node.folder().join("image"), 64 * MIB);
    let point = node.folder().join("disk");
    let done = |command: &mut std::process::Command| assert!(command.status().unwrap().success());
    done(node.inside("mkfs.ext4").args(["-q", "-F"]).arg(&disk.device));
    done(node.inside("mount").arg(&disk.device).arg(&point));
    node.manifest("pv.yaml", &local(&point, "", ""));
    node.manifest("a.yaml", &claimed("a", "uid-a", None));
    node.wait_mounted("default/a");
    assert_all_goes(&node, &["a"]);
    assert!(!node.ok(&["events"]).contains("FailedUnmountDevice"), "{}", node.ok(&["events"]));
    done(node.inside("umount").arg(&point));
}

#[test]
fn a_device_outside_the_grant_is_refused_though_its_path_is_granted() {
    let grant = "[grants.\"kubernetes.io/local-volume\"]\ninterfaces = [\"id-maps\"]\nhost-paths = [\"/\"]\nblock-devices = [\"$NODE\"]\n";
    let node = Node::builder().config(grant).start();
    let disk = Disk::blank(&node.folder().join("image"), 16 * MIB);
    let link = node.folder().join("disk/link");
    std::os::unix::fs::symlink(&disk.device, &link).unwrap();
    node.manifest("pv.yaml", &local(&link, "", ""));
    node.manifest("a.yaml", &claimed("a", "uid-a", None));
    node.wait_event(&["FailedMount", "default/a", "not within a folder that is granted"]);
    assert!(eventually(|| !disk.is_in_use()));
}

#[test]
fn a_walk_that_a_crash_cut_short_is_finished_by_the_next_start() {
    const FILES: usize = 40_000;
    /// Each ends one walk; nearly every one of them in the middle.
    const KILLS: u32 = 5;
    let mut node = Node::start_default();
    let folder = node.folder().join("disk");
    for file in 0..FILES {
        fs::write(folder.join(file.to_string()), b"").unwrap();
    }
    let not_of = |group: u32| {
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        files.filter(|file| file.gid() != group || file.mode() & 0o060 != 0o060).count()
    };
    node.manifest("pv.yaml", &local(&folder, "", ""));
    let mut cut_short = 0;
    for group in (0..KILLS).map(|kill| 5000 + kill) {
        let policy = format!("fsGroup: {group}, fsGroupChangePolicy: OnRootMismatch");
        let uid = format!("uid-{group}");
        let name = format!("p{group}");
        let manifest = claimed(&name, &uid, Some(group)).replace(&format!("fsGroup: {group}"), &policy);
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, &folder, inotify::WatchFlags::ATTRIB).unwrap();
        node.manifest("pod.yaml", &manifest);
        // The first file that is given: to look through all of them takes longer than the walk.
        inotify::Reader::new(watch, &mut [MaybeUninit::uninit(); 4096]).next().unwrap();
        node.kill();
        let left = not_of(group);
        cut_short += usize::from(left > 0);
        node.start();
        node.wait_mounted(&format!("default/{name}"));
        assert_eq!(not_of(group), 0, "{left} were left by the crash");
        node.remove_manifest("pod.yaml");
        node.wait_unmounted(&format!("default/{name}"));
    }
    assert!(cut_short > 0, "no kill came before the end of a walk: give the folder more files");
}
