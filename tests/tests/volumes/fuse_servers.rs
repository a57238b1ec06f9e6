//! FUSE servers under the daemon. A plugin's request beyond its grant is refused by name. If a
//! server fails, its volume is mounted again or unmounted, and no other volume waits.

use std::fs;
use std::path::PathBuf;

use volhost_tests::manifests::pod;
use volhost_tests::{Node, artifacts};

const PLUGIN: &str = "fixture.volhost~helped";
/// Each look is a run of the command line: minutes in all.
const LOOKS: usize = 2000;

/// A node whose plugin may start what is granted here besides a file system that works, which
/// `stop-time` ends soon when it is stopped.
fn node(servers: &str) -> Node {
    let config = format!(
        r#"
[grants."fixture.volhost/helped"]
host-paths = ["$NODE/disk"]

[grants."fixture.volhost/helped".fuse-servers.cow]
program = "/usr/bin/fuse-overlayfs"
arguments = ["-f", "-o", "lowerdir={{lower}},upperdir={{upper}},workdir={{work}}", "{{mount}}"]
user = 0
capabilities = ["chown", "dac-override", "fowner", "fsetid"]
start-time = "60s"
stop-time = "100ms"
{servers}
"#
    );
    Node::builder().plugin(artifacts::fixture("fixture-helped")).config(&config).start()
}

/// A volume of the file system that works, below a folder of the node's disk.
fn cow(node: &Node, name: &str) -> String {
    let disk = node.folder().join("disk").join(name);
    let disk = disk.display();
    format!(
        "name: {name}, helped: {{ server: cow, sources: {{ lower: {disk}/lower, upper: {disk}/upper, work: {disk}/work }} }}"
    )
}

fn want(node: &Node, name: &str, volume: &str) {
    node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &[volume]));
}

fn volume(node: &Node, name: &str) -> PathBuf {
    node.volume(&format!("uid-{name}"), PLUGIN, name)
}

/// The processes on record, by the numbers that they had.
pub(crate) fn processes(node: &Node) -> Vec<i32> {
    let records = node.path(&node.root().join("state/fuse-servers"));
    let records = fs::read_dir(records).unwrap().map(|record| record.unwrap().path());
    let read =
        records.filter_map(|record| serde_json::from_str::<serde_json::Value>(&fs::read_to_string(record).ok()?).ok());
    read.filter_map(|record| i32::try_from(record["process"]["pid"].as_i64()?).ok()).collect()
}

pub(crate) fn signal(pid: i32, name: &str) {
    let sent = std::process::Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Returns whether the process exists and is no zombie.
pub(crate) fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

pub(crate) fn until(what: &str, node: &Node, mut is: impl FnMut() -> bool) {
    let came = (0..LOOKS).any(|_| {
        let is = is();
        if !is {
            node.ok(&["get", "volumes"]);
        }
        is
    });
    assert!(came, "{what} never came; the daemon's log:\n{}", node.log());
}

#[test]
fn a_server_outlives_the_daemon_and_ends_with_its_volume() {
    let mut node = node("");
    want(&node, "data", &cow(&node, "data"));
    node.wait_mounted("default/data");
    fs::write(volume(&node, "data").join("file"), "written").unwrap();
    let before = processes(&node);
    assert_eq!(before.len(), 1);
    let counted = "volhost_fuse_servers{server=\"cow\"} 1";
    assert!(node.ok(&["metrics"]).contains(counted), "{}", node.ok(&["metrics"]));
    node.kill();
    assert!(runs(before[0]));
    node.start();
    node.wait_mounted("default/data");
    assert_eq!(processes(&node), before, "it is the same one");
    assert_eq!(fs::read_to_string(volume(&node, "data").join("file")).unwrap(), "written");
    node.remove_manifest("data.yaml");
    node.wait_unmounted("default/data");
    until("its end", &node, || !runs(before[0]) && processes(&node).is_empty());
    assert!(!node.ok(&["metrics"]).contains(counted));
    assert_eq!(fs::read_to_string(node.folder().join("disk/data/upper/file")).unwrap(), "written");
}

#[test]
fn the_volume_of_a_killed_server_is_published_again_and_its_pod_gets_an_event() {
    let node = node("");
    want(&node, "data", &cow(&node, "data"));
    node.wait_mounted("default/data");
    fs::write(volume(&node, "data").join("file"), "written").unwrap();
    let first = processes(&node)[0];
    signal(first, "KILL");
    node.wait_event(&["FuseServerEnded", "data", "FUSE server cow", "signal 9"]);
    until("the volume", &node, || fs::read_to_string(volume(&node, "data").join("file")).is_ok());
    assert_ne!(processes(&node), [first]);
}

#[test]
fn the_volume_of_a_server_that_died_while_the_daemon_was_down_is_mounted_again() {
    let mut node = node("");
    want(&node, "data", &cow(&node, "data"));
    node.wait_mounted("default/data");
    fs::write(volume(&node, "data").join("file"), "written").unwrap();
    let first = processes(&node)[0];
    node.kill();
    signal(first, "KILL");
    until_gone(first);
    node.start();
    node.wait_mounted("default/data");
    assert_eq!(fs::read_to_string(volume(&node, "data").join("file")).unwrap(), "written");
}

fn until_gone(pid: i32) {
    while runs(pid) {
        std::thread::yield_now();
    }
}

#[test]
fn a_stopped_server_delays_no_other_volume_and_ends_with_its_own_by_force() {
    let node = node("");
    want(&node, "data", &cow(&node, "data"));
    node.wait_mounted("default/data");
    // As a process that waits for its answer has it.
    let held = fs::File::open(volume(&node, "data")).unwrap();
    let stopped = processes(&node)[0];
    signal(stopped, "STOP");
    want(&node, "other", &cow(&node, "other"));
    node.wait_mounted("default/other");
    node.ok(&["get", "volumes", "-o", "wide"]);
    node.remove_manifest("data.yaml");
    node.wait_event(&["FailedUnmount", "pod default/data"]);
    node.ok(&["force-unmount", "default/data/data", "--end-server"]);
    node.wait_unmounted("default/data");
    drop(held);
    // No mount changes when the last user goes: the daemon looks for such servers each minute, and
    // now.
    until("its end", &node, || {
        node.poke("-HUP");
        !runs(stopped)
    });
}

#[test]
fn a_request_beyond_the_grant_is_refused_by_name() {
    let shell = r#"
[grants."fixture.volhost/helped".fuse-servers.shell]
program = "/bin/sh"
arguments = ["-c", "echo \"$0 $*\" >&2; exit 9", "{server}:{path}", "{mount}", ["-p", "{port}"]]
values = { server = ["*.example.com"], path = ["/exports/*"], port = ["*"] }
"#;
    let node = node(shell);
    let rows = [
        ("name: v, helped: { server: other }", "FUSE server other is not granted"),
        ("name: v, helped: { server: /bin/sh }", "is not granted"),
        ("name: v, helped: { server: shell, texts: { server: evil.org } }", "evil.org"),
        ("name: v, helped: { server: shell, texts: { server: a.example.com.evil.org } }", "values"),
        ("name: v, helped: { server: shell, texts: { path: /exports/a/b } }", "/exports/a/b"),
        ("name: v, helped: { server: shell, texts: { path: /exports/.. } }", "`..`"),
        ("name: v, helped: { server: shell, texts: { server: -oProxyCommand } }", "like an option"),
        ("name: v, helped: { server: shell, texts: { port: '--' } }", "like an option"),
        ("name: v, helped: { server: shell, texts: { port: '1,allow_root' } }", "may end at"),
        ("name: v, helped: { server: shell, texts: { port: '1 -o x' } }", "may end at"),
        ("name: v, helped: { server: shell, texts: { port: \"1\\n2\" } }", "may end at"),
        ("name: v, helped: { server: shell, texts: { port: \"1\\0\" } }", "may end at"),
        ("name: v, helped: { server: shell, texts: { port: '$(id)' } }", "may end at"),
        ("name: v, helped: { server: shell, texts: { port: '{mount}' } }", "may end at"),
        ("name: v, helped: { server: shell, texts: { mount: x } }", "no slot \"mount\""),
        ("name: v, helped: { server: shell, texts: { other: x } }", "no slot \"other\""),
        ("name: v, helped: { server: shell, texts: { server: a.example.com } }", "needs the slot"),
        ("name: v, helped: { server: shell, sources: { path: /etc } }", "/etc"),
        (
            "name: v, helped: { server: shell, texts: { server: a.example.com, path: /exports/b } }",
            "exit code 9 and does not serve; it must stay in the foreground; it said: a.example.com:/exports/b /dev/fd/3",
        ),
    ];
    for (number, (volume, _)) in rows.iter().enumerate() {
        want(&node, &format!("p{number}"), volume);
    }
    for (number, (_, words)) in rows.iter().enumerate() {
        node.wait_event(&[&format!("default/p{number}"), words]);
    }
    assert!(node.pod_mounts().is_empty());
    // Another try of the last one may run just now.
    until("their end", &node, || processes(&node).is_empty());
}
