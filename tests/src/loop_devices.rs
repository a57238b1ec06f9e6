//! The loop devices that a node has made. The kernel has one table of them for all processes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the kernel lists block devices.
const BLOCK_DEVICES: &str = "/sys/block";
/// What the kernel appends to the path of a file that was removed.
const DELETED: &[u8] = b" (deleted)";

/// The loop devices over files of a folder, and the pins over those devices. Dropping it detaches
/// them, whether the test has passed or failed.
#[derive(Debug)]
pub struct LoopDevices(PathBuf);

impl LoopDevices {
    /// Selects the devices over files below this folder.
    pub fn below(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Returns the device paths, those of pins first.
    ///
    /// # Panics
    /// When sysfs is not mounted, or losetup does not run.
    pub fn all(&self) -> Vec<String> {
        let (pins, images) = self.pins_and_images();
        pins.into_iter().chain(images.into_iter().map(|(device, _)| device)).collect()
    }

    /// Returns the number of pins, and the files that have a device.
    ///
    /// # Panics
    /// When sysfs is not mounted, or losetup does not run.
    pub fn files(&self) -> (usize, Vec<PathBuf>) {
        let (pins, images) = self.pins_and_images();
        let mut files: Vec<PathBuf> = images.into_iter().map(|(_, file)| file).collect();
        files.sort();
        (pins.len(), files)
    }

    /// Returns the devices over this file.
    ///
    /// # Panics
    /// When `losetup` does not run.
    pub fn over(&self, image: &Path) -> Vec<String> {
        let list =
            Command::new("losetup").args(["-l", "-n", "-O", "NAME", "-j"]).arg(image).output().expect("losetup runs");
        String::from_utf8_lossy(&list.stdout).split_whitespace().map(str::to_owned).collect()
    }

    fn pins_and_images(&self) -> (Vec<String>, Vec<(String, PathBuf)>) {
        let (images, others): (Vec<_>, Vec<_>) =
            attached().into_iter().partition(|(_, file)| file.starts_with(&self.0));
        // Most looks end here: only devices over images have pins.
        if images.is_empty() || others.is_empty() {
            return (Vec::new(), images);
        }
        // The backing file of a pin is the node of the device, whatever path leads there.
        let nodes: Vec<String> =
            images.iter().filter_map(|(image, _)| Some(fs::metadata(image).ok()?.ino().to_string())).collect();
        let list = Command::new("losetup").args(["-l", "-n", "-O", "NAME,BACK-INO"]).output().expect("losetup runs");
        let text = String::from_utf8(list.stdout).expect("losetup writes text");
        let rows = text.lines().filter_map(|line| line.split_whitespace().collect::<Vec<_>>().try_into().ok());
        let pins = rows.filter(|[device, node]: &[&str; 2]| {
            nodes.iter().any(|image| image == node) && others.iter().any(|(other, _)| other == device)
        });
        (pins.map(|[device, _]| device.to_owned()).collect(), images)
    }
}

/// Every loop device with its backing file. Read from sysfs, since crash tests look thousands of
/// times a minute and `losetup` would be started each time.
fn attached() -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(BLOCK_DEVICES).expect("sysfs is mounted").flatten();
    let backed = entries.filter_map(|entry| {
        // A device that is not attached has no such file.
        let path = fs::read(entry.path().join("loop/backing_file")).ok()?;
        let path = path.strip_suffix(b"\n").unwrap_or(&path);
        let path = path.strip_suffix(DELETED).unwrap_or(path);
        let device = Path::new("/dev").join(entry.file_name());
        Some((device.to_str()?.to_owned(), PathBuf::from(OsStr::from_bytes(path))))
    });
    let mut all: Vec<_> = backed.collect();
    all.sort();
    all
}

impl Drop for LoopDevices {
    fn drop(&mut self) {
        for device in self.all() {
            let _ = Command::new("losetup").args(["-d", &device]).status();
        }
    }
}
