//! The real Docker.

use std::process::{Child, Command, Stdio};

use volhost_tests::wait::eventually;

use crate::kit::{Host, fails, succeeds};

/// A Docker daemon in the node's mount namespace, with folders of its own and no network.
pub(crate) struct Engine<'a> {
    host: &'a Host,
    daemon: Child,
}

impl<'a> Engine<'a> {
    pub(crate) fn start(host: &'a Host) -> Self {
        let engine = Self { host, daemon: Self::spawn(host) };
        engine.wait_ready();
        let image = host.image();
        succeeds(engine.docker(&["import"]).arg(image).arg("bb:1"));
        engine
    }

    fn spawn(host: &Host) -> Child {
        let folder = host.node.folder().join("docker");
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = host.node.inside("dockerd");
        command.arg("--data-root").arg(folder.join("root")).arg("--exec-root").arg(folder.join("exec"));
        command.arg("--pidfile").arg(folder.join("pid")).arg("-H").arg(Self::address(host));
        command.args(["--iptables=false", "--ip6tables=false", "--bridge=none"]);
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
        command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
    }

    fn address(host: &Host) -> String {
        format!("unix://{}", host.node.folder().join("docker/d.sock").display())
    }

    fn wait_ready(&self) {
        let is_ready = eventually(|| self.docker(&["info"]).output().unwrap().status.success());
        let log = std::fs::read_to_string(self.host.node.folder().join("docker/log")).unwrap_or_default();
        assert!(is_ready, "{log}");
    }

    pub(crate) fn docker(&self, arguments: &[&str]) -> Command {
        let mut command = self.host.node.inside("docker");
        command.env("DOCKER_HOST", Self::address(self.host)).args(arguments);
        command
    }

    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        succeeds(&mut self.docker(arguments))
    }

    fn run(&self, volume: &str, script: &str) -> Command {
        let mut command = self.docker(&["run", "--rm", "--network", "none", "-v"]);
        command.arg(volume).args(["bb:1", "/bin/sh", "-c", script]);
        command
    }

    /// Ends the daemon, and its containers with it, and starts it again.
    fn restart(&mut self) {
        self.end();
        self.daemon = Self::spawn(self.host);
        self.wait_ready();
    }
}

impl<'a> Engine<'a> {
    /// A daemon that has its image from an earlier start.
    fn start_again(host: &'a Host) -> Self {
        let engine = Self { host, daemon: Self::spawn(host) };
        engine.wait_ready();
        engine
    }

    fn end(&mut self) {
        let _ = Command::new("kill").arg(self.daemon.id().to_string()).status();
        let _ = self.daemon.wait();
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn docker_runs_containers_on_named_volumes() {
    let host = Host::with_plugin();
    let engine = Engine::start(&host);
    engine.ok(&["volume", "create", "-d", "volhost", "-o", "plugin=loop", "-o", "size=10m", "My_data"]);
    assert_eq!(succeeds(&mut engine.run("My_data:/data", "echo hi >/data/f; cat /data/f")), "hi");
    assert_eq!(host.users("My_data"), 0);
    let refused = fails(&mut engine.run("My_data:/data:ro", "touch /data/g"));
    assert!(refused.contains("Read-only file system"), "{refused}");

    let one = engine.ok(&["run", "-d", "--network", "none", "-v", "My_data:/data", "bb:1", "/bin/sleep", "1000"]);
    let two = engine.ok(&["run", "-d", "--network", "none", "-v", "My_data:/data", "bb:1", "/bin/sleep", "1000"]);
    assert_eq!(host.users("My_data"), 2, "Docker has an id for each container");
    assert_eq!(engine.ok(&["exec", &two, "/bin/cat", "/data/f"]), "hi");
    let inspected: serde_json::Value = serde_json::from_str(&engine.ok(&["volume", "inspect", "My_data"])).unwrap();
    assert_eq!(inspected[0]["Driver"], "volhost");
    assert_eq!(inspected[0]["Status"]["provisioner"], "loop.volhost.io");
    engine.ok(&["rm", "-f", &one]);
    assert_eq!(host.users("My_data"), 1);
    // Neither Docker nor volhost deletes a volume that the other knows to be in use.
    assert!(fails(&mut engine.docker(&["volume", "rm", "My_data"])).contains("in use"));
    assert!(host.node.fails(&["volume", "rm", "My_data"]).contains("in use"));
    engine.ok(&["rm", "-f", &two]);
    assert_eq!(host.users("My_data"), 0);
    assert_eq!(host.node.pod_mounts(), []);
    engine.ok(&["volume", "rm", "My_data"]);
    host.assert_clean();
}

#[test]
fn docker_shows_why_a_volume_is_refused() {
    let host = Host::with_plugin();
    let engine = Engine::start(&host);
    let create = ["volume", "create", "-d", "volhost", "-o", "plugin=loop", "-o"];
    let refused = fails(&mut engine.docker(&[&create[..], &["sise=10m", "data"]].concat()));
    assert!(refused.contains("option sise: there is no such option"), "{refused}");
    let refused = fails(&mut engine.docker(&[&create[..], &["parameters.colour=red", "data"]].concat()));
    assert!(refused.contains("parameters.colour"), "{refused}");
    assert_eq!(engine.ok(&["volume", "ls", "-q"]), "");
    host.assert_clean();
}

#[test]
fn a_volume_in_use_survives_restarts_of_docker_and_of_volhost() {
    let mut host = Host::with_plugin();
    // Docker's containers end with it: they hold nothing of the volume.
    let (id, left) = {
        let mut engine = Engine::start(&host);
        engine.ok(&["volume", "create", "-d", "volhost", "-o", "plugin=loop", "-o", "size=10m", "data"]);
        let id = engine.ok(&[
            "run",
            "-d",
            "--network",
            "none",
            "-v",
            "data:/data",
            "bb:1",
            "/bin/sh",
            "-c",
            "echo kept >/data/f; exec sleep 1000",
        ]);
        assert!(eventually(
            || engine.docker(&["exec", &id, "/bin/cat", "/data/f"]).output().unwrap().stdout == b"kept\n"
        ));
        engine.restart();
        assert_eq!(host.users("data"), 0, "Docker has ended its containers");
        assert_eq!(succeeds(&mut engine.run("data:/data", "cat /data/f")), "kept");
        engine.ok(&["rm", "-f", &id]);
        (id, host.users("data"))
    };
    assert_eq!(left, 0, "container {id} has left a user");
    host.kill_plugin();
    host.node.kill();
    host.node.start();
    host.start_plugin();
    let engine = Engine::start_again(&host);
    assert_eq!(engine.ok(&["volume", "ls", "-q"]), "data");
    assert_eq!(succeeds(&mut engine.run("data:/data", "cat /data/f")), "kept");
    engine.ok(&["volume", "rm", "data"]);
    drop(engine);
    host.assert_clean();
}
