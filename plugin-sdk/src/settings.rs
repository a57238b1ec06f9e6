//! Values that the operator gives to the plugin, in the configuration file below
//! `[settings."NAME"]`. The plugin declares them in
//! [`describe`](crate::VolumePlugin::describe); the host checks their types before it loads the
//! plugin, and loads it again when a value changes.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # struct Archive;
//! # impl VolumePlugin for Archive {
//! fn describe(about: &mut Description) {
//!     about.name("example.com/archive").serves("archive");
//!     about.required_setting("server", SettingKind::Text, "the archive's host name");
//!     about.setting("retries", SettingKind::Number, "tries before an error; 3 unless set");
//!     about.setting("compress", SettingKind::Boolean, "whether files are compressed; they are not unless set");
//!     about.setting("mirrors", SettingKind::Texts, "further servers");
//!     about.setting("password", SettingKind::Secret, "the archive's password");
//! }
//! #   fn identify(_: &Volume, _: &mut Identity) -> Result<()> { Ok(()) }
//! #   fn publish(_: &Volume, _: &Pod, _: &MountTarget) -> Result<()> { Ok(()) }
//! #   fn unpublish(_: &MountTarget) -> Result<()> { Ok(()) }
//! # }
//!
//! let host = volhost_plugin_sdk::testing::TestHost::new();
//! host.setting("server", "archive.example.com").setting("retries", 5).setting("compress", true);
//! host.list_setting("mirrors", &["a.example.com", "b.example.com"]).secret_setting("password", b"hunter2");
//!
//! assert_eq!(settings::text("server").as_deref(), Some("archive.example.com"));
//! assert_eq!(settings::integer("retries")?.unwrap_or(3), 5);
//! assert_eq!(settings::float("retries")?, Some(5.0));
//! assert!(settings::is_true("compress"));
//! assert_eq!(settings::texts("mirrors"), ["a.example.com", "b.example.com"]);
//! // The plugin cannot read the secret; it can put it into a file, a request or an argument.
//! assert!(settings::secret("password")?.is_some());
//!
//! let about = host.describe::<Archive>();
//! assert_eq!((about.settings.len(), about.required_settings), (5, vec!["server".to_owned()]));
//! # Ok::<(), Error>(())
//! ```

use crate::backend;
use crate::error::{Error, Result};
use crate::files::Content;

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingKind {
    /// A text.
    Text,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A list of texts.
    Texts,
    /// A secret, by the name of its file.
    Secret,
}

/// The text of this name; none if the operator gave none.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    backend::settings::value(name)
}

/// The whole number of this name; none if the operator gave none.
///
/// # Errors
/// [`InvalidArgument`](Error::InvalidArgument) for another number.
pub fn integer(name: &str) -> Result<Option<i64>> {
    number(name, "whole number")
}

/// The number of this name; none if the operator gave none.
///
/// # Errors
/// [`InvalidArgument`](Error::InvalidArgument) if the setting is no number.
pub fn float(name: &str) -> Result<Option<f64>> {
    number(name, "number")
}

fn number<T: core::str::FromStr>(name: &str, what: &str) -> Result<Option<T>> {
    let Some(text) = text(name) else { return Ok(None) };
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(Error::invalid_argument(format!("the setting {name}: {text} is no {what}"))),
    }
}

/// Whether the operator set this boolean to true.
#[must_use]
pub fn is_true(name: &str) -> bool {
    text(name).as_deref() == Some("true")
}

/// The texts of the list of this name; none of them if the operator gave none.
#[must_use]
pub fn texts(name: &str) -> Vec<String> {
    backend::settings::texts(name)
}

/// The secret of this name, as its file is now; none if the operator gave none.
///
/// # Errors
/// [`PermissionDenied`](Error::PermissionDenied) if users other than root may read its file,
/// [`Precondition`](Error::Precondition) if it cannot be read.
pub fn secret(name: &str) -> Result<Option<Content>> {
    Ok(backend::settings::secret(name).map_err(backend::error_in)?.map(Content::new))
}
