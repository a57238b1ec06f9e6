//! Volumes of many pods that share bytes: overlays over a base, and file systems in image files,
//! from the manifest to the mount and back. Nothing may be left, and no base and no image may
//! change.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use volhost_tests::manifests::pod;
use volhost_tests::{Node, artifacts};

const OVERLAY: &str = "volhost.io~overlay";
const IMAGE: &str = "volhost.io~image-file";
const GRANTS: &str = "[grants.\"volhost.io/overlay\"]\ninterfaces = [\"overlays\", \"pod-volumes\"]\nhost-paths = [\"$NODE/disk\"]\n\
                      [grants.\"volhost.io/image-file\"]\ninterfaces = [\"id-maps\"]\nimage-files = [\"$NODE/disk\"]\n";

fn start() -> Node {
    let node = Node::builder()
        .plugin(artifacts::plugin("overlay"))
        .plugin(artifacts::plugin("image-file"))
        .config(GRANTS)
        .start();
    let base = node.folder().join("disk/base");
    fs::create_dir_all(base.join("sub")).unwrap();
    fs::write(base.join("model"), "gigabytes").unwrap();
    fs::write(base.join("sub/part"), "part").unwrap();
    fs::set_permissions(base.join("model"), fs::Permissions::from_mode(0o600)).unwrap();
    node
}

/// A volume `data` over `disk/base`, with further attributes.
fn overlay(node: &Node, more: &str) -> String {
    overlay_of(&node.folder().join("disk/base").display().to_string(), more)
}

fn overlay_of(base: &str, more: &str) -> String {
    format!("name: data, csi: {{ driver: overlay.volhost.io, volumeAttributes: {{ base: \"{base}\"{more} }} }}")
}

fn image(fs_type: &str, image: &str) -> String {
    format!(
        "name: data, csi: {{ driver: image-file.volhost.io, fsType: {fs_type}, volumeAttributes: {{ image: \"{image}\" }} }}"
    )
}

fn add(node: &Node, name: &str, volume: &str) {
    node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &[volume]));
}

fn up(node: &Node, name: &str, volume: &str) {
    add(node, name, volume);
    node.wait_mounted(&format!("default/{name}"));
}

fn down(node: &Node, name: &str) {
    node.remove_manifest(&format!("{name}.yaml"));
    node.wait_unmounted(&format!("default/{name}"));
}

fn data(node: &Node, name: &str, file: &str) -> PathBuf {
    node.volume(&format!("uid-{name}"), OVERLAY, "data").join(file)
}

/// Where a pod's tops are, as seen from the test.
fn tops(node: &Node, name: &str) -> PathBuf {
    node.path(&node.root().join("pods").join(format!("uid-{name}")).join("plugins"))
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("{}: {error}", path.display()))
}

/// What a base looks like: every path with its owner, mode and content.
fn picture(folder: &Path) -> Vec<(PathBuf, u32, u32, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::metadata(&path).unwrap();
        let content = if about.is_dir() { String::new() } else { text(&path) };
        all.push((path.clone(), about.gid(), about.mode(), content));
        if about.is_dir() {
            all.extend(picture(&path));
        }
    }
    all.sort();
    all
}

fn run(node: &Node, script: &str) {
    let done = node.inside("sh").args(["-euc", script]).env("NODE", node.folder()).status().unwrap();
    assert!(done.success(), "{script}");
}

/// What `wait` says of a pod whose volume can't be mounted.
fn refused(node: &Node, name: &str, volume: &str) -> String {
    add(node, name, volume);
    node.wait_event(&["Warning", &format!("default/{name}")]);
    let said = node.fails(&["wait", "pod", &format!("default/{name}"), "--timeout", "10ms"]);
    assert!(!node.pod_mounts().iter().any(|mount| mount.point.to_string_lossy().contains(&format!("uid-{name}/"))));
    said
}

/// Takes every pod away, and waits until nothing of them is left.
fn assert_nothing_is_left(node: &Node) {
    for entry in fs::read_dir(node.folder().join("manifests")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    node.ok(&["drain"]);
    let root = node.path(&node.root());
    let left = || -> Vec<PathBuf> {
        let folders = ["pods", "plugins", "state/devices", "state/pods"].map(|folder| root.join(folder));
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    // The folders of a pod go a moment after its volumes.
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until && (!left().is_empty() || loops(node) > 0) {
        std::thread::yield_now();
    }
    assert_eq!(left(), Vec::<PathBuf>::new(), "{}", node.log());
    assert_eq!(loops(node), 0);
}

/// How many loop devices there are over files of the node.
fn loops(node: &Node) -> usize {
    let list = Command::new("losetup").args(["-l", "-n", "-O", "BACK-FILE"]).output().unwrap();
    let folder = node.folder().display().to_string();
    String::from_utf8(list.stdout).unwrap().lines().filter(|line| line.starts_with(&folder)).count()
}

#[test]
fn many_pods_share_a_base_and_each_has_a_top_of_its_own() {
    let node = start();
    let base = node.folder().join("disk/base");
    let over = node.folder().join("disk/over");
    fs::create_dir(&over).unwrap();
    fs::write(over.join("patch"), "patched").unwrap();
    let before = picture(&base);
    up(&node, "a", &overlay(&node, ""));
    up(&node, "b", &overlay(&node, ", top: memory, topSize: 8Mi"));
    up(&node, "c", &overlay_of(&format!("{}:{}", over.display(), base.display()), ""));
    for name in ["a", "b", "c"] {
        assert_eq!(text(&data(&node, name, "model")), "gigabytes");
        fs::write(data(&node, name, "model"), name).unwrap();
        fs::write(data(&node, name, "new"), name).unwrap();
        fs::remove_file(data(&node, name, "sub/part")).unwrap();
    }
    for name in ["a", "b", "c"] {
        assert_eq!((text(&data(&node, name, "model")), text(&data(&node, name, "new"))), (name.into(), name.into()));
        assert!(!data(&node, name, "sub/part").exists());
    }
    assert_eq!(text(&data(&node, "c", "patch")), "patched");
    assert!(!data(&node, "a", "patch").exists());
    assert_eq!(fs::write(data(&node, "b", "large"), vec![1; 16 << 20]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(tops(&node, "a").exists() && !tops(&node, "b").exists(), "memory needs no folder");
    assert_eq!(picture(&base), before);
    for name in ["a", "b", "c"] {
        down(&node, name);
        assert!(!tops(&node, name).join(OVERLAY).join("data").exists(), "the top goes with its pod");
    }
    assert_eq!(picture(&base), before);
    assert_nothing_is_left(&node);
}

#[test]
fn a_top_survives_the_daemon_and_the_machine_and_goes_with_its_pod() {
    let mut node = start();
    up(&node, "a", &overlay(&node, ""));
    fs::write(data(&node, "a", "mine"), "mine").unwrap();
    let before = node.all_mounts();
    node.kill();
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(node.all_mounts(), before);
    assert!(!node.ok(&["events"]).contains("SuccessfulMount"), "nothing was mounted again");

    // The machine starts anew: no mounts, no records, and what is on disk.
    node.kill();
    run(
        &node,
        "umount $NODE/root/pods/uid-a/volumes/volhost.io~overlay/data; umount $NODE/root/state; umount $NODE/root",
    );
    node.start();
    node.wait_mounted("default/a");
    assert_eq!(
        (text(&data(&node, "a", "mine")), text(&data(&node, "a", "model"))),
        ("mine".into(), "gigabytes".into())
    );

    // Killed in the middle of the unpublish: the mount has gone, its folder too, and the top has
    // not.
    node.kill();
    let volumes = "$NODE/root/pods/uid-a/volumes";
    run(&node, &format!("umount {volumes}/volhost.io~overlay/data; rm -r --one-file-system {volumes}"));
    node.remove_manifest("a.yaml");
    assert!(node.folder().join("root/pods/uid-a/plugins/volhost.io~overlay/data").exists());
    node.start();
    node.wait_event(&["SuccessfulUnmount", "data"]);
    assert_nothing_is_left(&node);
    assert!(!node.folder().join("root/pods/uid-a").exists());
}

#[test]
fn a_kept_top_is_shared_and_outlives_its_pods() {
    let mut node = start();
    let top = node.folder().join("disk/top");
    let kept = overlay(&node, &format!(", top: \"{}\"", top.display()));
    up(&node, "a", &kept);
    up(&node, "b", &kept);
    fs::write(data(&node, "a", "note"), "from a").unwrap();
    assert_eq!(text(&data(&node, "b", "note")), "from a");
    let on_node = |node: &Node| {
        let plugins = node.root().join("plugins");
        node.all_mounts().iter().filter(|mount| mount.point.starts_with(&plugins)).count()
    };
    assert_eq!(on_node(&node), 1);

    let other = node.folder().join("disk/other");
    fs::create_dir(&other).unwrap();
    let other = overlay_of(&other.display().to_string(), &format!(", top: \"{}\"", top.display()));
    let said = refused(&node, "c", &other);
    assert!(said.contains("csi.volumeAttributes.top") && said.contains("in use by another overlay"), "{said}");

    node.kill();
    node.start();
    node.wait_mounted("default/a");
    for name in ["a", "b", "c"] {
        node.remove_manifest(&format!("{name}.yaml"));
    }
    node.wait_unmounted("default/a");
    node.wait_unmounted("default/b");
    node.ok(&["drain"]);
    assert_eq!(on_node(&node), 0);
    assert_eq!(text(&top.join("upper/note")), "from a");

    node.terminate();
    node.start();
    let said = refused(&node, "c", &other);
    assert!(said.contains("made over other folders"), "{said}");
    up(&node, "d", &kept);
    assert_eq!(text(&data(&node, "d", "note")), "from a");
    node.remove_manifest("c.yaml");
    assert_nothing_is_left(&node);
}

#[test]
fn a_group_gets_its_own_view_and_the_base_keeps_its_owner() {
    let node = start();
    let base = node.folder().join("disk/base");
    let before = picture(&base);
    let large = vec![7; 4 << 20];
    fs::write(base.join("large"), &large).unwrap();
    for (name, group) in [("a", 2000), ("b", 3000)] {
        let manifest = pod(name, &format!("uid-{name}"), &[&overlay(&node, "")])
            .replace("spec:\n", &format!("spec:\n  securityContext: {{ fsGroup: {group} }}\n"));
        node.manifest(&format!("{name}.yaml"), &manifest);
        node.wait_mounted(&format!("default/{name}"));
        let model = fs::metadata(data(&node, name, "model")).unwrap();
        assert_eq!((model.gid(), model.mode() & 0o777), (group, 0o660));
        assert_eq!(fs::read(data(&node, name, "large")).unwrap(), large);
        let copy = tops(&node, name).join("volhost.io~overlay/data/upper/large");
        assert!(fs::metadata(copy).unwrap().blocks() * 512 < 64 << 10, "no content was copied");
    }
    fs::remove_file(base.join("large")).unwrap();
    assert_eq!(picture(&base), before);
}

#[test]
fn a_read_only_overlay_shows_the_base_and_refuses_writes() {
    let node = start();
    fs::create_dir(node.folder().join("disk/over")).unwrap();
    for (name, base) in [("a", "$B"), ("b", "$O:$B")] {
        let disk = node.folder().join("disk").display().to_string();
        let base = base.replace("$B", &format!("{disk}/base")).replace("$O", &format!("{disk}/over"));
        up(&node, name, &overlay_of(&base, "").replace("csi: {", "csi: { readOnly: true,"));
        assert_eq!(text(&data(&node, name, "model")), "gigabytes");
        let error = fs::write(data(&node, name, "new"), "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
        assert!(!tops(&node, name).exists());
    }
    assert_nothing_is_left(&node);
}

#[test]
fn an_impossible_base_or_top_is_reported_and_nothing_is_made() {
    let node = start();
    let disk = node.folder().join("disk");
    fs::write(disk.join("file"), "x").unwrap();
    symlink("/etc", disk.join("out")).unwrap();
    let path = |name: &str| disk.join(name).display().to_string();
    let top = |top: &str| overlay(&node, &format!(", top: \"{top}\""));
    for (name, volume, said) in [
        ("outside", overlay_of("/etc", ""), "not within a folder that is granted"),
        ("link", overlay_of(&path("out"), ""), "not within a folder that is granted"),
        ("file", overlay_of(&path("file"), ""), "must be a directory"),
        ("up", overlay_of(&path("base/../../.."), ""), "csi.volumeAttributes.base"),
        ("same", top(&path("base")), "csi.volumeAttributes.top"),
        ("inside", top(&path("base/sub")), "csi.volumeAttributes.top"),
        ("topfile", top(&path("file")), "csi.volumeAttributes.top"),
        ("topout", top("/var/tmp/nobodys-top"), "not within a folder that is granted"),
        ("toplink", top(&path("out/x")), "not within a folder that is granted"),
        ("nested", overlay_of(&format!("{}:{}", path("base"), path("base/sub")), ""), "one lies in another"),
    ] {
        let said_really = refused(&node, name, &volume);
        assert!(said_really.contains(said), "{name}: {said_really}");
        assert!(!Path::new("/var/tmp/nobodys-top").exists() && !Path::new("/etc/x").exists());
    }
    // A disk that comes later.
    let said = refused(&node, "late", &overlay_of(&path("late"), ""));
    assert!(said.contains("does not exist on node test-node"), "{said}");
    fs::create_dir(disk.join("late")).unwrap();
    node.wait_mounted("default/late");
    assert_eq!(node.pod_mounts().len(), 1);
    for name in ["outside", "link", "file", "topfile", "nested"] {
        let upper = tops(&node, name).join(OVERLAY).join("data/upper/new");
        assert!(!upper.exists() && !data(&node, name, "").exists(), "{name}");
    }
}

/// Packs `disk/base` by the type's own tool.
fn pack(node: &Node, fs_type: &str, name: &str) -> PathBuf {
    let image = node.folder().join("disk").join(name);
    let base = node.folder().join("disk/base");
    let (tool, arguments) = match fs_type {
        "erofs" => ("mkfs.erofs", vec![image.as_path(), base.as_path()]),
        "squashfs" => {
            ("mksquashfs", vec![base.as_path(), image.as_path(), Path::new("-quiet"), Path::new("-no-progress")])
        }
        _ => ("mkfs.ext4", vec![Path::new("-qd"), base.as_path(), image.as_path(), Path::new("16M")]),
    };
    let packed = Command::new(tool).args(arguments).output().expect("the tool is installed");
    assert!(packed.status.success(), "{tool}: {}", String::from_utf8_lossy(&packed.stderr));
    image
}

fn shown(node: &Node, name: &str) -> String {
    text(&node.volume(&format!("uid-{name}"), IMAGE, "data").join("model"))
}

#[test]
fn images_of_every_type_are_shared_by_pods_and_leave_nothing() {
    for fs_type in ["erofs", "squashfs", "ext4"] {
        let node = start();
        let file = pack(&node, fs_type, fs_type);
        let before = fs::read(&file).unwrap();
        up(&node, "a", &image(fs_type, fs_type));
        up(&node, "b", &image(fs_type, &file.display().to_string()));
        assert_eq!((shown(&node, "a").as_str(), shown(&node, "b").as_str()), ("gigabytes", "gigabytes"));
        assert_eq!(loops(&node), 1, "one mount for both");
        for mount in node.pod_mounts() {
            assert_eq!(mount.fs_type, fs_type);
            for option in ["ro", "nodev", "nosuid"] {
                assert!(mount.options.iter().any(|set| set == option), "{mount:?}");
            }
        }
        down(&node, "a");
        assert_eq!(shown(&node, "b"), "gigabytes");
        down(&node, "b");
        assert_nothing_is_left(&node);
        assert_eq!(fs::read(&file).unwrap(), before, "not a byte was written");
    }
}

#[test]
fn a_read_only_image_is_shown_to_each_pods_group_where_its_owner_wants_it() {
    for fs_type in ["erofs", "ext4"] {
        let node = start();
        pack(&node, fs_type, "image");
        let volume = format!(
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: pv, annotations: {{ volhost.io/fs-group: map }} }}\nspec:\n  \
             capacity: {{ storage: 1Gi }}\n  accessModes: [ReadOnlyMany]\n  csi: {{ driver: image-file.volhost.io, volumeHandle: image, fsType: {fs_type}, \
             volumeAttributes: {{ image: image }} }}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{ name: claim }}\nspec:\n  \
             accessModes: [ReadOnlyMany]\n  resources: {{ requests: {{ storage: 1Gi }} }}\n  volumeName: pv\n"
        );
        node.manifest("pv.yaml", &volume);
        for (name, group) in [("a", 2000), ("b", 3000)] {
            let claimed =
                pod(name, &format!("uid-{name}"), &["name: data, persistentVolumeClaim: { claimName: claim }"]);
            let context = format!("spec:\n  securityContext: {{ fsGroup: {group} }}\n");
            node.manifest(&format!("{name}.yaml"), &claimed.replacen("spec:\n", &context, 1));
            node.wait_mounted(&format!("default/{name}"));
            let model = node.volume(&format!("uid-{name}"), IMAGE, "pv").join("model");
            assert_eq!((fs::metadata(&model).unwrap().gid(), text(&model).as_str()), (group, "gigabytes"), "{fs_type}");
        }
        assert_nothing_is_left(&node);
    }
}

#[test]
fn a_replaced_or_removed_image_stays_what_it_was_for_its_pods() {
    let mut node = start();
    let file = pack(&node, "squashfs", "app");
    up(&node, "a", &image("squashfs", "app"));
    fs::write(node.folder().join("disk/base/model"), "newer").unwrap();
    fs::rename(pack(&node, "squashfs", "next"), &file).unwrap();
    up(&node, "b", &image("squashfs", "app"));
    assert_eq!((shown(&node, "a").as_str(), shown(&node, "b").as_str()), ("gigabytes", "gigabytes"));
    node.kill();
    node.start();
    node.wait_mounted("default/a");
    down(&node, "a");
    down(&node, "b");
    up(&node, "c", &image("squashfs", "app"));
    assert_eq!(shown(&node, "c"), "newer");
    fs::remove_file(&file).unwrap();
    assert_eq!(shown(&node, "c"), "newer");
    node.kill();
    node.start();
    node.wait_mounted("default/c");
    down(&node, "c");
    assert_nothing_is_left(&node);
}

#[test]
fn a_file_that_is_no_image_is_reported_and_a_good_one_is_used_when_it_comes() {
    let node = start();
    let disk = node.folder().join("disk");
    // Random enough not to be packed away, so that half an image lacks something.
    let noise: Vec<u8> = (0..50_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(disk.join("base/noise"), noise).unwrap();
    let good = pack(&node, "squashfs", "good");
    let whole = fs::read(&good).unwrap();
    fs::write(disk.join("cut"), &whole[..whole.len() / 2]).unwrap();
    fs::write(disk.join("empty"), "").unwrap();
    fs::write(disk.join("noise"), vec![0x5a; 1 << 20]).unwrap();
    symlink("/etc/passwd", disk.join("out")).unwrap();
    for (name, volume, said) in [
        ("other", image("erofs", "good"), "contains a file system (squashfs), not an image of type erofs"),
        ("empty", image("erofs", "empty"), "contains nothing"),
        ("noise", image("ext4", "noise"), "contains data that no tool recognises"),
        ("folder", image("ext4", "base"), "expected file, found directory"),
        ("out", image("ext4", "out"), "not within a folder that is granted"),
        ("outside", image("ext4", "/etc/passwd"), "not within a folder that is granted"),
        ("up", image("ext4", "../../../etc/passwd"), "csi.volumeAttributes.image"),
        ("type", image("ntfs", "good"), "csi.fsType"),
        ("write", image("erofs", "good").replace("fsType", "readOnly: false, fsType"), "csi.readOnly"),
    ] {
        let said_really = refused(&node, name, &volume);
        assert!(said_really.contains(said), "{name}: {said_really}");
    }
    let said = refused(&node, "cut", &image("squashfs", "cut"));
    assert!(said.contains("damaged or cut short"), "{said}");
    fs::rename(&good, disk.join("cut")).unwrap();
    node.wait_mounted("default/cut");
    assert_eq!(shown(&node, "cut"), "gigabytes");
    assert_eq!(loops(&node), 1, "those that failed left none");
    assert_nothing_is_left(&node);
}

/// Puts the manifests of `examples/KIND` in place on a node whose `/var/lib` has what they speak
/// of.
fn example(kind: &str, grants: &str) -> Node {
    let node = Node::builder()
        .plugin(artifacts::plugin("overlay"))
        .plugin(artifacts::plugin("image-file"))
        .config(grants)
        .prepare(
            "mount -t tmpfs lib /var/lib; mkdir -p /var/lib/volhost-overlay/models /var/lib/volhost-images; \
             echo weights > /var/lib/volhost-overlay/models/model.bin; \
             mksquashfs /var/lib/volhost-overlay/models /var/lib/volhost-images/program.squashfs -quiet -no-progress",
        )
        .start();
    for entry in fs::read_dir(artifacts::workspace().join("examples").join(kind)).unwrap() {
        let path = entry.unwrap().path();
        node.manifest(path.file_name().unwrap().to_str().unwrap(), &fs::read_to_string(&path).unwrap());
    }
    node
}

#[test]
fn the_examples_run_as_they_are() {
    let node = example("overlay", "");
    for pod in ["overlay-writer", "overlay-in-memory", "overlay-kept", "overlay-reader", "overlay-over-image"] {
        node.wait_mounted(&format!("default/{pod}"));
    }
    let node = example("image-file", "");
    for pod in ["image-first", "image-second"] {
        node.wait_mounted(&format!("default/{pod}"));
    }
    for mount in node.pod_mounts() {
        assert_eq!(text(&node.path(&mount.point).join("model.bin")), "weights\n");
    }
    node.ok(&["drain"]);
    assert!(node.pod_mounts().is_empty());
}

#[test]
fn without_any_one_of_its_grants_an_example_does_not_run() {
    let overlay = "[grants.\"volhost.io/overlay\"]\n";
    for (kind, pod, grants, said) in [
        ("overlay", "overlay-reader", format!("{overlay}host-paths = [\"/var/lib\"]"), "no loaded plugin serves"),
        (
            "overlay",
            "overlay-reader",
            format!("{overlay}interfaces = [\"overlays\", \"pod-volumes\"]"),
            "no loaded plugin serves",
        ),
        (
            "overlay",
            "overlay-reader",
            format!("{overlay}interfaces = [\"overlays\", \"pod-volumes\"]\nhost-paths = [\"/srv\"]"),
            "not within a folder that is granted",
        ),
        ("image-file", "image-first", "[grants.\"volhost.io/image-file\"]".to_owned(), "no loaded plugin serves"),
        (
            "image-file",
            "image-first",
            "[grants.\"volhost.io/image-file\"]\ninterfaces = [\"id-maps\"]\nimage-files = [\"/srv\"]".to_owned(),
            "/srv/program.squashfs",
        ),
    ] {
        let node = example(kind, &grants);
        node.wait_event(&["Warning", &format!("default/{pod}")]);
        let really = node.fails(&["wait", "pod", &format!("default/{pod}"), "--timeout", "10ms"]);
        assert!(really.contains(said), "{grants}: {really}");
    }
}
