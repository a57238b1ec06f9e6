//! The SELinux label of what a call mounts: the host sets it, and nobody else.

use volhost_kernel::FsOption;
use volhost_kernel::filesystems::LABEL_OPTION;
use volhost_model::mount_options::is_label;

use super::{HostError, State};
use crate::bindings::volhost::plugin::tmpfs::FsOption as WitOption;
use crate::bindings::volhost::plugin::types;

impl State {
    /// A plugin's options of a file system, with the label of the volume that the call is about.
    ///
    /// # Errors
    /// `invalid-argument` for an option that names a label itself.
    pub(super) fn labelled(&self, options: Vec<WitOption>) -> Result<Vec<FsOption>, HostError> {
        if let Some(option) = options.iter().find(|option| is_label(&option.key)) {
            let text =
                format!("option {:?}: a label is for the host to set, from the pods that use the volume", option.key);
            return Err(HostError::Plugin(types::Error::InvalidArgument(text)));
        }
        let own = options.into_iter().map(|option| FsOption { key: option.key, value: option.value });
        let label = self.selinux_label.iter().map(|label| FsOption::new(LABEL_OPTION, label));
        Ok(own.chain(label).collect())
    }
}
