//! The twin has SELinux if it was told to.

use super::{TwinKernel, lock};
use crate::kernel::Result;
use crate::labels::Labels;

impl Labels for TwinKernel {
    fn container_file_label(&self) -> Result<Option<String>> {
        Ok(lock(&self.state).container_file_label.clone())
    }
}
