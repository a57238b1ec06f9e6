//! A tar archive of small files, in the `ustar` format of POSIX.

/// The unit of an archive, in bytes.
const BLOCK: usize = 512;
/// The longest name that a header has room for, in bytes.
const NAME_BYTES: usize = 100;
/// Only the owner reads what is unpacked.
const MODE: &[u8] = b"0000600\0";

/// An archive that is being made.
#[derive(Debug, Default)]
pub(super) struct Archive(Vec<u8>);

impl Archive {
    /// Adds a file, modified at this time in seconds since the Unix epoch. A name that is too long
    /// is cut: those of the bundle are not.
    pub(super) fn add(&mut self, name: &str, content: &[u8], modified: u64) {
        let mut header = [0_u8; BLOCK];
        put(&mut header, 0, name.as_bytes().get(..NAME_BYTES).unwrap_or(name.as_bytes()));
        put(&mut header, 100, MODE);
        // User and group: root.
        put(&mut header, 108, b"0000000\0");
        put(&mut header, 116, b"0000000\0");
        put(&mut header, 124, format!("{:011o}\0", content.len()).as_bytes());
        put(&mut header, 136, format!("{modified:011o}\0").as_bytes());
        // The sum counts its own field as blanks.
        put(&mut header, 148, b"        ");
        put(&mut header, 156, b"0");
        put(&mut header, 257, b"ustar\x0000");
        let sum: u32 = header.iter().copied().map(u32::from).sum();
        put(&mut header, 148, format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(content);
        let padding = content.len().next_multiple_of(BLOCK) - content.len();
        self.0.extend(std::iter::repeat_n(0, padding));
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.extend(std::iter::repeat_n(0, 2 * BLOCK));
        self.0
    }
}

fn put(header: &mut [u8], at: usize, bytes: &[u8]) {
    for (place, byte) in header.iter_mut().skip(at).zip(bytes) {
        *place = *byte;
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn tar_unpacks_what_was_added() {
        let mut archive = Archive::default();
        let long = vec![b'x'; 1000];
        archive.add("bundle/a.txt", b"one\n", 1_700_000_000);
        archive.add("bundle/empty", b"", 1_700_000_000);
        archive.add("bundle/long", &long, 1_700_000_000);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.tar");
        std::fs::write(&file, archive.finish()).unwrap();
        let done =
            Command::new("tar").args(["-C", folder.path().to_str().unwrap(), "-xf"]).arg(&file).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
        let read = |name: &str| std::fs::read(folder.path().join("bundle").join(name)).unwrap();
        assert_eq!((read("a.txt"), read("empty"), read("long")), (b"one\n".to_vec(), vec![], long));
    }
}
