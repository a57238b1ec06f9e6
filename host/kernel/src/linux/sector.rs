//! The sector size of an image's loop device. It must not change between two attachments: a file
//! system whose blocks are smaller than a sector does not mount, and a partition table is found
//! only where it was written.
//!
//! Left to itself the kernel takes what direct I/O on the file needs at that moment. On XFS that
//! grows from 512 bytes to 4,096 with the file's first snapshot, and stays.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{FileType, XattrFlags};
use rustix::io::Errno;

use super::head::{EXT, XFS, has};

/// The attribute of an image file that keeps its sector size, in digits. Only root sees it.
const ATTRIBUTE: &str = "trusted.volhost.sector-size";
/// The sector size of most disks, which every file system supports, in bytes.
pub(super) const USUAL: u32 = 512;
/// The other one that disks have, in bytes.
const LARGE: u32 = 4096;

/// Where a GUID partition table's header is, which is in the second sector, and how it begins.
const GPT_MARK: &[u8] = b"EFI PART";
/// What is read of an image, in bytes: the superblocks of the file systems and both places of a
/// partition table's header.
const HEAD_BYTES: usize = 8 << 10;
/// The size of ext's blocks, as a power of two over 1,024.
const EXT_BLOCK: usize = 1024 + 0x18;
const EXT_LARGE: u32 = 2;
/// The size of XFS's sectors.
const XFS_SECTOR: usize = 102;

/// The sector size that the image's device is to have: what is noted at the file, else what its
/// content was made for, else that of the disk below. With `write` it is noted, so that it stays
/// whatever becomes of the file.
pub(super) fn sector_size(image: &File, write: bool) -> u32 {
    if let Some(noted) = noted(image) {
        return noted;
    }
    let size = of_content(image).unwrap_or_else(|| of_disk(image));
    if write {
        // A file system that keeps no attributes: content and disk are asked again next time.
        let _ = rustix::fs::fsetxattr(image, ATTRIBUTE, size.to_string().as_bytes(), XattrFlags::empty());
    }
    size
}

/// Gives a copy of an image the same sector size.
pub(super) fn copy_sector_size(image: &File, copy: &File) {
    let size = sector_size(image, false);
    let _ = rustix::fs::fsetxattr(copy, ATTRIBUTE, size.to_string().as_bytes(), XattrFlags::empty());
}

fn noted(image: &File) -> Option<u32> {
    let mut value = [0; 8];
    let length = rustix::fs::fgetxattr(image, ATTRIBUTE, &mut value).ok()?;
    let text = std::str::from_utf8(value.get(..length)?).ok()?;
    text.parse().ok().filter(|size| matches!(*size, USUAL | LARGE))
}

/// Returns what the image's content asks for; none if it has none that does.
fn of_content(image: &File) -> Option<u32> {
    let mut head = vec![0; HEAD_BYTES];
    let length = image.read_at(&mut head, 0).ok()?;
    head.truncate(length);
    of_head(&head)
}

fn of_head(head: &[u8]) -> Option<u32> {
    if has(head, (USUAL as usize, GPT_MARK)) {
        return Some(USUAL);
    }
    if has(head, (LARGE as usize, GPT_MARK)) {
        return Some(LARGE);
    }
    if has(head, EXT) {
        let log = head.get(EXT_BLOCK..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_le_bytes(*bytes))?;
        return (log < EXT_LARGE).then_some(USUAL);
    }
    if has(head, XFS) {
        let bytes = head.get(XFS_SECTOR..).and_then(|rest| rest.first_chunk())?;
        return (u32::from(u16::from_be_bytes(*bytes)) < LARGE).then_some(USUAL);
    }
    None
}

/// Returns what the disk has on which the image's file system is, as far as the kernel reports it.
/// It does not depend on what was done to the file.
fn of_disk(image: &File) -> u32 {
    let Ok(seen) = rustix::fs::fstat(image) else { return USUAL };
    let is_node = FileType::from_raw_mode(seen.st_mode) == FileType::BlockDevice;
    let number = if is_node { seen.st_rdev } else { seen.st_dev };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let reported = ["queue", "../queue"].into_iter().find_map(|queue| {
        let file = format!("/sys/dev/block/{major}:{minor}/{queue}/logical_block_size");
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    });
    if reported == Some(LARGE) { LARGE } else { USUAL }
}

/// Makes an error of what a device's sectors are too large for; none if they are not.
pub(super) fn too_large(device: &File) -> Result<Option<(u32, u32)>, Errno> {
    let sector = super::ioctl::device_sector(device)?;
    let wanted = of_content(device);
    Ok(wanted.filter(|wanted| *wanted < sector).map(|wanted| (sector, wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::head::head_with;

    #[test]
    fn the_content_of_an_image_decides_its_sectors() {
        for (head, size) in [
            (head_with(&[]), None),
            (head_with(&[(512, GPT_MARK)]), Some(512)),
            (head_with(&[(4096, GPT_MARK)]), Some(4096)),
            (head_with(&[EXT]), Some(512)),
            (head_with(&[EXT, (EXT_BLOCK, &[2])]), None),
            (head_with(&[XFS, (XFS_SECTOR, &[2, 0])]), Some(512)),
            (head_with(&[XFS, (XFS_SECTOR, &[0x10, 0])]), None),
            (Vec::new(), None),
        ] {
            assert_eq!(of_head(&head), size);
        }
    }

    #[test]
    fn what_is_noted_counts_before_all_else() {
        let image = tempfile::tempfile().unwrap();
        image.write_all_at(&head_with(&[(512, GPT_MARK)]), 0).unwrap();
        assert_eq!(sector_size(&image, true), 512);
        if noted(&image).is_none() {
            // Without root, or on a file system without attributes, the content decides.
            return;
        }
        image.write_all_at(&head_with(&[(4096, GPT_MARK)]), 0).unwrap();
        assert_eq!(sector_size(&image, false), 512);
        let copy = tempfile::tempfile().unwrap();
        copy_sector_size(&image, &copy);
        assert_eq!(noted(&copy), Some(512));
    }
}
