//! Another plugin of Docker's, `rclone serve docker`, beside ours: what its answers have, ours have.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;
use volhost_tests::Node;
use volhost_tests::wait::eventually;

use crate::kit::Host;

/// rclone's plugin.
struct Rclone {
    process: Child,
    socket: PathBuf,
}

impl Rclone {
    fn start(node: &Node) -> Self {
        let folder = node.folder().join("rclone");
        for name in ["base", "cache", "data"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        let socket = folder.join("s.sock");
        let mut command = node.inside("rclone");
        command.args(["serve", "docker", "--config", "/dev/null", "--socket-addr"]).arg(&socket);
        command.arg("--base-dir").arg(folder.join("base")).arg("--cache-dir").arg(folder.join("cache"));
        // It cannot be read where this suite runs, and a plugin on a local folder needs no authority.
        command.env_remove("AWS_CA_BUNDLE");
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let socket_outside = node.path(&socket);
        assert!(eventually(|| std::os::unix::net::UnixStream::connect(&socket_outside).is_ok()));
        Self { process, socket }
    }
}

impl Drop for Rclone {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The status of an answer, and its body.
fn ask(node: &Node, socket: &str, call: &str, body: &str) -> (String, Value) {
    let output = node
        .inside("curl")
        .args(["-s", "--unix-socket", socket, "-w", "\n%{http_code}", "-X", "POST", "--data-binary", body])
        .arg(format!("http://d/{call}"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.to_owned(), serde_json::from_str(body).unwrap_or(Value::Null))
}

/// The names of the fields, `Volume.Name`; what a driver says of itself in `Status` is its own.
fn fields(value: &Value, below: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                into.insert(format!("{below}{name}"));
                if name != "Status" {
                    fields(value, &format!("{below}{name}."), into);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|one| fields(one, below, into)),
        _ => {}
    }
}

/// A call, its body, and whether ours does what rclone's refuses: a repeated call changes nothing.
const CALLS: [(&str, &str, bool); 21] = [
    ("Plugin.Activate", "", false),
    ("VolumeDriver.Capabilities", "{}", false),
    ("VolumeDriver.List", "{}", false),
    ("VolumeDriver.Create", r#"{"Name":"v","Opts":@}"#, false),
    ("VolumeDriver.Create", r#"{"Name":"v","Opts":@}"#, false),
    ("VolumeDriver.Create", r#"{"Name":"w","Opts":{"colour":"red"}}"#, false),
    ("VolumeDriver.List", "{}", false),
    ("VolumeDriver.Get", r#"{"Name":"v"}"#, false),
    ("VolumeDriver.Get", r#"{"Name":"nobody"}"#, false),
    ("VolumeDriver.Path", r#"{"Name":"v"}"#, false),
    ("VolumeDriver.Mount", r#"{"Name":"nobody","ID":"a"}"#, false),
    ("VolumeDriver.Mount", r#"{"Name":"v","ID":"a"}"#, false),
    ("VolumeDriver.Mount", r#"{"Name":"v","ID":"a"}"#, true),
    ("VolumeDriver.Mount", r#"{"Name":"v","ID":"b"}"#, false),
    ("VolumeDriver.Remove", r#"{"Name":"v"}"#, false),
    ("VolumeDriver.Unmount", r#"{"Name":"v","ID":"b"}"#, false),
    ("VolumeDriver.Unmount", r#"{"Name":"v","ID":"b"}"#, true),
    ("VolumeDriver.Path", r#"{"Name":"v"}"#, false),
    ("VolumeDriver.Unmount", r#"{"Name":"v","ID":"a"}"#, false),
    ("VolumeDriver.Remove", r#"{"Name":"v"}"#, false),
    ("VolumeDriver.Remove", r#"{"Name":"v"}"#, false),
];

#[test]
fn every_call_answers_as_rclones_plugin_does() {
    let host = Host::with_plugin();
    let rclone = Rclone::start(&host.node);
    let data = host.node.folder().join("rclone/data");
    let theirs_options = format!(r#"{{"type":"local","path":"{}"}}"#, data.display());
    for (call, body, is_repeat) in CALLS {
        let body_for = |options: &str| body.replace('@', options);
        let (their_status, theirs) = ask(&host.node, rclone.socket.to_str().unwrap(), call, &body_for(&theirs_options));
        let (our_status, ours) = ask(&host.node, Host::SOCKET, call, &body_for(r#"{"plugin":"loop","size":"8m"}"#));
        let shown = format!("{call} {body}:\n{their_status} {theirs}\n{our_status} {ours}");
        // A refusal is a status to rclone, and a field to us; engines read both.
        let refusal = |answer: &Value| answer["Err"].as_str().is_some_and(|why| !why.is_empty());
        assert_eq!(our_status, "200", "{shown}");
        if is_repeat {
            assert!(refusal(&theirs) && !refusal(&ours), "{shown}");
            continue;
        }
        assert_eq!(refusal(&theirs), refusal(&ours), "{shown}");
        let (mut their_fields, mut our_fields) = (BTreeSet::new(), BTreeSet::new());
        fields(&theirs, "", &mut their_fields);
        fields(&ours, "", &mut our_fields);
        assert!(their_fields.is_subset(&our_fields), "{shown}");
    }
    host.assert_clean();
}
