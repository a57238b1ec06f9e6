//! FUSE file systems whose server has ended. The CO does not notice by itself. The next call for
//! the volume does: a dead mount counts as none, and is made again.

use std::ffi::OsStr;

use rustix::io::Errno;
use volhost_kernel::{Detach, Directory, KernelError};

use crate::check::shown;
use crate::driver::ServedPlugin;
use crate::refusal::{Refusal, Result};

/// The import of a plugin that starts FUSE servers.
const IMPORT: &str = "fuse-servers";
/// The beginning of a FUSE file system's type.
const FUSE: &str = "fuse.";

impl ServedPlugin {
    /// Returns whether the plugin starts FUSE servers, whose mounts die with them.
    pub(crate) fn has_mounts_that_die(&self) -> bool {
        self.plugin.info().imports.iter().any(|interface| interface == IMPORT)
    }

    /// Returns why the mount is dead; none when it is not, or is not a FUSE server's. Does nothing
    /// that may hang: a running server counts as alive, and the mounts of a plugin without FUSE
    /// servers are not checked.
    ///
    /// # Errors
    /// [`Refusal`] when it cannot be found out.
    pub(crate) fn dead(&self, parent: &Directory, name: &OsStr) -> Result<Option<String>> {
        if !self.has_mounts_that_die() {
            return Ok(None);
        }
        let failed = |source| Refusal::kernel("looking at", shown(&name.to_string_lossy()), source);
        let Some(mount) = self.kernel.mount_at(parent, name).map_err(failed)? else { return Ok(None) };
        if !mount.fs_type.starts_with(FUSE) {
            return Ok(None);
        }
        let Err(ended) = self.fuse_servers.still_serves(&mount.source.to_string_lossy()) else { return Ok(None) };
        let has_no_server = |error: &KernelError| error.errno() == Some(Errno::NOTCONN);
        match self.kernel.usage(parent, name) {
            Err(error) if has_no_server(&error) => Ok(Some(ended.to_string())),
            _ => Ok(None),
        }
    }

    /// Unmounts a dead mount. Returns false if there is none.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn take_dead_away(&self, parent: &Directory, name: &OsStr) -> Result<bool> {
        if self.dead(parent, name)?.is_none() {
            return Ok(false);
        }
        let failed = |source| Refusal::kernel("unmounting", shown(&name.to_string_lossy()), source);
        // A process that still has it open gets errors from it for good; do not wait for it.
        self.kernel.detach(parent, name, Detach::Lazy).map_err(failed)?;
        Ok(true)
    }
}
