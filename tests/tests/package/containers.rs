//! What a newcomer does who runs containers: installs the package on a fresh machine, starts its
//! units, gives Docker and Podman volumes of two plugins, breaks one, and reads why.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use volhost_tests::http::request_of;
use volhost_tests::wait::eventually;

use crate::fresh_root::FreshRoot;
use crate::unit::{LOG, Service};
use crate::{package, succeeds};

const DOCKER: &str = "unix:///run/docker.sock";
const PODMAN: &str = "[containers]
default_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]
[engine]
runtime = \"runc\"
cgroup_manager = \"cgroupfs\"
events_logger = \"file\"
[engine.volume_plugins]
volhost = \"/run/docker/plugins/volhost.sock\"
";

/// A process of the root that ends with the test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Docker unmounts what it has mounted.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

fn docker(root: &FreshRoot, arguments: &[&str]) -> Command {
    let mut command = root.command("docker");
    command.env("DOCKER_HOST", DOCKER).args(arguments);
    command
}

fn podman(root: &FreshRoot, arguments: &[&str]) -> Command {
    let mut command = root.command("podman");
    command.env("CONTAINERS_CONF", "/run/containers.conf");
    command.args(["--root", "/run/podman", "--runroot", "/run/podman-run", "--storage-driver", "overlay"]);
    command.args(arguments);
    command
}

/// Makes the file of an image that has a shell.
fn image(root: &FreshRoot) {
    let folder = root.path("/run/image/bin");
    fs::create_dir_all(&folder).unwrap();
    fs::copy("/bin/busybox", folder.join("busybox")).expect("busybox-static is installed");
    for applet in ["sh", "cat"] {
        symlink("busybox", folder.join(applet)).unwrap();
    }
    root.run(&["tar", "-C", "/run/image", "-cf", "/run/image.tar", "."]);
}

fn engine(root: &FreshRoot) -> Running {
    let log = fs::File::create(root.path("/run/docker.log")).unwrap();
    let mut daemon = root.command("dockerd");
    daemon.args(["--data-root", "/run/docker-data", "--exec-root", "/run/docker-exec", "--pidfile", "/run/docker.pid"]);
    daemon.args(["-H", DOCKER, "--iptables=false", "--ip6tables=false", "--bridge=none"]);
    let running = Running::start(daemon.stdout(Stdio::null()).stderr(log));
    let is_ready = || docker(root, &["info"]).output().unwrap().status.success();
    assert!(eventually(is_ready), "{}", root.read("/run/docker.log"));
    succeeds(&mut docker(root, &["import", "/run/image.tar", "bb:1"]));
    running
}

/// Runs a line of the unit of named volumes as systemd does.
fn run_line(root: &FreshRoot, key: &str, instance: &str) {
    let unit = root.read("/lib/systemd/system/volhost-volume@.service");
    let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap();
    root.run(&["sh", "-c", &line.replace("$$", "$").replace("%i", instance)]);
}

/// The volume of this name on the page, once it waits.
fn waiting_on_the_page(root: &FreshRoot, named: &str) -> Value {
    let log = root.read(LOG);
    let address = log.split("metrics are served at http://").nth(1).expect("the log has it").split('/').next().unwrap();
    let address = address.parse().unwrap();
    let mut found = Value::Null;
    let waits = || {
        let answer = request_of(address, "localhost", "GET", &format!("/state.json?find={named}"));
        let state: Value = serde_json::from_str(&answer.body).unwrap();
        let rows = state["volumes"].as_array().unwrap().clone();
        let why = |row: &Value| row["sentences"].to_string().contains("failed");
        found = rows.into_iter().find(why).unwrap_or_default();
        !found.is_null()
    };
    assert!(eventually(waits), "{}", root.read(LOG));
    found
}

#[test]
fn a_newcomer_gives_docker_and_podman_volumes_breaks_one_and_reads_why() {
    let folder = tempfile::tempdir().unwrap();
    let root = FreshRoot::new();
    root.put(Path::new(&package(folder.path(), None)), "/tmp/volhost.deb");
    root.run(&["dpkg", "--no-triggers", "--install", "/tmp/volhost.deb"]);
    let config = root.read("/etc/volhost/config.toml");
    let config = config.replace("#metrics-listen = \"127.0.0.1:9810\"", "metrics-listen = \"127.0.0.1:0\"");
    root.write("/etc/volhost/config.toml", &config);
    let service = Service::start(&root, "/lib/systemd/system/volhost.service");
    let unit = root.read("/lib/systemd/system/volhost-docker.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut words = start.split(' ');
    let plugin = Running::start(root.command(words.next().unwrap()).args(words));
    assert!(eventually(|| root.exists("/run/docker/plugins/volhost.sock")));
    image(&root);
    root.write("/run/containers.conf", PODMAN);
    let engine = engine(&root);
    succeeds(&mut podman(&root, &["import", "/run/image.tar", "localhost/bb:1"]));

    succeeds(&mut docker(&root, &["volume", "create", "-d", "volhost", "-o", "plugin=loop", "-o", "size=16m", "data"]));
    let run = ["run", "--rm", "--network", "none", "-v", "data:/data", "bb:1", "/bin/sh", "-c"];
    let in_docker = |script| docker(&root, &[&run[..], &[script]].concat());
    assert_eq!(succeeds(&mut in_docker("echo kept >/data/f; cat /data/f")).trim(), "kept");
    let options = ["--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", "o=size=1m"];
    succeeds(&mut podman(&root, &[&["volume", "create", "--driver", "volhost"], &options[..], &["cache"]].concat()));
    let run = ["run", "--rm", "--network", "none", "-v", "cache:/data", "localhost/bb:1", "/bin/sh", "-c"];
    let in_podman = succeeds(&mut podman(&root, &[&run[..], &["echo quick >/data/f; cat /data/f"]].concat()));
    assert_eq!(in_podman.trim(), "quick");

    // A service without a container.
    root.run(&["mkdir", "-p", "/run/volhost-volumes"]);
    run_line(&root, "ExecStart", "data");
    assert_eq!(root.run(&["cat", "/run/volhost-volumes/data/f"]), "kept\n");
    run_line(&root, "ExecStop", "data");
    assert!(!root.exists("/run/volhost-volumes/data"));

    // The storage of the first one is gone.
    root.run(&["mv", "/var/lib/volhost-loop", "/var/lib/elsewhere"]);
    let mut container = in_docker("cat /data/f");
    let container = container.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let shown = waiting_on_the_page(&root, "data");
    let sentences = shown["sentences"].as_array().unwrap();
    let explained = root.run(&["volhost", "explain", "pod", shown["pod"].as_str().unwrap()]);
    let cause = sentences.iter().filter_map(Value::as_str).find(|sentence| sentence.contains("failed")).unwrap();
    assert!(cause.contains("volhost-loop") && cause.contains("No such file or directory"), "{cause}");
    // Another try may have been made between the two.
    let words = |text: &str| text.split(": ").skip(1).collect::<Vec<_>>().join(": ");
    assert!(explained.contains(words(cause).trim()), "{explained}\n{cause}");

    // It goes on as soon as the storage is back.
    root.run(&["mv", "/var/lib/elsewhere", "/var/lib/volhost-loop"]);
    let output = container.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", root.read(LOG));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "kept");

    succeeds(&mut docker(&root, &["volume", "rm", "data"]));
    succeeds(&mut podman(&root, &["volume", "rm", "cache"]));
    drop(engine);
    drop(plugin);
    assert_eq!(root.run(&["volhost", "volume", "ls", "-q"]), "");
    root.run(&["volhost", "drain"]);
    service.stop();
}
