//! A node that makes volumes by the plugin `loop`, `volhost docker` beside it, and engines in the
//! node's mount namespace.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

const GRANTS: &str = "[grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"$NODE/disk\"]\n";
/// The programs in the image of the containers.
const APPLETS: [&str; 6] = ["sh", "cat", "echo", "sleep", "touch", "true"];

/// A node with named volumes.
pub(crate) struct Host {
    pub(crate) node: Node,
    plugin: Option<Child>,
    devices: LoopDevices,
}

impl Host {
    pub(crate) fn start() -> Self {
        let node = Node::builder()
            .plugin(artifacts::plugin("loop"))
            .plugin(artifacts::plugin("secret"))
            .plugin(artifacts::plugin("tmpfs"))
            .config(GRANTS)
            .arguments(&["--provision"])
            // Docker finds plugins here alone.
            .prepare("mkdir -p /run/docker && mount -t tmpfs tmpfs /run/docker")
            .start();
        let devices = LoopDevices::below(&node.folder().join("disk"));
        Self { node, plugin: None, devices }
    }

    /// The node, with `volhost docker`.
    pub(crate) fn with_plugin() -> Self {
        let mut host = Self::start();
        host.start_plugin();
        host
    }

    pub(crate) const SOCKET: &str = "/run/docker/plugins/volhost.sock";

    pub(crate) fn start_plugin(&mut self) {
        let mut command = self.node.inside(artifacts::volhost());
        command.arg("--socket").arg(self.node.socket()).args(["docker", "--listen", Self::SOCKET]);
        self.plugin = Some(command.stdout(Stdio::null()).spawn().unwrap());
        let socket = self.node.path(std::path::Path::new(Self::SOCKET));
        assert!(eventually(|| std::os::unix::net::UnixStream::connect(&socket).is_ok()));
    }

    /// `kill -9` of `volhost docker`.
    pub(crate) fn kill_plugin(&mut self) {
        let mut plugin = self.plugin.take().unwrap();
        plugin.kill().unwrap();
        plugin.wait().unwrap();
    }

    /// Calls the plugin API, and returns the answer's body.
    pub(crate) fn call(&self, call: &str, body: &str) -> serde_json::Value {
        let output = self
            .node
            .inside("curl")
            .args(["-s", "--unix-socket", Self::SOCKET, "-X", "POST", "--data-binary", body])
            .arg(format!("http://d/{call}"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{call}: {error}: {text}"))
    }

    /// What `volhost volume inspect` shows of a volume.
    pub(crate) fn inspect(&self, name: &str) -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(&self.node.ok(&["volume", "inspect", name])).unwrap()[0].clone()
    }

    /// The number of users of a volume.
    pub(crate) fn users(&self, name: &str) -> usize {
        self.inspect(name)["users"].as_array().unwrap().len()
    }

    /// The images that there are.
    pub(crate) fn images(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.node.folder().join("disk")).unwrap().flatten();
        files.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file())).map(|file| file.path()).collect()
    }

    /// Waits until nothing is left: no image, no device, no mount.
    pub(crate) fn assert_clean(&self) {
        let clean = || self.images().is_empty() && self.devices.all().is_empty() && self.node.pod_mounts().is_empty();
        assert!(
            eventually(clean),
            "{:?} {:?} {:?}\n{}",
            self.images(),
            self.devices.all(),
            self.node.pod_mounts(),
            self.node.log()
        );
    }

    /// The file that [`Host::image`] makes.
    pub(crate) fn image_file(&self) -> PathBuf {
        self.node.folder().join("image.tar")
    }

    /// Makes the file of an image with busybox, once.
    pub(crate) fn image(&self) -> PathBuf {
        let (folder, tar) = (self.node.folder().join("image"), self.image_file());
        if tar.exists() {
            return tar;
        }
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::copy("/bin/busybox", folder.join("bin/busybox")).expect("busybox-static is installed");
        for applet in APPLETS {
            std::os::unix::fs::symlink("busybox", folder.join("bin").join(applet)).unwrap();
        }
        let packed = Command::new("tar").arg("-C").arg(&folder).arg("-cf").arg(&tar).arg(".").status().unwrap();
        assert!(packed.success());
        tar
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut plugin) = self.plugin.take() {
            let _ = plugin.kill();
            let _ = plugin.wait();
        }
    }
}

/// The standard output of a command that must succeed.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What a command says that must fail.
pub(crate) fn fails(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?}: {}", said(&output));
    said(&output)
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
