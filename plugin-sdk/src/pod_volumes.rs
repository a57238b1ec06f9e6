//! The pod's other volumes, for a volume that is made of them.
//!
//! A plugin that calls this needs the grant `pod-volumes`; one that does not call it does not
//! request it.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.pod_volume("base");
//! /// In `publish` of a volume whose `identify` has named it: `id.needs_volume("base")`.
//! fn bind_base(target: &MountTarget) -> Result<()> {
//!     target.attach(pod_volumes::open(target, "base")?.bind(true)?)
//! }
//! # bind_base(&host.target("data").handle())?;
//! # Ok::<(), Error>(())
//! ```

use crate::backend;
use crate::error::Result;
use crate::mounts::{MountSource, MountTarget};

/// The volume of this name in the target's pod, as it is published now;
/// [`Identity::needs_volume`](crate::Identity::needs_volume) has named it. It is never written
/// through: a bind of it is read-only, and an overlay takes it as a lower only.
///
/// # Errors
/// [`NotFound`](crate::Error::NotFound) when it was not named,
/// [`Precondition`](crate::Error::Precondition) when it is not mounted; else the kernel's error.
pub fn open(target: &MountTarget, name: &str) -> Result<MountSource> {
    backend::pod_volumes::open(target.handle(), name).map(MountSource::new).map_err(backend::error_in)
}
