//! A CSI driver beside a node: `csi-test-driver` in the node's mount namespace.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use crate::Node;

/// Where a node has its folder of registration sockets, below its own folder.
pub const REGISTRY: &str = "disk/registry";

/// A running driver. Dropping it ends it.
#[derive(Debug)]
pub struct CsiDriver {
    folder: PathBuf,
    registry: PathBuf,
    name: String,
    capabilities: Vec<String>,
    process: Option<Child>,
}

impl CsiDriver {
    /// Starts a driver of this name that can do this: see `csi-test-driver`.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(node: &Node, name: &str, capabilities: &[&str]) -> Self {
        let folder = node.folder().join("disk").join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut driver = Self {
            folder,
            registry: node.folder().join(REGISTRY),
            name: name.to_owned(),
            capabilities: capabilities.iter().map(|word| (*word).to_owned()).collect(),
            process: None,
        };
        driver.run(node);
        driver
    }

    /// Starts another version of a driver, with sockets and a folder of its own.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start_version(node: &Node, name: &str, version: &str, capabilities: &[&str]) -> Self {
        let folder = node.folder().join("disk").join(format!("{name}-{version}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("version"), version).expect("the version is written");
        let mut driver = Self {
            folder,
            registry: node.folder().join(REGISTRY).join(version),
            name: name.to_owned(),
            capabilities: capabilities.iter().map(|word| (*word).to_owned()).collect(),
            process: None,
        };
        driver.run(node);
        driver
    }

    /// Lets a call go on that was ordered to wait.
    ///
    /// # Panics
    /// When none waits.
    pub fn let_go(&self) {
        self.let_go_after(|| ());
    }

    /// Does something while a call waits that was ordered to, then lets the call go on.
    ///
    /// # Panics
    /// When none waits.
    pub fn let_go_after(&self, meanwhile: impl FnOnce()) {
        let gate = self.folder.join("gate");
        assert!(crate::wait::eventually(|| gate.exists()), "no call waits");
        meanwhile();
        // Opens when the other end is open, too.
        std::fs::File::options().write(true).open(gate).expect("the gate opens");
    }

    /// Starts it again.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn run(&mut self, node: &Node) {
        let program = crate::artifacts::volhost().with_file_name("csi-test-driver");
        let process = node
            .inside(program)
            .arg(&self.folder)
            .arg(&self.registry)
            .arg(&self.name)
            .args(&self.capabilities)
            .stdin(Stdio::null())
            .spawn()
            .expect("the driver starts; build it with `cargo build --workspace --bins`");
        self.process = Some(process);
    }

    /// Ends it at once. Its sockets stay.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("the driver runs");
        let _ = process.kill();
        process.wait().expect("it can be waited for");
    }

    /// Sends it a signal by name: `STOP`, `CONT`.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal(&self, name: &str) {
        let process = self.process.as_ref().expect("the driver runs").id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", name, &process]).status();
        assert!(sent.expect("kill runs").success(), "{name} was not sent");
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// When it does not run.
    pub fn wait_end(&mut self) {
        self.process.take().expect("the driver runs").wait().expect("it can be waited for");
    }

    /// Orders it to misbehave, or with an empty text to behave.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn order(&self, orders: &str) {
        let new = self.folder.join("orders.new");
        std::fs::write(&new, orders).expect("the orders are written");
        std::fs::rename(new, self.folder.join("orders")).expect("the orders are put in place");
    }

    /// Has it say something else of the node, or of itself: see `csi-test-driver`.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn tell(&self, file: &str, content: &str) {
        let new = self.folder.join(format!("{file}.new"));
        std::fs::write(&new, content).expect("the file is written");
        std::fs::rename(new, self.folder.join(file)).expect("the file is put in place");
    }

    /// The calls it was sent until now, in order, as Rust's debug text.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        // The last may still be being written.
        calls.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
    }

    /// How often it was sent this call.
    #[must_use]
    pub fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|line| line.starts_with(&format!("{call} "))).count()
    }

    /// The last such call.
    ///
    /// # Panics
    /// When there was none.
    #[must_use]
    pub fn last(&self, call: &str) -> String {
        let calls = self.calls();
        let found = calls.iter().rev().find(|line| line.starts_with(&format!("{call} ")));
        found.unwrap_or_else(|| panic!("{call} was not sent; there were {calls:#?}")).clone()
    }

    /// Returns its folder: `calls`, `orders`, `registered`, `volumes`, and the answers of its
    /// registrar that differ from the usual: `type`, `versions`, `endpoint`.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// Its registration socket.
    #[must_use]
    pub fn registration(&self) -> PathBuf {
        self.registry.join(format!("{}-reg.sock", self.name))
    }
}

impl Drop for CsiDriver {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
