//! The twin has no file systems of servers, so there is none to end.

use std::ffi::OsStr;

use super::TwinKernel;
use crate::handle::Directory;
use crate::kernel::{Kernel, Result};
use crate::last_resorts::LastResorts;
use crate::names::check_name;

impl LastResorts for TwinKernel {
    fn end_server(&self, directory: &Directory, name: &OsStr) -> Result<bool> {
        check_name(name)?;
        self.mount_at(directory, name).map(|_| false)
    }
}
