//! A unit, started as systemd starts it: its folders made, exactly its `ExecStart`, and its
//! notification awaited.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use volhost_tests::wait::eventually;

use crate::fresh_root::FreshRoot;

/// The folder of each kind that systemd makes.
const FOLDERS: [(&str, &str); 4] =
    [("Runtime", "/run"), ("State", "/var/lib"), ("Cache", "/var/cache"), ("Configuration", "/etc")];
const NOTIFY_SOCKET: &str = "/run/notify";
pub(crate) const LOG: &str = "/run/log";

/// A service that runs.
#[derive(Debug)]
pub(crate) struct Service<'a> {
    root: &'a FreshRoot,
    process: Child,
}

impl<'a> Service<'a> {
    /// Starts the unit, and waits until it says that it is ready.
    pub(crate) fn start(root: &'a FreshRoot, unit: &str) -> Self {
        let text = root.read(unit);
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        for (kind, above) in FOLDERS {
            let names = value(&format!("{kind}Directory")).unwrap_or_default();
            let mode = value(&format!("{kind}DirectoryMode")).unwrap_or("0755");
            for folder in names.split_whitespace().map(|name| root.path(&format!("{above}/{name}"))) {
                if !folder.exists() {
                    DirBuilder::new().mode(u32::from_str_radix(mode, 8).unwrap()).create(folder).unwrap();
                }
            }
        }
        assert_eq!(value("Type"), Some("notify"));
        let notified = UnixDatagram::bind(root.path(NOTIFY_SOCKET)).unwrap();
        let mut words = value("ExecStart").unwrap().split(' ');
        let log = fs::File::create(root.path(LOG)).unwrap();
        let mut command = root.command(words.next().unwrap());
        command.args(words).env("NOTIFY_SOCKET", NOTIFY_SOCKET).stdin(Stdio::null());
        let process = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut service = Self { root, process };
        service.wait_ready(&notified);
        service
    }

    fn wait_ready(&mut self, notified: &UnixDatagram) {
        let mut message = [0; 256];
        notified.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let ready = || {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "the service ended: {ended:?}\n{}", self.root.read(LOG));
            let Ok(bytes) = notified.recv(&mut message) else { return false };
            String::from_utf8_lossy(&message[..bytes]).lines().any(|line| line == "READY=1")
        };
        assert!(eventually(ready), "the service is not ready\n{}", self.root.read(LOG));
    }

    /// Waits until the plugins are compiled.
    pub(crate) fn wait_plugins(&self) {
        let loaded = || self.root.run(&["volhost", "events"]).contains("PluginsLoaded");
        assert!(eventually(loaded), "{}", self.root.read(LOG));
    }

    /// As `systemctl stop`.
    pub(crate) fn stop(mut self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}\n{}", self.root.read(LOG));
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        // Only a test that fails leaves it running.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The value of a key is the last one that is given: a unit has each of ours once.
#[test]
fn the_units_have_each_key_once() {
    for unit in ["volhost.service", "volhost-docker.service", "volhost-node-agent.service", "volhost-volume@.service"] {
        let text = fs::read_to_string(volhost_tests::artifacts::workspace().join("deploy").join(unit)).unwrap();
        let mut keys: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once('='))
            .map(|(key, _)| key)
            .collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all, "{unit}");
    }
}
