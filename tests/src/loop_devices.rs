//! The loop devices that a node has made: the kernel has one table of them for all.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The loop devices over files of a folder, pins over those devices included. Dropping it detaches them, whatever the test came to.
#[derive(Debug)]
pub struct LoopDevices(PathBuf);

impl LoopDevices {
    /// Those over files below this folder.
    pub fn below(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// The pins first.
    ///
    /// # Panics
    /// When losetup does not run.
    pub fn all(&self) -> Vec<String> {
        let (pins, images) = self.pins_and_images();
        pins.into_iter().chain(images.into_iter().map(|(device, _)| device)).collect()
    }

    /// How many pins there are, and over which files there is a device.
    ///
    /// # Panics
    /// When losetup does not run.
    pub fn files(&self) -> (usize, Vec<PathBuf>) {
        let (pins, images) = self.pins_and_images();
        let mut files: Vec<PathBuf> = images.into_iter().map(|(_, file)| file).collect();
        files.sort();
        (pins.len(), files)
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

    fn pins_and_images(&self) -> (Vec<String>, Vec<(String, PathBuf)>) {
        let columns = ["-l", "-n", "-O", "NAME,BACK-INO,BACK-FILE"];
        let list = Command::new("losetup").args(columns).output().expect("losetup runs");
        let text = String::from_utf8(list.stdout).expect("losetup writes text");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let is_image = |line: &&Vec<&str>| line.get(2).is_some_and(|file| Path::new(file).starts_with(&self.0));
        let images: Vec<(String, PathBuf)> =
            lines.iter().filter(is_image).map(|line| (line[0].to_owned(), PathBuf::from(line[2]))).collect();
        // A pin is over the node of the device, whatever path leads to that.
        let nodes: Vec<String> =
            images.iter().filter_map(|(image, _)| Some(fs::metadata(image).ok()?.ino().to_string())).collect();
        let is_pin =
            |line: &&Vec<&str>| !is_image(line) && nodes.iter().any(|node| line.get(1) == Some(&node.as_str()));
        (lines.iter().filter(is_pin).map(|line| line[0].to_owned()).collect(), images)
    }
}

impl Drop for LoopDevices {
    fn drop(&mut self) {
        for device in self.all() {
            let _ = Command::new("losetup").args(["-d", &device]).status();
        }
    }
}
