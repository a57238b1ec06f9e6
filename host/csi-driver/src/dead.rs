//! File systems that nobody serves any more, as the program that did has ended. The CO is not told of it by itself, so whatever it asks for
//! next finds out: a dead mount counts as none, and is made again.

use std::ffi::OsStr;

use rustix::io::Errno;
use volhost_kernel::{Detach, Directory, KernelError};

use crate::check::shown;
use crate::driver::Driver;
use crate::refusal::{Refusal, Result};

/// The import of a plugin that starts FUSE servers.
const IMPORT: &str = "fuse-servers";
/// The prefix of the types of FUSE file systems.
const FUSE: &str = "fuse.";

impl Driver {
    /// Why the mount there is dead; none when it is not, or is of no FUSE server. No file system that may hang is asked: a server that
    /// runs is trusted, and the mounts of a plugin without FUSE servers are left alone.
    ///
    /// # Errors
    /// [`Refusal`] when it cannot be told.
    pub(crate) fn dead(&self, parent: &Directory, name: &OsStr) -> Result<Option<String>> {
        if !self.plugin.info().imports.iter().any(|interface| interface == IMPORT) {
            return Ok(None);
        }
        let failed = |source| Refusal::kernel("looking at", shown(&name.to_string_lossy()), source);
        let Some(mount) = self.kernel.mount_at(parent, name).map_err(failed)? else { return Ok(None) };
        if !mount.fs_type.starts_with(FUSE) {
            return Ok(None);
        }
        let Err(ended) = self.fuse_servers.still_serves(&mount.source.to_string_lossy()) else { return Ok(None) };
        let nobody_serves = |error: &KernelError| error.errno() == Some(Errno::NOTCONN);
        match self.kernel.usage(parent, name) {
            Err(error) if nobody_serves(&error) => Ok(Some(ended.to_string())),
            _ => Ok(None),
        }
    }

    /// Takes a dead mount away. False if there is none.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn take_dead_away(&self, parent: &Directory, name: &OsStr) -> Result<bool> {
        if self.dead(parent, name)?.is_none() {
            return Ok(false);
        }
        let failed = |source| Refusal::kernel("taking away", shown(&name.to_string_lossy()), source);
        // Whoever still has it open gets errors from it for good; waiting for them helps nobody.
        self.kernel.detach(parent, name, Detach::Lazy).map_err(failed)?;
        Ok(true)
    }
}
