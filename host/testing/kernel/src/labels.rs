//! SELinux, if the test gave it to the machine.

use volhost_kernel::{Labels, Result};

use super::{InMemoryKernel, lock};

impl Labels for InMemoryKernel {
    fn container_file_label(&self) -> Result<Option<String>> {
        Ok(lock(&self.state).container_file_label.clone())
    }
}
