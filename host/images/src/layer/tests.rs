//! Layers as strangers may make them. Owners, whiteouts and attributes need root.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use flate2::write::GzEncoder;
use tar::{Builder, Header};
use tempfile::TempDir;

use super::*;

/// The size of an archive's block, in bytes.
const BLOCK: usize = 512;

struct Wanted;

impl PullWatch for Wanted {
    fn progress(&self, _: String) {}
    fn is_cancelled(&self) -> bool {
        false
    }
}

struct Unwanted;

impl PullWatch for Unwanted {
    fn progress(&self, _: String) {}
    fn is_cancelled(&self) -> bool {
        true
    }
}

/// An entry with exactly this name, which the library would refuse to write.
fn header(kind: EntryType, name: &str, target: &str, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.as_gnu_mut().unwrap().linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o4755);
    header.set_uid(1000);
    header.set_gid(1001);
    header.set_mtime(1_000_000_000);
    header.set_size(size);
    header.set_cksum();
    header
}

struct Archived(Builder<Vec<u8>>);

impl Archived {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    fn entry(mut self, kind: EntryType, name: &str, target: &str) -> Self {
        self.0.append(&header(kind, name, target, 0), std::io::empty()).unwrap();
        self
    }

    fn folder(self, name: &str) -> Self {
        self.entry(EntryType::Directory, name, "")
    }

    fn file(mut self, name: &str, content: &[u8]) -> Self {
        self.0.append(&header(EntryType::Regular, name, "", content.len() as u64), content).unwrap();
        self
    }

    fn extension(mut self, kind: EntryType, content: &[u8]) -> Self {
        self.0.append(&header(kind, "extension", "", content.len() as u64), content).unwrap();
        self
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }

    fn unpack(self) -> (TempDir, Result<u64, LayerError>) {
        unpacked(&self.bytes(), Compression::None, None, 1 << 30)
    }
}

fn unpacked(
    blob: &[u8],
    compression: Compression,
    archive: Option<Digest>,
    most: u64,
) -> (TempDir, Result<u64, LayerError>) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("layer")).unwrap();
    fs::write(folder.path().join("outside"), "outside").unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(blob).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let blob = Blob { digest: Digest::of(blob), size: blob.len() as u64 };
    let layer = Layer { blob, compression, unpacked: archive };
    let result = unpack(file, &layer, &folder.path().join("layer"), most, &Wanted);
    assert_eq!(fs::read_to_string(folder.path().join("outside")).unwrap(), "outside");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing appears outside of the layer");
    (folder, result)
}

#[test]
fn files_get_owner_mode_and_time_and_no_other_users_rights() {
    let (folder, result) = Archived::new()
        .folder("d/")
        .file("d/f", b"content")
        .entry(EntryType::Symlink, "d/l", "../../../etc/passwd")
        .entry(EntryType::Link, "d/h", "d/f")
        .entry(EntryType::Fifo, "d/p", "")
        .entry(EntryType::Char, "d/null", "")
        .entry(EntryType::Block, "d/disk", "")
        .unpack();
    result.unwrap();
    let at = |name: &str| folder.path().join("layer/d").join(name);
    let file = fs::metadata(at("f")).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777, file.mtime()), (1000, 1001, 0o755, 1_000_000_000));
    let folder = fs::metadata(at("")).unwrap();
    assert_eq!((folder.mode() & 0o7777, folder.mtime()), (0o755, 1_000_000_000), "set after its files were made");
    assert_eq!(fs::read_link(at("l")).unwrap(), Path::new("../../../etc/passwd"));
    assert_eq!(fs::metadata(at("h")).unwrap().ino(), file.ino());
    assert!(fs::metadata(at("p")).unwrap().file_type().is_fifo());
    assert!(!at("null").exists() && !at("disk").exists(), "devices are left out");
}

#[test]
fn no_name_leads_out_of_the_layer() {
    for archive in [
        Archived::new().file("../outside", b"x"),
        Archived::new().file("a/../../outside", b"x"),
        Archived::new().folder(".."),
        Archived::new().entry(EntryType::Symlink, "../link", "x"),
        Archived::new().file("f", b"x").entry(EntryType::Link, "h", "../outside"),
        Archived::new().file("../.wh.outside", b""),
        Archived::new().file("d/.wh...", b""),
        Archived::new().file("d/.wh.", b""),
    ] {
        let (_folder, result) = archive.unpack();
        assert!(matches!(result, Err(LayerError::Tree(TreeError::Path(_)))), "{result:?}");
    }
}

#[test]
fn links_of_the_layer_lead_to_the_layer_alone() {
    // As in a container: the link's target is below the layer's root.
    let (folder, result) = Archived::new()
        .folder("usr/")
        .entry(EntryType::Symlink, "up", "../..")
        .entry(EntryType::Symlink, "absolute", "/usr")
        .file("up/outside", b"inside")
        .file("absolute/f", b"inside")
        .file("/etc/f", b"inside")
        .unpack();
    result.unwrap();
    for name in ["outside", "usr/f", "etc/f"] {
        assert_eq!(fs::read_to_string(folder.path().join("layer").join(name)).unwrap(), "inside", "{name}");
    }
    // A file replaces a link, and is not written through it.
    let (folder, result) = Archived::new().entry(EntryType::Symlink, "f", "../outside").file("f", b"replaced").unpack();
    result.unwrap();
    assert!(folder.path().join("layer/f").symlink_metadata().unwrap().is_file());
    for archive in [
        Archived::new().entry(EntryType::Symlink, "l", "../outside").entry(EntryType::Link, "h", "l/x"),
        Archived::new().entry(EntryType::Link, "h", "missing"),
        Archived::new().folder("d").entry(EntryType::Link, "h", "d"),
        Archived::new().entry(EntryType::Symlink, "a", "b").entry(EntryType::Symlink, "b", "a").file("a/f", b""),
        Archived::new().file("f", b"").file("f/inside", b""),
        Archived::new().file("d/f", b"").file("d", b""),
    ] {
        assert!(archive.unpack().1.is_err());
    }
}

#[test]
fn whiteouts_become_those_of_overlay() {
    let (folder, result) = Archived::new()
        .file("d/.wh.gone", b"")
        .file("d/.wh..wh..opq", b"")
        .file("d/.wh..wh.plnk", b"")
        .file("kept", b"")
        .file(".wh.kept", b"")
        .unpack();
    result.unwrap();
    let at = |name: &str| folder.path().join("layer").join(name);
    let gone = fs::symlink_metadata(at("d/gone")).unwrap();
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(at("d"), "trusted.overlay.opaque", &mut value).unwrap();
    assert_eq!(&value[..length], b"y");
    assert_eq!(fs::read_dir(at("d")).unwrap().count(), 1);
    assert!(at("kept").is_file());
}

#[test]
fn attributes_of_an_archive_are_not_overlays() {
    // `LENGTH KEY=VALUE\n`, the length of it all included.
    let record = "SCHILY.xattr.trusted.overlay.opaque=y\n";
    let record = format!("{} {record}", record.len() + 3);
    let (folder, result) = Archived::new().extension(EntryType::XHeader, record.as_bytes()).folder("d").unpack();
    result.unwrap();
    let mut value = [0; 8];
    assert!(rustix::fs::getxattr(folder.path().join("layer/d"), "trusted.overlay.opaque", &mut value).is_err());
}

#[test]
fn long_names_are_read_and_endless_ones_refused() {
    let long = format!("{}/f", "d".repeat(200));
    let record = format!("path={long}\n");
    let record = format!("{} {record}", record.len() + 4);
    for archive in [
        Archived::new().extension(EntryType::GNULongName, format!("{long}\0").as_bytes()).file("short", b"x"),
        Archived::new().extension(EntryType::XHeader, record.as_bytes()).file("short", b"x"),
    ] {
        let (folder, result) = archive.unpack();
        result.unwrap();
        assert!(folder.path().join("layer").join(&long).is_file());
    }
    let endless = vec![b'a'; 2 << 20];
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader, EntryType::XGlobalHeader] {
        assert!(Archived::new().extension(kind, &endless).file("f", b"").unpack().1.is_err());
    }
    let deep = "d/".repeat(2000);
    let (_folder, result) = Archived::new().extension(EntryType::GNULongName, deep.as_bytes()).file("f", b"").unpack();
    assert!(matches!(result, Err(LayerError::Tree(TreeError::Path(_)))), "{result:?}");
}

#[test]
fn a_layer_that_unpacks_to_too_much_is_refused() {
    let archive = Archived::new().file("zeros", &vec![0; 4 << 20]).bytes();
    let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&archive).unwrap();
    let packed = packed.finish().unwrap();
    assert!(packed.len() < 1 << 16);
    let (_folder, result) = unpacked(&packed, Compression::Gzip, None, 1 << 20);
    assert!(matches!(result, Err(LayerError::TooLarge { .. })), "{result:?}");
    // Zeros after the archive's end, too.
    let mut endless = Archived::new().file("f", b"x").bytes();
    endless.extend(vec![0; 4 << 20]);
    let (_folder, result) = unpacked(&endless, Compression::None, None, 1 << 20);
    assert!(matches!(result, Err(LayerError::TooLarge { .. })), "{result:?}");
    let many = (0..100).fold(Archived::new(), |archive, number| archive.file(&format!("f{number}"), b""));
    let (_folder, result) = unpacked(&many.bytes(), Compression::None, None, 10 * ENTRY_BYTES);
    assert!(matches!(result, Err(LayerError::TooLarge { .. })), "{result:?}");
}

#[test]
fn every_compression_is_read_and_a_cut_one_is_refused() {
    let archive = Archived::new().file("f", &vec![b'x'; 100_000]).bytes();
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&archive).unwrap();
    let gzip = gzip.finish().unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let (first, second) = archive.split_at(archive.len() / 2);
    let mut zstd = ruzstd::encoding::compress_to_vec(first, level);
    // A frame without content between two with.
    zstd.extend([0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4]);
    zstd.extend(ruzstd::encoding::compress_to_vec(second, level));
    let whole = Some(Digest::of(&archive));
    for (blob, compression) in [(&archive, Compression::None), (&gzip, Compression::Gzip), (&zstd, Compression::Zstd)] {
        let (folder, result) = unpacked(blob, compression, whole.clone(), 1 << 30);
        assert_eq!(result.unwrap(), 100_000 + ENTRY_BYTES);
        assert_eq!(fs::metadata(folder.path().join("layer/f")).unwrap().len(), 100_000);
        let cut = &blob[..blob.len() - blob.len() / 3 - BLOCK.min(blob.len() / 3)];
        assert!(unpacked(cut, compression, None, 1 << 30).1.is_err(), "{compression:?}");
        let (_folder, other) = unpacked(blob, compression, Some(Digest::of(b"other")), 1 << 30);
        assert!(matches!(other, Err(LayerError::Digest { .. })), "{other:?}");
    }
    for compression in [Compression::Gzip, Compression::Zstd] {
        assert!(unpacked(b"no such thing", compression, None, 1 << 30).1.is_err());
    }
}

#[test]
fn a_blob_must_be_what_the_manifest_says() {
    let blob = Blob { digest: Digest::of(b"content"), size: 7 };
    let receive = |content: &[u8]| {
        let mut file = BlobFile::new(tempfile::tempfile().unwrap(), blob.size);
        file.take(content)?;
        file.finish(&blob).map(drop)
    };
    receive(b"content").unwrap();
    assert!(matches!(receive(b"conten"), Err(LayerError::Size { .. })));
    assert!(matches!(receive(b"content!"), Err(LayerError::Size { .. })));
    assert!(matches!(receive(b"contend"), Err(LayerError::Digest { .. })));
}

#[test]
fn a_pull_that_is_no_longer_wanted_ends() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = Archived::new().file("f", b"x").bytes();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let blob = Blob { digest: Digest::of(&bytes), size: bytes.len() as u64 };
    let layer = Layer { blob, compression: Compression::None, unpacked: None };
    assert!(matches!(unpack(file, &layer, folder.path(), 1 << 20, &Unwanted), Err(LayerError::Cancelled)));
}
