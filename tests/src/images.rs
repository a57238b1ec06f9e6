//! Images made by podman, with a store of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// podman with a store that is gone with this.
#[derive(Debug)]
pub struct Podman {
    folder: TempDir,
}

impl Default for Podman {
    fn default() -> Self {
        Self::new()
    }
}

impl Podman {
    /// An empty store.
    ///
    /// # Panics
    /// Without a temporary folder.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// A folder for what an image is made of, and for layouts.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs podman, and returns what it prints.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, arguments: &[&str]) -> String {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let output = Command::new("podman")
            .args(["--root", &at("store"), "--runroot", &at("run"), "--storage-driver", "vfs"])
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .expect("podman runs (deploy/setup.sh --tests)");
        assert!(output.status.success(), "podman {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Makes an image of one layer with these files.
    ///
    /// # Panics
    /// When podman fails.
    pub fn image(&self, name: &str, files: &[(&str, &[u8])]) {
        let folder = tempfile::tempdir_in(self.folder.path()).expect("a folder");
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, content).expect("a file");
        }
        let archive = folder.path().with_extension("tar");
        let packed = Command::new("tar")
            .args(["--numeric-owner", "-cf"])
            .arg(&archive)
            .arg("-C")
            .arg(folder.path())
            .arg(".")
            .status()
            .expect("tar runs");
        assert!(packed.success());
        self.run(&["import", "--quiet", &archive.display().to_string(), name]);
    }

    /// Makes an image of another one and what a change of its files leaves: `change` gets the folder
    /// with them.
    ///
    /// # Panics
    /// When podman fails.
    pub fn changed(&self, from: &str, name: &str, change: impl FnOnce(&Path)) {
        let container = self.run(&["create", from, "none"]);
        let mounted = PathBuf::from(self.run(&["mount", &container]));
        change(&mounted);
        self.run(&["umount", &container]);
        self.run(&["commit", "--quiet", &container, name]);
        self.run(&["rm", &container]);
    }

    /// Writes an image into the layout `FOLDER/LAYOUT` under a tag, and returns the layout's path.
    ///
    /// # Panics
    /// When podman fails.
    pub fn layout(&self, name: &str, layout: &str, tag: &str) -> PathBuf {
        let path = self.folder.path().join(layout);
        self.run(&["push", "--quiet", "--format", "oci", name, &format!("oci:{}:{tag}", path.display())]);
        path
    }

    /// Pushes an image to a registry, with the login and options that these arguments name.
    ///
    /// # Panics
    /// When podman fails.
    pub fn push(&self, name: &str, to: &str, arguments: &[&str]) {
        let mut all = vec!["push", "--quiet", "--tls-verify=false"];
        all.extend(arguments);
        let to = format!("docker://{to}");
        all.extend([name, &to]);
        self.run(&all);
    }
}
