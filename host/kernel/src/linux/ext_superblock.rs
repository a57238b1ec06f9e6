//! What the superblock of an ext file system says of its size: asked of the device, so that it can
//! be asked of one that is not mounted, too.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

/// Where an ext file system has its superblock, how much of it is read, and the places of fields in
/// it (ext4(5)'s layout: Documentation/filesystems/ext4/super.rst).
const SUPERBLOCK: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
const MARK_PLACE: u64 = 0x38;
pub(super) const MARK: [u8; 2] = [0x53, 0xEF];
const BLOCKS_LOW: usize = 0x4;
const FIRST_BLOCK: usize = 0x14;
const LOG_BLOCK_SIZE: usize = 0x18;
const LOG_CLUSTER_SIZE: usize = 0x1C;
const BLOCKS_PER_GROUP: usize = 0x20;
const INODES_PER_GROUP: usize = 0x28;
const INODE_BYTES: usize = 0x58;
const INCOMPATIBLE: usize = 0x60;
const RESERVED_DESCRIPTOR_BLOCKS: usize = 0xCE;
const DESCRIPTOR_BYTES: usize = 0xFE;
const BLOCKS_HIGH: usize = 0x150;
const FEATURE_64BIT: u32 = 0x80;
/// A block is this many bytes, shifted; the kernel has none beyond 64 KiB.
const LEAST_BLOCK: u64 = 1024;
const MOST_SHIFT: u32 = 6;
/// resize2fs cuts a size to whole pages of memory, whose largest size this is, in bytes.
const PAGE_BYTES: u64 = 64 << 10;
/// The bitmaps of a group, and the blocks for data without which resize2fs makes no group.
const GROUP_LEAST_BLOCKS: u64 = 2 + 50;
/// The least size of a group's descriptor, in bytes.
const LEAST_DESCRIPTOR: u64 = 32;

/// How large an ext file system is.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExtSize {
    blocks: u64,
    block_bytes: u64,
    cluster_bytes: u64,
    first_block: u64,
    blocks_per_group: u64,
    /// The blocks that a group's own tables take at most.
    table_blocks: u64,
}

impl ExtSize {
    fn read(superblock: &[u8]) -> Self {
        let field = |at: usize| {
            let bytes = superblock.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let half = |at: usize| {
            let bytes = superblock.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from(u16::from_le_bytes(*bytes)))
        };
        let high = if field(INCOMPATIBLE) & FEATURE_64BIT == 0 { 0 } else { field(BLOCKS_HIGH) };
        let blocks = u64::from(field(BLOCKS_LOW)) | (u64::from(high) << 32);
        let bytes = |log: usize| LEAST_BLOCK << field(log).min(MOST_SHIFT);
        let (block_bytes, blocks_per_group) = (bytes(LOG_BLOCK_SIZE), u64::from(field(BLOCKS_PER_GROUP)));
        let inodes = u64::from(field(INODES_PER_GROUP)).saturating_mul(half(INODE_BYTES));
        let groups = blocks.checked_div(blocks_per_group).unwrap_or_default().saturating_add(1);
        let descriptors = groups.saturating_mul(half(DESCRIPTOR_BYTES).max(LEAST_DESCRIPTOR));
        // As in a group with a copy of the superblock.
        let copy = descriptors.div_ceil(block_bytes).saturating_add(half(RESERVED_DESCRIPTOR_BLOCKS)).saturating_add(1);
        Self {
            blocks,
            block_bytes,
            cluster_bytes: bytes(LOG_CLUSTER_SIZE),
            first_block: u64::from(field(FIRST_BLOCK)),
            blocks_per_group,
            table_blocks: inodes.div_ceil(block_bytes).saturating_add(copy),
        }
    }

    /// Bytes it spans.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.block_bytes)
    }

    /// Bytes of a block.
    pub(super) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Returns whether it can become larger on a device of so many bytes. It cannot where the rest
    /// of the device is too small for the tables of another group of blocks.
    pub(super) fn can_grow_to(&self, device_bytes: u64) -> bool {
        let rest = device_bytes.saturating_sub(self.bytes());
        if rest < PAGE_BYTES.max(self.cluster_bytes) {
            return false;
        }
        let ends_with_group =
            self.blocks.saturating_sub(self.first_block).checked_rem(self.blocks_per_group) == Some(0);
        !ends_with_group || rest / self.block_bytes >= self.table_blocks.saturating_add(GROUP_LEAST_BLOCKS)
    }
}

/// The size of the ext file system on a device. The kernel keeps the superblock up to date in the
/// device's own cache while it is mounted.
pub(super) fn ext_size(device: &File) -> Result<ExtSize, Errno> {
    let mut superblock = vec![0; SUPERBLOCK_BYTES];
    let read = device.read_exact_at(&mut superblock, SUPERBLOCK);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(ExtSize::read(&superblock))
}

/// Returns whether a device has the mark of an ext file system in its superblock.
pub(super) fn has_ext_mark(device: &File) -> Result<bool, Errno> {
    let mut mark = [0; MARK.len()];
    let read = device.read_exact_at(&mut mark, SUPERBLOCK + MARK_PLACE);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(mark == MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of 4 KiB blocks and groups of 128 MiB, whose inodes take 512 blocks of each.
    fn size(blocks: u32) -> ExtSize {
        let mut superblock = vec![0; SUPERBLOCK_BYTES];
        for (at, value) in [
            (BLOCKS_LOW, blocks),
            (LOG_BLOCK_SIZE, 2),
            (LOG_CLUSTER_SIZE, 2),
            (BLOCKS_PER_GROUP, 32_768),
            (INODES_PER_GROUP, 8192),
        ] {
            superblock[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        superblock[INODE_BYTES..INODE_BYTES + 2].copy_from_slice(&256_u16.to_le_bytes());
        ExtSize::read(&superblock)
    }

    #[test]
    fn it_grows_by_what_another_group_needs_at_least() {
        let whole = size(32_768);
        assert_eq!((whole.bytes(), whole.block_bytes()), (128 << 20, 4096));
        for (more, can) in [(0, false), (1 << 20, false), (2 << 20, false), (3 << 20, true), (128 << 20, true)] {
            assert_eq!(whole.can_grow_to((128 << 20) + more), can, "{more}");
        }
        // Within its last group it grows by any page.
        let part = size(16_384);
        for (more, can) in [(4096, false), (64 << 10, true), (1 << 20, true)] {
            assert_eq!(part.can_grow_to((64 << 20) + more), can, "{more}");
        }
        assert!(!part.can_grow_to(0));
    }

    #[test]
    fn a_superblock_of_zeros_is_no_reason_to_panic() {
        let none = ExtSize::read(&[]);
        assert_eq!(none.bytes(), 0);
        assert!(none.can_grow_to(1 << 20));
    }
}
