//! Events on the pod, for the person who runs `volhost describe pod`.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! let host = volhost_plugin_sdk::testing::TestHost::new();
//! events::normal("Formatted", "the device had no file system");
//! events::warning("SlowStorage", format_args!("the array answers after {} s", 12));
//! assert!(host.events()[1].warning);
//! ```

use std::fmt::Display;

use crate::backend;

/// Emits a normal event: a thing worth knowing. `reason` is one CamelCase word.
pub fn normal(reason: &str, message: impl Display) {
    backend::events::normal(reason, &message.to_string());
}

/// Emits a warning: a thing worth acting on. `reason` is one CamelCase word.
pub fn warning(reason: &str, message: impl Display) {
    backend::events::warning(reason, &message.to_string());
}
