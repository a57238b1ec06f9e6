//! A pod that runs through every crash: it has a file open in each of its volumes, as containers
//! do.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, StatxFlags};
use volhost_tests::Node;
use volhost_tests::manifests::pod;

/// `STATX_MNT_ID_UNIQUE` of linux/stat.h: an id that no other mount ever gets.
const UNIQUE_MOUNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);
pub(crate) const POD: &str = "witness";
const UID: &str = "uid-witness";

/// The pod, and the files that it has open.
pub(crate) struct Witness {
    volumes: Vec<(&'static str, &'static str, String)>,
    held: RefCell<Vec<OpenVolume>>,
}

struct OpenVolume {
    path: PathBuf,
    mount: u64,
    file: File,
}

impl Witness {
    /// A pod with these volumes: plugin, name in the pod's folder, and the volume as YAML.
    pub(crate) fn new(volumes: Vec<(&'static str, &'static str, String)>) -> Self {
        Self { volumes, held: RefCell::default() }
    }

    /// A pod with a folder and a tmpfs.
    pub(crate) fn of_folders() -> Self {
        Self::new(vec![
            (super::site::EMPTY_DIR, "kept", "name: kept, emptyDir: {}".to_owned()),
            (super::site::EMPTY_DIR, "fast", "name: fast, emptyDir: { medium: Memory }".to_owned()),
        ])
    }

    pub(crate) fn arrive(&self, node: &Node) {
        let volumes: Vec<&str> = self.volumes.iter().map(|(_, _, yaml)| yaml.as_str()).collect();
        node.manifest("witness.yaml", &pod(POD, UID, &volumes));
        node.wait_mounted(&format!("default/{POD}"));
        let mut held = self.held.borrow_mut();
        for (plugin, name, _) in &self.volumes {
            let path = node.volume(UID, plugin, name);
            fs::write(path.join("witness"), name).unwrap();
            let file = File::open(path.join("witness")).unwrap();
            held.push(OpenVolume { mount: mount_id(&path), path, file });
        }
    }

    /// Each volume is the very mount it was, with the file in it.
    pub(crate) fn check(&self, node: &Node) {
        for held in self.held.borrow().iter() {
            let name = held.path.display();
            assert_eq!(mount_id(&held.path), held.mount, "{name} was unmounted; the daemons' log:\n{}", node.log());
            let (mut open, mut text) = (&held.file, String::new());
            open.seek(SeekFrom::Start(0)).unwrap();
            open.read_to_string(&mut text).unwrap();
            assert_eq!(fs::read_to_string(held.path.join("witness")).unwrap(), text, "{name}");
        }
    }
}

fn mount_id(path: &PathBuf) -> u64 {
    rustix::fs::statx(CWD, path, AtFlags::empty(), UNIQUE_MOUNT_ID).expect("the volume is there").stx_mnt_id
}
