//! What `make deb` and `make install` make: installed into a Debian root on which volhost never
//! was, and started there as the unit starts it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod containers;
mod fresh_root;
mod install;
mod notices;
mod unit;

use std::path::Path;
use std::process::Command;

use volhost_tests::artifacts::{self, workspace};

use fresh_root::FreshRoot;

const POD: &str = "apiVersion: v1
kind: Pod
metadata: { name: first, uid: 11111111-1111-4111-8111-111111111111 }
spec:
  containers:
    - { name: main, image: none, volumeMounts: [{ name: scratch, mountPath: /scratch }] }
  volumes: [{ name: scratch, emptyDir: { medium: Memory, sizeLimit: 16Mi } }]
";
const VOLUME: &str =
    "/var/lib/volhost/pods/11111111-1111-4111-8111-111111111111/volumes/kubernetes.io~empty-dir/scratch";

/// Runs a command that must succeed, and returns its output.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Makes the package of the build under test, with plugins signed by this key, if there is one, and
/// returns its path.
fn package(folder: &Path, signing_key: Option<&Path>) -> String {
    let mut make = Command::new(workspace().join("deploy/deb.sh"));
    make.envs(signing_key.map(|key| ("SIGNING_KEY", key)));
    make.arg("--from").arg(artifacts::volhost().parent().unwrap()).arg("--out").arg(folder).arg("--fast");
    succeeds(&mut make).trim().to_owned()
}

#[test]
fn the_package_is_clean_and_its_unit_mounts_a_pod_on_a_fresh_debian() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("release");
    succeeds(Command::new(artifacts::volhost()).args(["plugin", "key", "new", "-W"]).arg(&key));
    let package = package(folder.path(), Some(&key.with_extension("key")));
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", &package]);
    // Nothing of it is in the package.
    lintian.env("TMPDIR", folder.path());
    assert_eq!(succeeds(&mut lintian), "", "lintian finds nothing");

    let root = FreshRoot::new();
    root.put(Path::new(&package), "/tmp/volhost.deb");
    root.run(&["dpkg", "--no-triggers", "--install", "/tmp/volhost.deb"]);
    assert_eq!(root.run(&["systemctl", "is-enabled", "volhost"]).trim(), "enabled");
    let verified = [
        "systemd-analyze",
        "verify",
        "--man=no",
        "volhost.service",
        "volhost-docker.service",
        "volhost-node-agent.service",
        "volhost-volume@data.service",
    ];
    assert_eq!(root.run(&verified), "");
    root.run(&["volhost", "version", "--client"]);
    let notices = folder.path().join("notices");
    succeeds(Command::new(workspace().join("deploy/notices.sh")).arg(&notices));
    for file in ["third-party-notices.txt", "rust-standard-library.html"] {
        let of_package = root.read(&format!("/usr/share/doc/volhost/{file}"));
        assert!(of_package == std::fs::read_to_string(notices.join(file)).unwrap(), "{file}");
    }

    // A member of the socket's group, and another user.
    root.run(&["groupadd", "--system", "volhost-users"]);
    let config = root
        .read("/etc/volhost/config.toml")
        .replace("#socket-group = \"volhost\"", "socket-group = \"volhost-users\"");
    root.write("/etc/volhost/config.toml", &config);

    let service = unit::Service::start(&root, "/lib/systemd/system/volhost.service");
    root.write("/etc/volhost/manifests/first.yaml", POD);
    root.run(&["volhost", "wait", "pod", "default/first"]);
    assert_eq!(root.run(&["findmnt", "-n", "-o", "FSTYPE", VOLUME]).trim(), "tmpfs");
    service.wait_plugins();
    let plugins = root.run(&["volhost", "get", "plugins"]);
    let listed = std::fs::read_to_string(artifacts::shipped_list()).unwrap();
    assert_eq!(plugins.lines().skip(1).count(), listed.lines().count(), "{plugins}");
    assert_eq!(
        root.read("/etc/volhost/trusted-keys/volhost.pub"),
        std::fs::read_to_string(key.with_extension("pub")).unwrap()
    );
    a_tampered_plugin_is_not_loaded(&root, &listed);
    let as_user = |groups: &[&str]| {
        let mut command = root.command("setpriv");
        command.args(["--reuid=daemon", "--regid=daemon"]).args(groups).args(["volhost", "get", "pods"]);
        command
    };
    assert!(succeeds(&mut as_user(&["--groups=volhost-users"])).contains("first"));
    let refused = as_user(&["--clear-groups"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    // The shipped configuration provisions, and `loop` has a grant.
    root.run(&["volhost", "volume", "create", "data", "-o", "plugin=loop", "-o", "size=32Mi"]);
    let images = root.run(&["find", "/var/lib/volhost-loop", "-type", "f", "-printf", "%m\n"]);
    assert_eq!(images, "600\n", "others may not read an image");
    root.run(&["volhost", "volume", "rm", "data"]);
    root.run(&["volhost", "drain"]);
    service.stop();

    root.write("/var/lib/volhost/kept", "data");
    root.run(&["dpkg", "--no-triggers", "--purge", "volhost"]);
    for gone in ["/usr/bin/volhostd", "/etc/volhost/config.toml", "/usr/lib/volhost", "/var/cache/volhost"] {
        assert!(!root.exists(gone), "{gone} is left");
    }
    assert!(root.exists("/var/lib/volhost/kept"), "a purge keeps the volumes' data");
}

/// Changes a plugin of the package, and the list of digests as well: the signature alone shows it.
fn a_tampered_plugin_is_not_loaded(root: &FreshRoot, listed: &str) {
    const FOLDER: &str = "/usr/lib/volhost/plugins";
    for line in listed.lines() {
        let plugin = line.split_whitespace().nth(1).unwrap();
        let verify = ["minisign", "-V", "-p", "/etc/volhost/trusted-keys/volhost.pub", "-m"];
        root.run(&[&verify[..], &[&format!("{FOLDER}/{plugin}")]].concat());
    }
    let plugin = format!("{FOLDER}/image-file.wasm");
    // A custom section of no meaning.
    root.run(&[
        "sh",
        "-euc",
        &format!("cp {plugin} /tmp/changed; printf '\\0\\005\\004more' >>/tmp/changed; mv /tmp/changed {plugin}"),
    ]);
    let list = "cd /usr/lib/volhost/plugins && sha256sum *.wasm >../shipped-plugins.sha256";
    root.run(&["sh", "-euc", list]);
    let refused = || root.run(&["volhost", "events"]).contains("image-file.wasm.minisig does not fit its content");
    assert!(volhost_tests::wait::eventually(refused), "{}", root.run(&["volhost", "events"]));
}
