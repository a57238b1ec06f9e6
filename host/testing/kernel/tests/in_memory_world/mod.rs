//! The suite's view of the in-memory kernel.

mod ownership;
mod payloads;
mod sub_paths;

use std::any::Any;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use volhost_kernel::{Errno, Kernel, SourceKind};
use volhost_testing_kernel::InMemoryKernel;

use crate::suite::World;

pub struct InMemoryWorld(pub InMemoryKernel);

impl InMemoryWorld {
    pub fn new() -> Self {
        let kernel = InMemoryKernel::new();
        kernel.add_folder("/srv").unwrap();
        Self(kernel)
    }
}

impl World for InMemoryWorld {
    fn kernel(&self) -> &dyn Kernel {
        &self.0
    }

    fn base(&self) -> PathBuf {
        PathBuf::from("/srv")
    }

    fn add_folder(&self, path: &Path) {
        self.0.add_folder(path).unwrap();
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Errno> {
        self.0.write(path, bytes)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, Errno> {
        self.0.read(path)
    }

    fn add_symlink(&self, path: &Path, target: &Path) {
        self.0.add_symlink(path, target).unwrap();
    }

    fn add_node(&self, path: &Path, kind: SourceKind) {
        self.0.add_node(path, kind).unwrap();
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.exists(path)
    }

    fn list(&self, path: &Path) -> Vec<OsString> {
        self.0.list(path).unwrap()
    }

    fn mode_and_group(&self, path: &Path) -> (u32, u32) {
        self.0.mode_and_group(path).unwrap()
    }

    fn owner(&self, path: &Path) -> u32 {
        self.0.owner(path).unwrap()
    }

    fn link_target(&self, path: &Path) -> Option<PathBuf> {
        self.0.link_target(path).ok()
    }

    fn give(&self, path: &Path, owner: u32, group: u32, mode: u32) {
        self.0.give(path, owner, group, mode).unwrap();
    }

    fn remove(&self, path: &Path) {
        self.0.remove(path).unwrap();
    }

    fn hold(&self, path: &Path) -> Box<dyn Any> {
        match self.0.open_device(path) {
            Ok(device) => Box::new(device),
            Err(_) => Box::new(self.0.hold(path).unwrap()),
        }
    }

    fn mount_count(&self) -> usize {
        self.0.mounts().len()
    }

    fn claim_devices(&self) {}

    fn enable_folder_quotas(&self) {
        self.0.enable_folder_quotas();
    }

    fn grows_mounted_ext(&self) -> bool {
        true
    }
}
