//! Block devices for tests: loop devices over files of a folder, which go with their value.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device over a file.
#[derive(Debug)]
pub struct Disk {
    /// `/dev/loop3`.
    pub device: PathBuf,
    image: PathBuf,
}

impl Disk {
    /// A blank one of this many bytes, over a new file.
    ///
    /// # Panics
    /// When the machine has no loop devices.
    pub fn blank(image: &Path, bytes: u64) -> Self {
        std::fs::File::create(image).expect("the image is made").set_len(bytes).expect("the image is sized");
        let made = Command::new("losetup").args(["--find", "--show"]).arg(image).output().expect("losetup runs");
        assert!(made.status.success(), "losetup: {}", String::from_utf8_lossy(&made.stderr));
        let device = PathBuf::from(String::from_utf8_lossy(&made.stdout).trim());
        Self { device, image: image.to_owned() }
    }

    /// Makes the disk larger.
    ///
    /// # Panics
    /// When that fails.
    pub fn grow(&self, bytes: u64) {
        std::fs::File::options()
            .write(true)
            .open(&self.image)
            .expect("the image opens")
            .set_len(bytes)
            .expect("it grows");
        let printed = Command::new("losetup").arg("--set-capacity").arg(&self.device).status().expect("losetup runs");
        assert!(printed.success());
    }

    /// Whether something on the machine has it for itself.
    ///
    /// # Panics
    /// When it cannot be asked.
    pub fn is_in_use(&self) -> bool {
        use std::os::unix::fs::OpenOptionsExt;
        match std::fs::File::options().read(true).custom_flags(exclusive()).open(&self.device) {
            Ok(_) => false,
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => true,
            Err(error) => panic!("{}: {error}", self.device.display()),
        }
    }
}

/// The flag that opens a device exclusively: it fails if the device is in use.
fn exclusive() -> i32 {
    i32::try_from(rustix::fs::OFlags::EXCL.bits()).expect("a flag fits")
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}
