//! Lines in the host's log, for the operator. The host adds the volume, pod and operation.
//!
//! Lines over the operation's limit are counted and dropped. Never log a secret.
//!
//! ```no_run
//! use volhost_plugin_sdk::log;
//! log::info("the share answers");
//! log::debug(format_args!("{} of {} paths", 1, 2));
//! ```

use std::fmt::Display;

use crate::backend;

/// The severity of a line.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::log::Level;
///
/// let host = volhost_plugin_sdk::testing::TestHost::new();
/// log::error("the share does not answer");
/// log::warn("one of two paths is down");
/// log::info("the other answers");
/// let levels: Vec<Level> = host.lines().iter().map(|line| line.level).collect();
/// assert_eq!(levels, [Level::Error, Level::Warn, Level::Info]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something failed.
    Error,
    /// Something may fail, or is not as good as it should be.
    Warn,
    /// A step that an operator may want to see.
    Info,
    /// A detail for the plugin's author.
    Debug,
}

/// Something failed.
pub fn error(message: impl Display) {
    backend::write_log(Level::Error, &message.to_string());
}

/// Something may fail, or is not as good as it should be.
pub fn warn(message: impl Display) {
    backend::write_log(Level::Warn, &message.to_string());
}

/// A step that an operator may want to see.
pub fn info(message: impl Display) {
    backend::write_log(Level::Info, &message.to_string());
}

/// A detail for the plugin's author.
pub fn debug(message: impl Display) {
    backend::write_log(Level::Debug, &message.to_string());
}
