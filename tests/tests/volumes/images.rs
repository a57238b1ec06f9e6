//! Volumes that are OCI images: made by podman, from an image layout and from a real registry, from
//! the manifest to the mount and back.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use volhost_tests::images::Podman;
use volhost_tests::manifests::pod;
use volhost_tests::registry::{PASSWORD, Registry, USER};
use volhost_tests::wait::eventually;
use volhost_tests::{Node, NodeBuilder, artifacts};

const IMAGE: &str = "kubernetes.io~image";

/// A node whose plugin may use every registry, and the layouts in `folder`.
fn node(folder: &Path) -> NodeBuilder {
    let config = format!(
        "[grants.\"kubernetes.io/image\"]\nimage-registries = [\"*\"]\nimage-layouts = [\"{}\"]\n",
        folder.display()
    );
    Node::builder().plugin(artifacts::plugin("image")).config(&config)
}

fn volume(reference: &str, policy: &str) -> String {
    let policy = if policy.is_empty() { String::new() } else { format!(", pullPolicy: {policy}") };
    format!("name: files, image: {{ reference: \"{reference}\"{policy} }}")
}

fn add(node: &Node, name: &str, reference: &str, policy: &str) {
    node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &[&volume(reference, policy)]));
}

fn up(node: &Node, name: &str, reference: &str, policy: &str) {
    add(node, name, reference, policy);
    node.wait_mounted(&format!("default/{name}"));
}

fn down(node: &Node, name: &str) {
    node.remove_manifest(&format!("{name}.yaml"));
    node.wait_unmounted(&format!("default/{name}"));
}

/// A file of a pod's volume.
fn file(node: &Node, name: &str, path: &str) -> PathBuf {
    node.volume(&format!("uid-{name}"), IMAGE, "files").join(path)
}

fn read(node: &Node, name: &str, path: &str) -> String {
    let path = file(node, name, path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names in a folder of the store.
fn stored(node: &Node, folder: &str) -> Vec<String> {
    let path = node.path(&node.root().join("images").join(folder));
    let entries = fs::read_dir(path).map(|entries| entries.map(|one| one.unwrap().file_name()).collect::<Vec<_>>());
    let mut names: Vec<String> =
        entries.unwrap_or_default().into_iter().map(|one| one.into_string().unwrap()).collect();
    names.sort();
    names
}

/// An image of two layers: the upper one changes a file, removes one, and replaces a folder.
fn application(podman: &Podman) {
    podman.image(
        "base",
        &[("kept", b"base"), ("changed", b"old"), ("gone", b"x"), ("folder/old", b"x"), ("run", b"#!/bin/sh\n")],
    );
    podman.changed("base", "app", |root| {
        fs::write(root.join("changed"), "new").unwrap();
        fs::remove_file(root.join("gone")).unwrap();
        fs::remove_dir_all(root.join("folder")).unwrap();
        fs::create_dir(root.join("folder")).unwrap();
        fs::write(root.join("folder/new"), "inside").unwrap();
        std::os::unix::fs::symlink("/etc/shadow", root.join("link")).unwrap();
        std::os::unix::fs::chown(root.join("changed"), Some(1234), Some(1235)).unwrap();
    });
}

fn assert_is_application(node: &Node, name: &str) {
    use std::os::unix::fs::MetadataExt;
    assert_eq!((read(node, name, "kept").as_str(), read(node, name, "changed").as_str()), ("base", "new"));
    assert_eq!(read(node, name, "folder/new"), "inside");
    for gone in ["gone", "folder/old"] {
        assert!(file(node, name, gone).symlink_metadata().is_err(), "{gone}");
    }
    let about = fs::metadata(file(node, name, "changed")).unwrap();
    assert_eq!((about.uid(), about.gid()), (1234, 1235));
    assert_eq!(fs::read_link(file(node, name, "link")).unwrap(), Path::new("/etc/shadow"));
}

#[test]
fn the_files_of_a_layouts_image_are_mounted_for_reading_alone() {
    let podman = Podman::new();
    application(&podman);
    let layout = podman.layout("app", "layout", "1.0");
    let mut node = node(podman.folder()).start();
    let reference = format!("oci:{}:1.0", layout.display());
    up(&node, "one", &reference, "");
    up(&node, "two", &reference, "");
    for name in ["one", "two"] {
        assert_is_application(&node, name);
        let written = fs::write(file(&node, name, "new"), "x").unwrap_err();
        assert_eq!(written.kind(), ErrorKind::ReadOnlyFilesystem);
    }
    for mount in node.pod_mounts() {
        for option in ["ro", "noexec", "nodev", "nosuid"] {
            assert!(mount.options.iter().any(|one| one == option), "{mount:?}");
        }
    }
    assert_eq!(stored(&node, "layers").len(), 2, "each layer is there once");
    assert!(stored(&node, "new").is_empty());
    let events = node.ok(&["events"]);
    assert!(events.contains("Pulling image") && events.contains("Successfully pulled image"), "{events}");
    assert!(events.contains("already present on machine"), "{events}");

    // What is mounted stays over a restart, without the layout.
    let before = node.pod_mounts();
    node.kill();
    fs::remove_dir_all(&layout).unwrap();
    node.start();
    node.wait_mounted("default/one");
    assert_eq!(node.pod_mounts(), before);
    down(&node, "one");
    up(&node, "three", &reference, "");
    assert_is_application(&node, "three");
    for name in ["two", "three"] {
        down(&node, name);
    }
    assert!(node.pod_mounts().is_empty());
}

/// The only file below a folder that has these bytes in it.
fn blob_with(layout: &Path, words: &str) -> PathBuf {
    let blobs = fs::read_dir(layout.join("blobs/sha256")).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> =
        blobs.filter(|path| String::from_utf8_lossy(&fs::read(path).unwrap()).contains(words)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn an_image_that_is_not_what_it_says_is_refused_with_the_reason() {
    let podman = Podman::new();
    podman.image("app", &[("file", b"content")]);
    let node = node(podman.folder()).start();
    let change = |name: &str, change: &dyn Fn(&Path), words: &[&str]| {
        let layout = podman.layout("app", name, "1");
        change(&layout);
        add(&node, name, &format!("oci:{}:1", layout.display()), "");
        let pod = format!("default/{name}");
        node.wait_event(&[&["Failed", pod.as_str()], words].concat());
    };
    let layer = |layout: &Path| {
        let manifest: serde_json::Value =
            serde_json::from_slice(&fs::read(blob_with(layout, "image.layer")).unwrap()).unwrap();
        let digest = manifest["layers"][0]["digest"].as_str().unwrap().to_owned();
        layout.join("blobs/sha256").join(digest.strip_prefix("sha256:").unwrap())
    };
    change(
        "changed",
        &|layout| {
            let path = layer(layout);
            let mut bytes = fs::read(&path).unwrap();
            bytes[20] ^= 1;
            fs::write(path, bytes).unwrap();
        },
        &["does not match its digest"],
    );
    change(
        "short",
        &|layout| {
            let path = layer(layout);
            let bytes = fs::read(&path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
        },
        &["in the manifest"],
    );
    change(
        "longer",
        &|layout| {
            let path = layer(layout);
            let bytes = fs::read(&path).unwrap();
            fs::write(path, [bytes, vec![0]].concat()).unwrap();
        },
        &["in the manifest"],
    );
    change("missing", &|layout| fs::remove_file(layer(layout)).unwrap(), &["No such file"]);
    change(
        "linked",
        &|layout| {
            let path = layer(layout);
            fs::rename(&path, layout.join("elsewhere")).unwrap();
            std::os::unix::fs::symlink(layout.join("elsewhere"), path).unwrap();
        },
        &["symbolic link"],
    );
    change(
        "manifest",
        &|layout| {
            let path = blob_with(layout, "image.layer");
            fs::write(&path, format!("{} ", fs::read_to_string(&path).unwrap())).unwrap();
        },
        &["the manifest", "does not match its digest"],
    );
    change("index", &|layout| fs::write(layout.join("index.json"), "{").unwrap(), &["index.json cannot be read"]);
    change(
        "tag",
        &|layout| {
            let path = layout.join("index.json");
            fs::write(&path, fs::read_to_string(&path).unwrap().replace("\"1\"", "\"2\"")).unwrap();
        },
        &["has no image 1; it has: 2"],
    );
    assert!(
        stored(&node, "layers").is_empty() && stored(&node, "images").is_empty() && stored(&node, "new").is_empty()
    );
    // A folder that is a link to one outside of the grant.
    std::os::unix::fs::symlink("/etc", podman.folder().join("outside")).unwrap();
    add(&node, "outside", &format!("oci:{}:1", podman.folder().join("outside").display()), "");
    node.wait_event(&["Failed", "default/outside", "image-layouts"]);
}

#[test]
fn of_several_platforms_the_nodes_own_is_taken_and_zstd_is_read() {
    let (podman, registry) = (Podman::new(), Registry::plain());
    podman.image("ours", &[("which", b"ours")]);
    podman.image("other", &[("which", b"other")]);
    let list = registry.reference("team/app:1");
    podman.run(&["manifest", "create", "list"]);
    podman.run(&["manifest", "add", "--arch", "s390x", "--os", "linux", "list", "containers-storage:localhost/other"]);
    podman.run(&["manifest", "add", "list", "containers-storage:localhost/ours"]);
    podman.run(&["manifest", "push", "--all", "--tls-verify=false", "list", &format!("docker://{list}")]);
    let zstd = registry.reference("team/zstd:1");
    podman.image("packed", &[("which", b"packed")]);
    podman.push("packed", &zstd, &["--format", "oci", "--compression-format", "zstd"]);
    let node = node(podman.folder()).start();
    for (name, reference, which) in [("list", &list, "ours"), ("zstd", &zstd, "packed")] {
        up(&node, name, reference, "");
        assert_eq!(read(&node, name, "which"), which, "{name}");
    }
    let is_zstd = |blob: &Vec<u8>| blob.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    assert_eq!(registry.blobs().iter().filter(|blob| is_zstd(blob)).count(), 1, "podman packed it so");
    let metrics = node.ok(&["metrics"]);
    assert!(metrics.contains("volhost_images 2"), "{metrics}");
}

#[test]
fn a_part_of_an_image_is_mounted_by_its_sub_path() {
    let podman = Podman::new();
    application(&podman);
    let layout = podman.layout("app", "layout", "1.0");
    let node = node(podman.folder()).start();
    let text = pod("one", "uid-one", &[&volume(&format!("oci:{}:1.0", layout.display()), "")]);
    let text = text.replace("mountPath: /files }", "mountPath: /files, subPath: folder }");
    assert!(text.contains("subPath"), "{text}");
    node.manifest("one.yaml", &text);
    node.wait_mounted("default/one");
    let part = node.path(&node.root().join("pods/uid-one/volume-subpaths/files/main/0/new"));
    assert_eq!(fs::read_to_string(part).unwrap(), "inside");
    down(&node, "one");
    assert!(node.all_mounts().iter().all(|mount| !mount.point.starts_with(node.root().join("pods"))));
}

#[test]
fn a_pull_policy_says_when_the_registry_is_asked() {
    let (podman, registry) = (Podman::new(), Registry::plain());
    podman.image("first", &[("which", b"first")]);
    podman.image("second", &[("which", b"second")]);
    let (tagged, latest) = (registry.reference("team/app:1"), registry.reference("team/app"));
    podman.push("first", &tagged, &[]);
    podman.push("first", &latest, &[]);
    let node = node(podman.folder()).start();
    up(&node, "a", &tagged, "");
    up(&node, "b", &latest, "");
    podman.push("second", &tagged, &[]);
    podman.push("second", &latest, &[]);
    up(&node, "c", &tagged, "");
    up(&node, "d", &latest, "");
    up(&node, "e", &latest, "Never");
    for (name, which) in [("a", "first"), ("b", "first"), ("c", "first"), ("d", "second"), ("e", "second")] {
        assert_eq!(read(&node, name, "which"), which, "{name}");
    }
    up(&node, "f", &tagged, "Always");
    assert_eq!(read(&node, "f", "which"), "second");
    add(&node, "g", &registry.reference("team/other:1"), "Never");
    node.wait_event(&["ErrImageNeverPull", "default/g", "is not present with pull policy of Never"]);
    add(&node, "h", &registry.reference("team/other:1"), "");
    node.wait_event(&["Failed", "default/h", "Failed to pull image", "has no manifests/1"]);

    // Without its registry, what the node has can be used.
    drop(registry);
    up(&node, "i", &tagged, "");
    add(&node, "j", &latest, "");
    node.wait_event(&["Failed", "default/j", "no connection to"]);
    let said = node.ok(&["describe", "pod", "default/j"]);
    assert!(said.contains("no connection to"), "{said}");
    assert_eq!(read(&node, "d", "which"), "second", "what is mounted is not affected");
}

fn secret(name: &str, namespace: &str, registry: &str, password: &str) -> String {
    let config = serde_json::json!({ "auths": { registry: { "username": USER, "password": password } } });
    let secret = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": { "name": name, "namespace": namespace }, "stringData": { ".dockerconfigjson": config.to_string() },
    });
    secret.to_string()
}

/// A pod in a namespace, with these pull secrets.
fn pod_in(name: &str, namespace: &str, reference: &str, secrets: &str) -> String {
    let text = pod(name, &format!("uid-{name}"), &[&volume(reference, "")]);
    let text = text.replace("metadata: { name", &format!("metadata: {{ namespace: {namespace}, name"));
    text.replace("spec:\n", &format!("spec:\n  imagePullSecrets: {secrets}\n"))
}

#[test]
fn a_registry_gets_the_login_of_the_pods_own_namespace_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (podman, registry) = (Podman::new(), Registry::protected());
    podman.image("app", &[("file", b"protected")]);
    let reference = registry.reference("team/app:1");
    podman.push("app", &reference, &["--creds", &format!("{USER}:{PASSWORD}")]);
    // The child that speaks to the registry has become nobody, and reads the authority itself.
    let authority = podman.folder().join("authority.pem");
    fs::copy(registry.authority(), &authority).unwrap();
    fs::set_permissions(&authority, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(podman.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let node = node(podman.folder()).variable("SSL_CERT_FILE", &authority).start();
    let host = registry.address().to_string();
    node.manifest("mine.yaml", &secret("mine", "team", &host, PASSWORD));
    node.manifest("wrong.yaml", &secret("wrong", "team", &host, "wrong horse"));

    node.manifest("none.yaml", &pod_in("none", "team", &reference, "[]"));
    node.wait_event(&["Failed", "team/none", "wants a login", "imagePullSecrets"]);
    node.manifest("bad.yaml", &pod_in("bad", "team", &reference, "[{ name: wrong }]"));
    node.wait_event(&["Failed", "team/bad"]);
    node.manifest("other.yaml", &pod_in("other", "elsewhere", &reference, "[{ name: mine }]"));
    node.wait_event(&["Failed", "elsewhere/other", "wants a login"]);

    node.manifest(
        "good.yaml",
        &pod_in("good", "team", &reference, "[{ name: missing }, { name: wrong }, { name: mine }]"),
    );
    node.wait_mounted("team/good");
    assert_eq!(read(&node, "good", "file"), "protected");
    // The node has the image now: for its namespace.
    node.manifest("again.yaml", &pod_in("again", "team", &reference, "[]"));
    node.wait_mounted("team/again");
    node.manifest("third.yaml", &pod_in("third", "elsewhere", &reference, "[]"));
    node.wait_event(&["Failed", "elsewhere/third", "wants a login"]);
    let said = format!("{}{}", node.log(), node.ok(&["events"]));
    assert!(!said.contains(PASSWORD) && !said.contains("wrong horse"), "{said}");
    assert!(said.contains("audit: secret team/mine was used"), "{said}");
}

/// Passes connections on to a registry, and holds back the answers after a number of bytes.
struct SlowRegistry {
    address: SocketAddr,
    gate: Arc<(Mutex<bool>, Condvar)>,
    /// Answers that were held back.
    held: Arc<AtomicUsize>,
}

impl SlowRegistry {
    fn before(registry: SocketAddr, after: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let held = Arc::<AtomicUsize>::default();
        let (of_thread, counted) = (Arc::clone(&gate), Arc::clone(&held));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(registry).unwrap());
                let (gate, held) = (Arc::clone(&of_thread), Arc::clone(&counted));
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                std::thread::spawn(move || hold_back(server, client, after, &gate, &held));
            }
        });
        Self { address, gate, held }
    }

    fn wait_held(&self) {
        assert!(eventually(|| self.held.load(Ordering::SeqCst) > 0), "nothing is pulled");
    }

    fn release(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }
}

fn hold_back(mut from: TcpStream, mut to: TcpStream, after: usize, gate: &(Mutex<bool>, Condvar), held: &AtomicUsize) {
    let (mut piece, mut sent) = (vec![0; 16 << 10], 0);
    while let Ok(count @ 1..) = from.read(&mut piece) {
        if sent > after {
            held.fetch_add(1, Ordering::SeqCst);
            drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap());
        }
        sent += count;
        if to.write_all(&piece[..count]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Bytes that do not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut content).unwrap();
    content
}

#[test]
fn a_pull_is_shared_and_one_that_is_killed_leaves_nothing_that_counts() {
    let (podman, registry) = (Podman::new(), Registry::plain());
    podman.image("app", &[("file", &noise(4 << 20))]);
    podman.push("app", &registry.reference("team/app:1"), &[]);
    let slow = SlowRegistry::before(registry.address(), 1 << 20);
    let reference = format!("{}/team/app:1", slow.address);
    let mut node = node(podman.folder()).start();
    add(&node, "one", &reference, "");
    slow.wait_held();
    add(&node, "two", &reference, "");
    node.wait_event(&["Pulling", "default/two"]);
    let described = || node.ok(&["describe", "pod", "default/one"]);
    assert!(eventually(|| described().contains("layer 1 of 1: ")), "{}", described());
    node.kill();
    node.start();
    assert!(stored(&node, "layers").is_empty() && stored(&node, "images").is_empty());
    slow.release();
    for name in ["one", "two"] {
        node.wait_mounted(&format!("default/{name}"));
        assert_eq!(fs::metadata(file(&node, name, "file")).unwrap().len(), 4 << 20);
    }
    assert!(stored(&node, "new").is_empty(), "{:?}", stored(&node, "new"));
    assert_eq!(stored(&node, "layers").len(), 1);
    // A pod that is deleted while its image is pulled does not wait for it.
    let stuck = SlowRegistry::before(registry.address(), 1 << 20);
    podman.image("more", &[("file", &noise(4 << 20))]);
    podman.push("more", &registry.reference("team/more:1"), &[]);
    add(&node, "three", &format!("{}/team/more:1", stuck.address), "");
    stuck.wait_held();
    down(&node, "three");
    assert!(eventually(|| stored(&node, "new").is_empty()), "{:?}", stored(&node, "new"));
    stuck.release();
}

#[test]
fn images_that_nothing_uses_make_room_and_those_in_use_never() {
    let podman = Podman::new();
    let mut references = Vec::new();
    for name in ["a", "b", "c", "d"] {
        podman.image(name, &[("file", &noise(12 << 20))]);
        references.push(format!("oci:{}:1", podman.layout(name, name, "1").display()));
    }
    // Room for three images and the blob of one of them.
    let node = node(podman.folder()).prepare("mount -t tmpfs -o size=56m none $NODE/root").start();
    up(&node, "a", &references[0], "");
    up(&node, "b", &references[1], "");
    down(&node, "b");
    let before = stored(&node, "layers");
    assert_eq!(before.len(), 2);
    up(&node, "c", &references[2], "");
    up(&node, "d", &references[3], "Always");
    for name in ["a", "c", "d"] {
        assert_eq!(fs::read(file(&node, name, "file")).unwrap().len(), 12 << 20);
    }
    // `b` was the one that nothing used.
    assert_eq!(stored(&node, "images").len(), 3);
    // No image can go: the pod waits, with the reason, and the others keep theirs.
    add(&node, "b", &references[1], "");
    node.wait_event(&["Failed", "default/b", "No space left on device"]);
    assert!(stored(&node, "new").is_empty(), "{:?}", stored(&node, "new"));
    down(&node, "d");
    node.wait_mounted("default/b");
    assert_eq!(fs::read(file(&node, "a", "file")).unwrap().len(), 12 << 20);
}
