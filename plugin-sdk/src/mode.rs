//! Modes of files.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::quote::quoted;

/// Permission bits of a file or folder: 0 to 0777.
///
/// ```
/// use volhost_plugin_sdk::Mode;
///
/// let mode: Mode = "0750".parse()?;
/// assert_eq!(mode.bits(), 0o750);
/// assert_eq!(mode.to_string(), "0750");
/// assert_eq!(Mode::new(0o1777), None, "the sticky bit is not a permission");
/// assert!("rwx".parse::<Mode>().is_err());
/// # Ok::<(), volhost_plugin_sdk::ModeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode(u32);

/// The bits that are permissions.
const PERMISSIONS: u32 = 0o777;

/// An error for a text that is not a mode. It contains the text, in quotes.
///
/// ```
/// # use volhost_plugin_sdk::{Error, Mode};
/// let error = "0888".parse::<Mode>().unwrap_err();
/// assert_eq!(error.to_string(), "\"0888\" is not a mode: write 0 to 0777");
/// assert!(matches!(Error::from(error), Error::InvalidArgument(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeError(String);

impl Mode {
    /// The mode of these bits; none if they are not all permissions.
    #[must_use]
    pub const fn new(bits: u32) -> Option<Self> {
        if bits <= PERMISSIONS { Some(Self(bits)) } else { None }
    }

    /// The bits, as [`MountTarget::make_folder`](crate::MountTarget::make_folder) and
    /// [`Tmpfs::mode`](crate::tmpfs::Tmpfs::mode) take them.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:04o}", self.0)
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let octal = text.bytes().all(|digit| (b'0'..=b'7').contains(&digit)).then(|| u32::from_str_radix(text, 8).ok());
        octal.flatten().and_then(Self::new).ok_or_else(|| ModeError(quoted(text)))
    }
}

impl fmt::Display for ModeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is not a mode: write 0 to 0777", self.0)
    }
}

impl std::error::Error for ModeError {}

impl From<ModeError> for Error {
    fn from(error: ModeError) -> Self {
        Self::InvalidArgument(error.to_string())
    }
}
