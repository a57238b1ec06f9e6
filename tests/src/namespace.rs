//! A mount namespace that lives as long as its value: daemons come and go in it, their mounts stay.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A mount namespace, kept by a process that waits for its input to end.
#[derive(Debug)]
pub struct MountNamespace {
    keeper: Child,
    input: Option<ChildStdin>,
}

impl MountNamespace {
    /// A new one, private, with what is mounted now.
    ///
    /// # Panics
    /// Without root.
    pub fn new() -> Self {
        let mut keeper = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", "echo in; exec cat >/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare (util-linux) runs");
        let mut line = [0; 3];
        let mut output = keeper.stdout.take().expect("it is piped");
        std::io::Read::read_exact(&mut output, &mut line)
            .expect("a mount namespace can be made: these tests need root (see CONTRIBUTING.md)");
        let input = keeper.stdin.take();
        Self { keeper, input }
    }

    /// A command that will run inside.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.keeper.id())).arg("--").arg(program);
        command
    }

    /// A path of the inside, as seen from outside.
    pub fn path(&self, inside: &Path) -> PathBuf {
        Path::new("/proc")
            .join(self.keeper.id().to_string())
            .join("root")
            .join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// Kills every process that runs inside, but for the keeper.
    pub fn end_processes(&self) {
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let keeper = self.keeper.id().to_string();
        let Some(inside) = namespace(&keeper) else { return };
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes.filter_map(|entry| entry.file_name().into_string().ok()) {
            if process != keeper
                && namespace(&process).as_ref() == Some(&inside)
                && let Some(pid) = process.parse().ok().and_then(Pid::from_raw)
            {
                // It may have ended meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// The mount points inside that lie below this folder, as mountinfo lines.
    ///
    /// # Panics
    /// When the keeper is gone.
    pub fn mounts_below(&self, folder: &Path) -> Vec<MountLine> {
        let text = self.mountinfo();
        text.lines().filter_map(MountLine::parse).filter(|mount| mount.point.starts_with(folder)).collect()
    }

    /// The ids of the mounts inside that lie below this folder, and their points: equal before and
    /// after only if nothing was unmounted.
    ///
    /// # Panics
    /// When the keeper is gone.
    pub fn mount_ids_below(&self, folder: &Path) -> Vec<(u64, PathBuf)> {
        let text = self.mountinfo();
        let ids = text.lines().filter_map(|line| {
            let point = MountLine::parse(line)?.point;
            Some((line.split(' ').next()?.parse().ok()?, point))
        });
        ids.filter(|(_, point)| point.starts_with(folder)).collect()
    }

    fn mountinfo(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/mountinfo", self.keeper.id())).expect("the keeper lives")
    }
}

impl Default for MountNamespace {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for MountNamespace {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.keeper.wait();
    }
}

/// One line of mountinfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountLine {
    /// The mount point.
    pub point: PathBuf,
    /// Which folder of the file system it shows.
    pub root: String,
    /// Per-mount options.
    pub options: Vec<String>,
    /// File-system type.
    pub fs_type: String,
    /// What is mounted, as the program that mounted it named it.
    pub source: String,
    /// Options of the file system.
    pub fs_options: Vec<String>,
}

impl MountLine {
    fn parse(line: &str) -> Option<Self> {
        let (mount, fs) = line.split_once(" - ")?;
        let mount: Vec<&str> = mount.split(' ').collect();
        let fs: Vec<&str> = fs.split(' ').collect();
        let list = |text: &str| text.split(',').map(str::to_owned).collect();
        Some(Self {
            root: mount.get(3)?.replace("\\040", " "),
            point: PathBuf::from(mount.get(4)?.replace("\\040", " ")),
            options: list(mount.get(5)?),
            fs_type: (*fs.first()?).to_owned(),
            source: (*fs.get(1)?).to_owned(),
            fs_options: list(fs.get(2)?),
        })
    }
}
