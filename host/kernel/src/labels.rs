//! Security labels of files.

use crate::error::Result;

/// SELinux labels of the machine.
pub trait Labels {
    /// The label that files of containers have by default, from the machine's policy
    /// (`system_u:object_r:container_file_t:s0`). None if the kernel does not enforce or know
    /// SELinux: then no mount can have a label.
    ///
    /// # Errors
    /// `Failed` if the policy cannot be read.
    fn container_file_label(&self) -> Result<Option<String>>;
}
