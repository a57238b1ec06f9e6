//! The real Podman, which sends the same id for every mount.

use std::fs;
use std::process::Command;

use crate::kit::{Host, fails, succeeds};

/// The image of the container that holds a pod's namespaces, instead of one that Podman builds from
/// a program that it may not find.
pub(crate) const PAUSE: &str = "localhost/pause:1";

/// Podman in the node's mount namespace, with folders of its own.
pub(crate) struct Engine<'a>(&'a Host);

impl<'a> Engine<'a> {
    pub(crate) fn start(host: &'a Host) -> Self {
        let settings = format!(
            "[containers]\ndefault_ulimits=[\"nofile=1024:1024\",\"nproc=4096:4096\"]\n[engine]\nruntime=\"runc\"\ncgroup_manager=\"cgroupfs\"\nevents_logger=\"file\"\ninfra_image=\"{PAUSE}\"\n[engine.volume_plugins]\nvolhost=\"{}\"\n",
            Host::SOCKET
        );
        fs::write(host.node.folder().join("containers.conf"), settings).unwrap();
        let engine = Self(host);
        let image = host.image();
        succeeds(engine.podman(&["import"]).arg(image).arg("localhost/bb:1"));
        engine
    }

    pub(crate) fn podman(&self, arguments: &[&str]) -> Command {
        let folder = self.0.node.folder();
        let mut command = self.0.node.inside("podman");
        command.env("CONTAINERS_CONF", folder.join("containers.conf"));
        command.arg("--root").arg(folder.join("podman")).arg("--runroot").arg(folder.join("podman-run"));
        command.args(["--storage-driver", "overlay"]).args(arguments);
        command
    }

    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        succeeds(&mut self.podman(arguments))
    }
}

#[test]
fn podman_runs_containers_on_named_volumes() {
    let mut host = Host::with_plugin();
    {
        let engine = Engine::start(&host);
        engine.ok(&["volume", "create", "--driver", "volhost", "--opt", "plugin=loop", "--opt", "size=10m", "data"]);
        let run = ["run", "--rm", "--network", "none", "-v"];
        let write = ["data:/data", "localhost/bb:1", "/bin/sh", "-c", "echo hi >/data/f; cat /data/f"];
        assert_eq!(engine.ok(&[&run[..], &write].concat()), "hi");
        assert_eq!(host.users("data"), 0);
        let read_only = ["data:/data:ro", "localhost/bb:1", "/bin/touch", "/data/g"];
        assert!(fails(&mut engine.podman(&[&run[..], &read_only].concat())).contains("Read-only"));

        let sleep = ["run", "-d", "--network", "none", "-v", "data:/data", "localhost/bb:1", "/bin/sleep", "1000"];
        let (one, two) = (engine.ok(&sleep), engine.ok(&sleep));
        assert_eq!(host.users("data"), 1, "Podman counts its containers itself");
        engine.ok(&["rm", "-f", "-t", "0", &one]);
        assert_eq!(engine.ok(&["exec", &two, "/bin/cat", "/data/f"]), "hi");
        assert!(fails(&mut engine.podman(&["volume", "rm", "data"])).contains("being used"));
        assert!(host.node.fails(&["volume", "rm", "data"]).contains("in use"));
        engine.ok(&["rm", "-f", "-t", "0", &two]);
        assert_eq!(host.users("data"), 0);
        assert_eq!(host.node.pod_mounts(), []);
    }
    host.node.kill();
    host.node.start();
    let engine = Engine(&host);
    let run = ["run", "--rm", "--network", "none", "-v", "data:/data", "localhost/bb:1", "/bin/cat", "/data/f"];
    assert_eq!(engine.ok(&run), "hi");
    let inspected: serde_json::Value = serde_json::from_str(&engine.ok(&["volume", "inspect", "data"])).unwrap();
    assert_eq!(inspected[0]["Driver"], "volhost");
    engine.ok(&["volume", "rm", "data"]);
    host.assert_clean();
}
