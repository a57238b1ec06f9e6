//! A Debian root on which volhost never was: this machine's, with a layer above it that ends with
//! the test. It has the machine's packages and dpkg's database, so that a package is installed as
//! on any machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use volhost_tests::namespace::MountNamespace;

use crate::succeeds;

/// Mounts the layer above `/` and what a system has below it, and makes it the root of the mount
/// namespace. The layer is on a file system of its own: a layer above `/` cannot lie in `/`.
const MAKE: &str = r#"
mount -t tmpfs -o size=2g layer "$FOLDER"
mkdir "$FOLDER/upper" "$FOLDER/work" "$FOLDER/root"
mount -t overlay -o "lowerdir=/,upperdir=$FOLDER/upper,workdir=$FOLDER/work" overlay "$FOLDER/root"
cd "$FOLDER/root"
mount --rbind /dev dev
mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs run run
mount -t tmpfs tmp tmp
rm -rf etc/volhost usr/local/bin/volhost usr/local/bin/volhostd usr/local/lib/volhost var/lib/volhost* var/cache/volhost
mkdir -p tmp/old
pivot_root . tmp/old
umount -l /tmp/old
mount --make-rshared /
"#;

/// The root, in a mount namespace of its own.
#[derive(Debug)]
pub(crate) struct FreshRoot {
    namespace: MountNamespace,
    _folder: TempDir,
}

impl FreshRoot {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let namespace = MountNamespace::new();
        succeeds(namespace.command("sh").args(["-euc", MAKE]).env("FOLDER", folder.path()));
        let root = Self { namespace, _folder: folder };
        assert!(!root.exists("/usr/bin/volhostd"), "volhost is not installed here");
        root
    }

    /// A command in the root.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = self.namespace.command(program);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LANG", "C.UTF-8");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn run(&self, command: &[&str]) -> String {
        succeeds(self.command(command[0]).args(&command[1..]))
    }

    /// A path of the root, as the test sees it.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.namespace.path(Path::new(path))
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    pub(crate) fn put(&self, file: &Path, path: &str) {
        fs::copy(file, self.path(path)).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }
}
