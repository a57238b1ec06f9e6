//! What every implementation of [`crate::Kernel`] shares, so that all refuse the same arguments in
//! the same words: checks, labels for messages, and the parts of operations that are one piece of
//! code over every kernel.
//!
//! Callers of a kernel need nothing of it.

pub use crate::filesystems::{Family, check_device_options};
pub use crate::image_files::check_image_type;
pub use crate::names::{check_absolute, check_group, check_mode, check_name, check_relative, label, temporary, text};
pub use crate::network_mounts::{check_server, check_share};
pub use crate::options::{MountAttributes, attributes, check_huge_pages, check_tmpfs, option_names};
pub use crate::overlays::{UPPER, WORK, check_overlay, check_source};
pub use crate::ownership::{check_map, wanted_mode};
pub use crate::quotas::{FEATURE, check_limit};

/// The walk within the paths that are granted to a plugin.
pub mod granted {
    pub use crate::granted::{PathEntry, PathRefusal, Places, open};
}

/// The protocol that publishes a payload, over the few calls that it needs of a kernel.
pub mod payload {
    pub use crate::payload::plan::{Branch, PayloadPlan, PayloadTree};
    pub use crate::payload::protocol::{PayloadFolder, TargetEntry, publish};
    pub use crate::payload::stamp::stamp_of;
}
