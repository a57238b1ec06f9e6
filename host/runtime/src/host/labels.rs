//! The SELinux label of what a call mounts: only the host sets it.

use volhost_kernel::FsOption;
use volhost_kernel::filesystems::LABEL_OPTION;
use volhost_model::mount_options::is_label;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::types;
use crate::bindings::volhost::plugin::types::FsOption as WitOption;
use crate::grants::MountNotGranted;

impl State {
    /// A plugin's options of a file system, with the label of the volume that the call is about.
    ///
    /// # Errors
    /// `invalid-argument` for an option that names a label itself; `permission-denied` for what is
    /// not granted.
    pub(super) fn labelled(&self, fs_type: &str, options: Vec<WitOption>) -> Result<Vec<FsOption>, HostError> {
        self.may_mount(Some(fs_type), options.iter().map(|option| option.key.as_str()))?;
        if let Some(option) = options.iter().find(|option| is_label(&option.key)) {
            let text =
                format!("option {:?}: a label is for the host to set, from the pods that use the volume", option.key);
            return Err(HostError::Plugin(types::Error::InvalidArgument(text)));
        }
        let own = options.into_iter().map(|option| FsOption { key: option.key, value: option.value });
        let label = self.selinux_label.iter().map(|label| FsOption::new(LABEL_OPTION, label));
        Ok(own.chain(label).collect())
    }

    /// Checks what is to be mounted against the grant.
    ///
    /// # Errors
    /// `permission-denied`, with the word that is not granted.
    pub(super) fn may_mount<'a>(
        &self,
        fs_type: Option<&str>,
        options: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), HostError> {
        let refused = |error: MountNotGranted| HostError::Plugin(types::Error::PermissionDenied(error.to_string()));
        self.reach.may_mount(fs_type, options).map_err(refused)
    }
}
