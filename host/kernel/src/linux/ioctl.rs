//! The device calls (`ioctl`) for which there is no safe wrapper. One function a call; what the
//! kernel reads or fills is owned here, and its layout is that of the kernel's headers, which never
//! change it.
#![expect(unsafe_code, reason = "an ioctl is only as safe as the pairing of its number and its argument")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::{Errno, Result};
use rustix::ioctl::{Getter, NoArg, Setter, Updater, ioctl, opcode};

/// Bytes of a loop device's note and of the fields beside it (`LO_NAME_SIZE`, `LO_KEY_SIZE`).
pub(super) const NOTE_BYTES: usize = 64;
const KEY_BYTES: usize = 32;

/// `LO_FLAGS_*`.
pub(super) const LOOP_READ_ONLY: u32 = 1;
pub(super) const LOOP_AUTOCLEAR: u32 = 4;
pub(super) const LOOP_DIRECT_IO: u32 = 16;

// <linux/loop.h>
const LOOP_CLR_FD: u32 = 0x4C01;
const LOOP_SET_STATUS64: u32 = 0x4C04;
const LOOP_GET_STATUS64: u32 = 0x4C05;
const LOOP_SET_CAPACITY: u32 = 0x4C07;
const LOOP_CONFIGURE: u32 = 0x4C0A;
const LOOP_CTL_GET_FREE: u32 = 0x4C82;

/// The description of a loop device (`struct loop_info64`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct LoopStatus {
    /// The file system of the file, as the kernel packs device numbers for users.
    pub(super) device: u64,
    /// The file in it.
    pub(super) inode: u64,
    /// The device that the file is, if it is one.
    pub(super) rdevice: u64,
    /// Where in the file the device begins, and how far it goes (0: to the end).
    pub(super) offset: u64,
    pub(super) size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    pub(super) flags: u32,
    /// Text that the kernel keeps for the creator of the device.
    pub(super) note: [u8; NOTE_BYTES],
    crypt_name: [u8; NOTE_BYTES],
    encrypt_key: [u8; KEY_BYTES],
    init: [u64; 2],
}

impl LoopStatus {
    pub(super) fn new(flags: u32, note: [u8; NOTE_BYTES]) -> Self {
        Self {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags,
            note,
            crypt_name: [0; NOTE_BYTES],
            encrypt_key: [0; KEY_BYTES],
            init: [0; 2],
        }
    }
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    status: LoopStatus,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopStatus>() == 232 && size_of::<LoopConfig>() == 304);

/// The number of a loop device without a file, made if there is none. Another process may be given
/// the same.
pub(super) fn free_loop(control: impl AsFd) -> Result<u32> {
    // The call returns its answer, which `NoArg` would drop. The C libraries' wrappers do not, but
    // differ in the type of the request.
    // SAFETY: this request takes no argument.
    let number = unsafe { libc::syscall(libc::SYS_ioctl, control.as_fd().as_raw_fd(), LOOP_CTL_GET_FREE) };
    u32::try_from(number).map_err(|_| super::syscall::last_errno())
}

/// Gives a free loop device its file and everything else at once. `BUSY` if another process was
/// faster. Its sectors have `sector` bytes; with 0 the kernel chooses by what the file needs at
/// this moment.
pub(super) fn configure_loop(device: impl AsFd, file: BorrowedFd<'_>, sector: u32, status: LoopStatus) -> Result<()> {
    let fd = u32::try_from(file.as_raw_fd()).map_err(|_| Errno::BADF)?;
    let config = LoopConfig { fd, block_size: sector, status, reserved: [0; 8] };
    // SAFETY: the request reads a `struct loop_config`, which `LoopConfig` is, byte for byte.
    unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) }
}

/// Returns the description of a loop device. `NXIO` if it has no file.
pub(super) fn loop_status(device: impl AsFd) -> Result<LoopStatus> {
    // SAFETY: the request fills a `struct loop_info64`, which `LoopStatus` is; any bytes are one.
    unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, LoopStatus>::new()) }
}

/// Changes what may be changed of a loop device in use: of the flags, whether it goes with its last
/// user.
pub(super) fn set_loop_status(device: impl AsFd, status: LoopStatus) -> Result<()> {
    // SAFETY: the request reads a `struct loop_info64`, which `LoopStatus` is.
    unsafe { ioctl(device, Setter::<LOOP_SET_STATUS64, LoopStatus>::new(status)) }
}

/// Takes a loop device's file away: when the last one that has it open closes it.
pub(super) fn clear_loop(device: impl AsFd) -> Result<()> {
    // SAFETY: the request takes no argument.
    unsafe { ioctl(device, NoArg::<LOOP_CLR_FD>::new()) }
}

/// Gives a loop device its file's present size.
pub(super) fn refresh_loop(device: impl AsFd) -> Result<()> {
    // SAFETY: the request takes no argument.
    unsafe { ioctl(device, NoArg::<LOOP_SET_CAPACITY>::new()) }
}

/// Keeps everybody from writing to a mounted file system, after what is only in memory yet was
/// written (`FIFREEZE`). `BUSY` if it is frozen already. It outlives this process.
pub(super) fn freeze(mounted: impl AsFd) -> Result<()> {
    const REQUEST: u32 = opcode::read_write::<libc::c_int>(b'X', 119);
    // SAFETY: the request takes no argument, whatever its number says.
    unsafe { ioctl(mounted, NoArg::<REQUEST>::new()) }
}

/// Ends [`freeze`] (`FITHAW`). `INVAL` if the file system is not frozen.
pub(super) fn thaw(mounted: impl AsFd) -> Result<()> {
    const REQUEST: u32 = opcode::read_write::<libc::c_int>(b'X', 120);
    // SAFETY: the request takes no argument, whatever its number says.
    unsafe { ioctl(mounted, NoArg::<REQUEST>::new()) }
}

/// The size of a block device in bytes (`BLKGETSIZE64`, whose number is made with `size_t`).
pub(super) fn device_bytes(device: impl AsFd) -> Result<u64> {
    const REQUEST: u32 = opcode::read::<usize>(0x12, 114);
    // SAFETY: the request fills a `u64`, whatever its number says.
    unsafe { ioctl(device, Getter::<REQUEST, u64>::new()) }
}

/// The size of a block device's sectors in bytes (`BLKSSZGET`).
pub(super) fn device_sector(device: impl AsFd) -> Result<u32> {
    const REQUEST: u32 = opcode::none(0x12, 104);
    // SAFETY: the request fills an `int`.
    let value = unsafe { ioctl(device, Getter::<REQUEST, libc::c_int>::new()) }?;
    u32::try_from(value).map_err(|_| Errno::INVAL)
}

/// Makes a part of a block device read as zeros, and keeps the room that it takes (`BLKZEROOUT`).
pub(super) fn zero_out(device: impl AsFd, from: u64, bytes: u64) -> Result<()> {
    const REQUEST: u32 = opcode::none(0x12, 127);
    // SAFETY: the request reads two `u64`.
    unsafe { ioctl(device, Setter::<REQUEST, [u64; 2]>::new([from, bytes])) }
}

/// Returns whether a block device refuses writes (`BLKROGET`).
pub(super) fn device_is_read_only(device: impl AsFd) -> Result<bool> {
    const REQUEST: u32 = opcode::none(0x12, 94);
    // SAFETY: the request fills an `int`.
    let value = unsafe { ioctl(device, Getter::<REQUEST, libc::c_int>::new()) }?;
    Ok(value != 0)
}

/// Grows a mounted ext file system to this many of its blocks (`EXT4_IOC_RESIZE_FS`).
pub(super) fn grow_ext(mounted: impl AsFd, blocks: u64) -> Result<()> {
    const REQUEST: u32 = opcode::write::<u64>(b'f', 16);
    // SAFETY: the request reads a `u64`.
    unsafe { ioctl(mounted, Setter::<REQUEST, u64>::new(blocks)) }
}

/// The beginning of what a mounted XFS says of itself (`struct xfs_fsop_geom_v1`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct XfsGeometry {
    /// Bytes of a block.
    pub(super) block_bytes: u32,
    before_percent: [u32; 6],
    /// How much of it inodes may take, in per cent; growing sets it too.
    pub(super) inode_percent: u32,
    /// Blocks of the data section.
    pub(super) data_blocks: u64,
    rest: [u64; 9],
}

/// `struct xfs_growfs_data`.
#[repr(C)]
struct XfsGrow {
    blocks: u64,
    inode_percent: u32,
}

const _: () = assert!(size_of::<XfsGeometry>() == 112 && size_of::<XfsGrow>() == 16);

/// `XFS_IOC_FSGEOMETRY_V1`.
pub(super) fn xfs_geometry(mounted: impl AsFd) -> Result<XfsGeometry> {
    const REQUEST: u32 = opcode::read::<XfsGeometry>(b'X', 100);
    // SAFETY: the request fills a `struct xfs_fsop_geom_v1`, as large as `XfsGeometry`; any bytes
    // are one.
    unsafe { ioctl(mounted, Getter::<REQUEST, XfsGeometry>::new()) }
}

/// Grows a mounted XFS to this many of its blocks (`XFS_IOC_FSGROWFSDATA`).
pub(super) fn grow_xfs(mounted: impl AsFd, blocks: u64, inode_percent: u32) -> Result<()> {
    const REQUEST: u32 = opcode::write::<XfsGrow>(b'X', 110);
    // SAFETY: the request reads a `struct xfs_growfs_data`, which `XfsGrow` is.
    unsafe { ioctl(mounted, Setter::<REQUEST, XfsGrow>::new(XfsGrow { blocks, inode_percent })) }
}

/// A device of a mounted btrfs (`struct btrfs_ioctl_dev_info_args`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct BtrfsDevice {
    id: u64,
    uuid: [u8; 16],
    bytes_used: u64,
    /// As much of the device as the file system has, in bytes.
    pub(super) total_bytes: u64,
    unused: [u64; 379],
    /// The path by which it was mounted, ended by a zero.
    pub(super) path: [u8; 1024],
}

/// `struct btrfs_ioctl_fs_info_args`.
#[repr(C)]
#[derive(Clone, Copy)]
struct BtrfsInfo {
    max_id: u64,
    rest: [u64; 127],
}

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct BtrfsText {
    fd: i64,
    what: [u8; 4088],
}

impl BtrfsText {
    /// Ended by a zero, for which there is always room.
    fn new(text: &[u8]) -> Result<Self> {
        let mut all = Self { fd: 0, what: [0; 4088] };
        if text.len() >= all.what.len() {
            return Err(Errno::NAMETOOLONG);
        }
        for (place, byte) in all.what.iter_mut().zip(text) {
            *place = *byte;
        }
        Ok(all)
    }
}

/// `struct btrfs_ioctl_qgroup_limit_args`.
#[repr(C)]
struct BtrfsLimit {
    /// 0 is the qgroup of the subvolume that the descriptor is of.
    group: u64,
    /// Which of the fields after it count.
    flags: u64,
    max_referenced: u64,
    max_exclusive: u64,
    reserved: [u64; 2],
}

/// `BTRFS_QGROUP_LIMIT_MAX_RFER`.
const BTRFS_MAX_REFERENCED: u64 = 1;

const _: () =
    assert!(size_of::<BtrfsDevice>() == 4096 && size_of::<BtrfsInfo>() == 1024 && size_of::<BtrfsText>() == 4096);
const _: () = assert!(size_of::<BtrfsLimit>() == 48);

/// The highest id of a mounted btrfs's devices (`BTRFS_IOC_FS_INFO`).
pub(super) fn btrfs_max_id(mounted: impl AsFd) -> Result<u64> {
    const REQUEST: u32 = opcode::read::<BtrfsInfo>(0x94, 31);
    // SAFETY: the request fills a `struct btrfs_ioctl_fs_info_args`, as large as `BtrfsInfo`; any
    // bytes are one.
    let info = unsafe { ioctl(mounted, Getter::<REQUEST, BtrfsInfo>::new()) }?;
    Ok(info.max_id)
}

/// One of its devices (`BTRFS_IOC_DEV_INFO`). `NODEV` if none has this id.
pub(super) fn btrfs_device(mounted: impl AsFd, id: u64) -> Result<BtrfsDevice> {
    const REQUEST: u32 = opcode::read_write::<BtrfsDevice>(0x94, 30);
    let mut device =
        BtrfsDevice { id, uuid: [0; 16], bytes_used: 0, total_bytes: 0, unused: [0; 379], path: [0; 1024] };
    // SAFETY: the request reads and fills a `struct btrfs_ioctl_dev_info_args`, as large as
    // `BtrfsDevice`.
    unsafe { ioctl(mounted, Updater::<REQUEST, BtrfsDevice>::new(&mut device)) }?;
    Ok(device)
}

/// Grows a mounted btrfs on one of its devices as far as that goes (`BTRFS_IOC_RESIZE`).
pub(super) fn grow_btrfs(mounted: impl AsFd, id: u64) -> Result<()> {
    const REQUEST: u32 = opcode::write::<BtrfsText>(0x94, 3);
    let resize = BtrfsText::new(format!("{id}:max").as_bytes())?;
    // SAFETY: the request reads a `struct btrfs_ioctl_vol_args`, which `BtrfsText` is.
    unsafe { ioctl(mounted, Setter::<REQUEST, BtrfsText>::new(resize)) }
}

/// Makes an empty subvolume in a folder of a btrfs (`BTRFS_IOC_SUBVOL_CREATE`).
pub(super) fn make_subvolume(folder: impl AsFd, name: &[u8]) -> Result<()> {
    const REQUEST: u32 = opcode::write::<BtrfsText>(0x94, 14);
    let name = BtrfsText::new(name)?;
    // SAFETY: the request reads a `struct btrfs_ioctl_vol_args`, which `BtrfsText` is.
    unsafe { ioctl(folder, Setter::<REQUEST, BtrfsText>::new(name)) }
}

/// Lets the subvolume of an open folder refer to no more than `limit` bytes; none changes nothing
/// (`BTRFS_IOC_QGROUP_LIMIT`). `NOTCONN` if quotas are off.
pub(super) fn limit_subvolume(folder: impl AsFd, limit: Option<u64>) -> Result<()> {
    // Its number says that it is read, though it only writes.
    const REQUEST: u32 = opcode::read::<BtrfsLimit>(0x94, 43);
    let limit = BtrfsLimit {
        group: 0,
        flags: limit.map_or(0, |_| BTRFS_MAX_REFERENCED),
        max_referenced: limit.unwrap_or_default(),
        max_exclusive: 0,
        reserved: [0; 2],
    };
    // SAFETY: the request reads a `struct btrfs_ioctl_qgroup_limit_args`, which `BtrfsLimit` is.
    unsafe { ioctl(folder, Setter::<REQUEST, BtrfsLimit>::new(limit)) }
}

/// `struct fsxattr`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct FileAttributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    /// The project that the file is counted for; 0 if none.
    pub(super) project: u32,
    copy_extent_size: u32,
    pad: [u8; 8],
}

/// `FS_XFLAG_PROJINHERIT`.
const HANDS_PROJECT_DOWN: u32 = 0x200;

const _: () = assert!(size_of::<FileAttributes>() == 28);

impl FileAttributes {
    /// Returns whether what is made in the folder gets its project.
    pub(super) fn hands_project_down(&self) -> bool {
        self.flags & HANDS_PROJECT_DOWN != 0
    }

    /// The same of a folder that belongs to a project, with all that is made in it.
    pub(super) fn with_project(self, project: u32) -> Self {
        Self { project, flags: self.flags | HANDS_PROJECT_DOWN, ..self }
    }
}

/// The attributes of an open file that have no system call of their own (`FS_IOC_FSGETXATTR`).
pub(super) fn file_attributes(file: impl AsFd) -> Result<FileAttributes> {
    const REQUEST: u32 = opcode::read::<FileAttributes>(b'X', 31);
    // SAFETY: the request fills a `struct fsxattr`, which `FileAttributes` is; any bytes are one.
    unsafe { ioctl(file, Getter::<REQUEST, FileAttributes>::new()) }
}

/// Sets them (`FS_IOC_FSSETXATTR`).
pub(super) fn set_file_attributes(file: impl AsFd, attributes: FileAttributes) -> Result<()> {
    const REQUEST: u32 = opcode::write::<FileAttributes>(b'X', 32);
    // SAFETY: the request reads a `struct fsxattr`, which `FileAttributes` is.
    unsafe { ioctl(file, Setter::<REQUEST, FileAttributes>::new(attributes)) }
}
