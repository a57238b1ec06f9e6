//! Loop devices: files as block devices.

use std::path::{Path, PathBuf};

use crate::block_devices::BlockDevice;
use crate::error::Result;
use crate::handle::MountSource;

/// Primitives over loop devices and the files below them.
///
/// # Guarantees
/// A file has one device, however often it is asked for: devices are found by what the kernel says
/// of the file (its file system and inode), so one that an earlier process left is found too.
/// Attaching and detaching take the file's lock (`flock`), so of two at once one sees what the
/// other did. A device stays until it is detached.
pub trait LoopDevices {
    /// Makes a file of at least this many bytes, all holes, readable by its owner alone (0600), and
    /// opens it. An existing file is opened and grown if it is smaller. Its parent must exist and
    /// lie in one of `roots`.
    ///
    /// # Errors
    /// As [`crate::Kernel::create_host_file`]; `Failed` (`NoSpace` where the file system can't have
    /// so large a file).
    fn create_image(&self, path: &Path, roots: &[PathBuf], bytes: u64) -> Result<MountSource>;

    /// Makes a file at least this large; a larger one is left as it is. Returns its size in bytes.
    ///
    /// # Errors
    /// `WrongType` if it is no regular file; `Failed`.
    fn set_file_size(&self, file: &MountSource, bytes: u64) -> Result<u64>;

    /// The file's device, made if there is none. Data goes past the page cache (direct I/O) where
    /// the file system can. With `read_only` a new device refuses writes; one that exists stays as
    /// it is but for its size, so mount it read-only too.
    ///
    /// A file's devices all have sectors of the same size, also after a snapshot: it is noted at
    /// the file (in an extended attribute) when it is first attached for writing.
    ///
    /// # Errors
    /// `WrongType` if it is no regular file; `DeviceError::ReadOnly` if its device refuses writes
    /// and they are wanted; `Failed`.
    fn attach_loop(&self, file: &MountSource, read_only: bool) -> Result<BlockDevice>;

    /// The file's device, none if it has none.
    ///
    /// # Errors
    /// `Failed`.
    fn find_loop(&self, file: &MountSource) -> Result<Option<BlockDevice>>;

    /// Takes the file's device away. None: done.
    ///
    /// # Errors
    /// `Failed` (`Busy`) while it is mounted, pinned or opened for longer than a look at it; then
    /// it stays whole.
    fn detach_loop(&self, file: &MountSource) -> Result<()>;

    /// Takes away the devices over files that were attached at this path and are removed by now,
    /// whether or not another file is there. None: done. The path must lie in one of `roots`.
    ///
    /// The kernel shows the path of a removed file still, and the note that [`attach_loop`] gave
    /// the device has it too: a device of another program, and one over a file that is there, is
    /// none of these.
    ///
    /// # Errors
    /// As [`crate::Kernel::open_host_path`], and [`detach_loop`].
    ///
    /// [`attach_loop`]: LoopDevices::attach_loop
    /// [`detach_loop`]: LoopDevices::detach_loop
    fn detach_removed_loops(&self, path: &Path, roots: &[PathBuf]) -> Result<()>;

    /// Gives the device its file's present size.
    ///
    /// # Errors
    /// `Failed`.
    fn refresh_loop_size(&self, device: &BlockDevice) -> Result<()>;
}
