//! The loop devices that a test's node makes, which are the machine's.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The loop devices over files of a folder, pins over those devices included. Dropping it removes them, whatever a test came to.
#[derive(Debug)]
pub struct LoopDevices(PathBuf);

impl LoopDevices {
    /// Those over files anywhere below this folder.
    pub fn below(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Their paths, pins first.
    ///
    /// # Panics
    /// When `losetup` does not run.
    pub fn all(&self) -> Vec<String> {
        let columns = ["-l", "-n", "-O", "NAME,BACK-INO,BACK-FILE"];
        let list = Command::new("losetup").args(columns).output().expect("losetup runs");
        let text = String::from_utf8(list.stdout).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let is_image = |line: &&Vec<&str>| line.get(2).is_some_and(|file| Path::new(file).starts_with(&self.0));
        let images: Vec<String> = lines.iter().filter(is_image).map(|line| line[0].to_owned()).collect();
        // A pin is over the node of the device, whatever path leads to that.
        let nodes: Vec<String> =
            images.iter().filter_map(|image| Some(fs::metadata(image).ok()?.ino().to_string())).collect();
        let is_pin =
            |line: &&Vec<&str>| !is_image(line) && nodes.iter().any(|node| line.get(1) == Some(&node.as_str()));
        let mut all: Vec<String> = lines.iter().filter(is_pin).map(|line| line[0].to_owned()).collect();
        all.extend(images);
        all
    }

    /// Those over this file.
    ///
    /// # Panics
    /// When `losetup` does not run.
    pub fn over(&self, image: &Path) -> Vec<String> {
        let list =
            Command::new("losetup").args(["-l", "-n", "-O", "NAME", "-j"]).arg(image).output().expect("losetup runs");
        String::from_utf8_lossy(&list.stdout).split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for LoopDevices {
    fn drop(&mut self) {
        for device in self.all() {
            let _ = Command::new("losetup").args(["-d", &device]).status();
        }
    }
}
