//! A plugin that is served as a CSI driver: `volhost csi-serve` in a node's mount namespace.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::node::is_refused_for;
use crate::wait::eventually;
use crate::{Node, artifacts};

/// A running driver. Dropping it ends it; its volumes stay.
#[derive(Debug)]
pub struct CsiServe {
    folder: PathBuf,
    arguments: Vec<String>,
    process: Option<Child>,
    /// The process id of the one that was killed last.
    killed: Option<u32>,
}

impl CsiServe {
    /// Serves this plugin for volumes below the node's folder. `loop` keeps its images in the
    /// node's folder `disk`.
    ///
    /// # Panics
    /// When it does not serve; its log is in the message.
    pub fn start(node: &Node, plugin: &Path, arguments: &[&str]) -> Self {
        Self::start_in(node, "csi-serve", plugin, arguments)
    }

    /// The same with its own files in a folder of this name, beside another driver.
    ///
    /// # Panics
    /// As [`CsiServe::start`].
    pub fn start_in(node: &Node, name: &str, plugin: &Path, arguments: &[&str]) -> Self {
        Self::start_on(node, name, plugin, &node.folder().join("disk"), arguments)
    }

    /// Serves with its own files in a folder of this name, and with the storage in `disk`.
    ///
    /// # Panics
    /// As [`CsiServe::start`].
    pub fn start_on(node: &Node, name: &str, plugin: &Path, disk: &Path, arguments: &[&str]) -> Self {
        let folder = node.folder().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let config = folder.join("volhost.toml");
        let disk = disk.display();
        let grants = format!(
            "[grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"{disk}\"]\n\
             [grants.\"kubernetes.io/host-path\"]\nhost-paths = [\"{disk}\"]\n\
             [grants.\"volhost.io/image-file\"]\ninterfaces = [\"id-maps\"]\nimage-files = [\"{disk}\"]\n\
             [grants.\"fixture.volhost/array\"]\nloop-files = [\"{disk}\"]\n\
             [grants.\"fixture.volhost/keeper\"]\ninterfaces = [\"files\", \"secrets\"]\n\
             [grants.\"fixture.volhost/helped\"]\nhost-paths = [\"{disk}\"]\n\
             [grants.\"fixture.volhost/helped\".fuse-servers.cow]\nprogram = \"/usr/bin/fuse-overlayfs\"\n\
             arguments = [\"-f\", \"-o\", \"lowerdir={{lower}},upperdir={{upper}},workdir={{work}}\", \"{{mount}}\"]\n\
             user = 0\ncapabilities = [\"chown\", \"dac-override\", \"fowner\", \"fsetid\"]\n"
        );
        std::fs::write(&config, grants).expect("the grants are written");
        let mut own: Vec<String> = [
            ("--plugin", plugin.to_owned()),
            ("--endpoint", folder.join("csi.sock")),
            ("--state-dir", folder.join("state")),
            ("--kubelet-dir", node.folder().to_owned()),
            ("--cache-dir", node.folder().join("cache")),
            ("--config", config),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value.display().to_string()])
        .collect();
        if !arguments.contains(&"--node-id") {
            own.extend(["--node-id".to_owned(), "test-node".to_owned()]);
        }
        own.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let mut served = Self { folder, arguments: own, process: None, killed: None };
        served.run(node);
        served
    }

    fn command(&self, node: &Node) -> Command {
        let mut command = node.inside(artifacts::volhostd());
        command.arg("csi-serve").args(&self.arguments).stdin(Stdio::null());
        command
    }

    /// Starts it again, and once more where it is refused for the sake of a driver that was killed:
    /// see
    /// [`Node::start`].
    ///
    /// # Panics
    /// When it does not serve.
    pub fn run(&mut self, node: &Node) {
        assert!(self.process.is_none(), "it runs already");
        self.spawn(node);
        let (socket, mut serves) = (self.socket(), false);
        eventually(|| {
            let has_ended =
                self.process.as_mut().is_some_and(|process| process.try_wait().is_ok_and(|end| end.is_some()));
            let is_refused = has_ended && is_refused_for(self.killed, &self.log());
            if is_refused {
                self.spawn(node);
            }
            serves = UnixStream::connect(&socket).is_ok();
            serves || (has_ended && !is_refused)
        });
        assert!(serves, "it does not serve; its log:\n{}", self.log());
    }

    fn spawn(&mut self, node: &Node) {
        let log = std::fs::File::options().create(true).append(true).open(self.log_file()).expect("the log opens");
        let output = log.try_clone().expect("a handle");
        self.process = Some(self.command(node).stdout(output).stderr(log).spawn().expect("nsenter (util-linux) runs"));
    }

    /// Runs another one where it must fail, and returns what it said: with its own options, but for
    /// those that `arguments` give.
    ///
    /// # Panics
    /// When it does not end.
    pub fn fails(&self, node: &Node, arguments: &[&str]) -> String {
        let own = self.arguments.chunks_exact(2).filter(|option| !arguments.contains(&option[0].as_str())).flatten();
        let mut command = node.inside(artifacts::volhostd());
        command.arg("csi-serve").args(own).args(arguments).stdin(Stdio::null());
        let output = command.output().expect("nsenter (util-linux) runs");
        assert!(!output.status.success(), "it served");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join("csi.sock")
    }

    /// Its folder of records.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("volhost.log")
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Its process id.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("it runs").id()
    }

    /// Ends it between two instructions. Its volumes stay.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        self.killed = Some(process.id());
        let _ = process.kill();
        process.wait().expect("it can be waited for");
    }

    /// SIGTERM, and its exit status.
    ///
    /// # Panics
    /// When it does not run.
    pub fn terminate(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("it runs");
        let sent = Command::new("kill").args(["-TERM", &process.id().to_string()]).status().expect("kill runs");
        assert!(sent.success(), "it was gone already; its log:\n{}", self.log());
        process.wait().expect("it can be waited for")
    }
}

impl Drop for CsiServe {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
