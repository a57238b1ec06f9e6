//! The first bytes of a device or an image, and the marks of file systems in them.

/// A mark: its place in bytes from the beginning, and its bytes.
pub(super) type Mark = (usize, &'static [u8]);

/// ext's, in its superblock, which begins at 1,024.
pub(super) const EXT: Mark = (1024 + 0x38, &super::ext_superblock::MARK);
/// XFS's, which begins its superblock.
pub(super) const XFS: Mark = (0, b"XFSB");

/// Returns whether these first bytes have these at this place.
pub(super) fn has(head: &[u8], (at, bytes): (usize, &[u8])) -> bool {
    head.get(at..).is_some_and(|rest| rest.starts_with(bytes))
}

/// First bytes with these in their places, and zeros elsewhere.
#[cfg(test)]
pub(super) fn head_with(marks: &[(usize, &[u8])]) -> Vec<u8> {
    let mut head = vec![0; 8 << 10];
    for (at, bytes) in marks {
        head[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    head
}
