//! Layers of images, unpacked: whatever the entries of an archive are, nothing is made or changed
//! outside of the layer's folder, and nothing in it changes its user. The input is a list of
//! entries, of which a valid archive is made: random archives would end at their checksums.
#![no_main]

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tar::{EntryType, Header};
use volhost_model::images::PullWatch;
use volhost_model::oci::Digest;

#[allow(dead_code, reason = "what pulls use")]
#[path = "../../host/images/src/layer.rs"]
mod layer;
#[allow(dead_code, reason = "what pulls use")]
#[path = "../../host/images/src/manifest.rs"]
mod manifest;
#[allow(dead_code, reason = "what pulls use")]
#[path = "../../host/images/src/tree.rs"]
mod tree;

mod folders {
    pub(crate) fn is_full(_: &std::io::Error) -> bool {
        false
    }
}

const KINDS: [EntryType; 8] = [
    EntryType::Directory,
    EntryType::Regular,
    EntryType::Symlink,
    EntryType::Link,
    EntryType::Fifo,
    EntryType::Char,
    EntryType::XHeader,
    EntryType::GNULongName,
];
/// The most that a layer unpacks to, in bytes.
const MOST: u64 = 1 << 20;

struct Wanted;

impl PullWatch for Wanted {
    fn progress(&self, _: String) {}
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Takes a byte, and as many as it says.
fn text<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let Some((count, rest)) = bytes.split_first() else { return &[] };
    let (taken, rest) = rest.split_at(usize::from(count % 32).min(rest.len()));
    *bytes = rest;
    taken
}

/// Writes the archive whose entries the bytes say.
fn archive(mut bytes: &[u8], to: &mut impl Write) -> std::io::Result<()> {
    while let [kind, mode, rest @ ..] = bytes {
        bytes = rest;
        let (name, target, content) = (text(&mut bytes), text(&mut bytes), text(&mut bytes));
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
        header.set_entry_type(KINDS[usize::from(*kind) % KINDS.len()]);
        header.set_mode(0o6000 | u32::from(*mode));
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        header.set_cksum();
        to.write_all(header.as_bytes())?;
        let mut block = [0; 512];
        block[..content.len()].copy_from_slice(content);
        to.write_all(if content.is_empty() { &[] } else { &block })?;
    }
    to.write_all(&[0; 1024])
}

fn check(folder: &Path) {
    for entry in fs::read_dir(folder).expect("the layer can be read") {
        let path = entry.expect("an entry").path();
        let about = path.symlink_metadata().expect("it is there");
        assert_eq!(about.permissions().mode() & 0o6000, 0, "{path:?} changes its user");
        assert!(!about.file_type().is_block_device(), "{path:?}");
        assert!(!about.file_type().is_char_device() || about.rdev() == 0, "{path:?} is a device");
        if about.is_dir() {
            check(&path);
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let around = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let (folder, outside) = (around.path().join("layer"), around.path().join("outside"));
    fs::create_dir(&folder).expect("a folder");
    fs::write(&outside, "untouched").expect("a file");
    let mode = outside.metadata().expect("it is there").permissions().mode();
    let mut blob: File = tempfile::tempfile_in("/dev/shm").expect("a file in memory");
    archive(bytes, &mut blob).expect("the archive is written");
    blob.seek(SeekFrom::Start(0)).expect("a file in memory");
    let layer = manifest::Layer {
        blob: manifest::Blob { digest: Digest::of(b""), size: 0 },
        compression: manifest::Compression::None,
        unpacked: None,
    };
    if let Err(error) = layer::unpack(blob, &layer, &folder, MOST, &Wanted) {
        assert!(!error.to_string().is_empty());
    }
    let mut names: Vec<_> =
        fs::read_dir(around.path()).expect("it is there").map(|entry| entry.expect("one").file_name()).collect();
    names.sort();
    assert_eq!(names, ["layer", "outside"]);
    assert_eq!(fs::read_to_string(&outside).expect("it is there"), "untouched");
    let about = outside.metadata().expect("it is there");
    assert_eq!((about.permissions().mode(), about.nlink()), (mode, 1));
    check(&folder);
});
