//! What is left when storage does not answer.

use std::ffi::OsStr;

use crate::error::Result;
use crate::handle::Directory;

/// Last resorts. Each loses what was not written yet: only a person may ask for one.
/// [`crate::Detach::Lazy`] is the other.
pub trait LastResorts {
    /// Ends the connection to the program that serves the FUSE file system mounted at a name: a
    /// process that waits for its answer gets `ENOTCONN`, now and from now on, in every mount of
    /// it. False, and nothing done, if nothing is mounted there, or no FUSE file system. Does not
    /// ask the server.
    ///
    /// # Errors
    /// `Failed`; `NotFound` where the machine does not show its connections (`fusectl` at
    /// `/sys/fs/fuse/connections`).
    fn end_server(&self, directory: &Directory, name: &OsStr) -> Result<bool>;
}
