//! Handles of made volumes: `SERVER:SHARE#NAME`.

use core::fmt;

use volhost_plugin_sdk::prelude::*;

use crate::source::{checked_path, checked_server};

/// The separator before the volume's name. A share's path may have it, a name has none.
const SEPARATOR: char = '#';
/// CSI's limit for a handle, in bytes.
const HANDLE_BYTES: usize = 128;

/// A folder that a server exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    /// A host name or an address, without brackets.
    pub(crate) server: String,
    pub(crate) path: String,
}

impl fmt::Display for Share {
    /// As the mount table shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.server.contains(':') {
            write!(f, "[{}]:{}", self.server, self.path)
        } else {
            write!(f, "{}:{}", self.server, self.path)
        }
    }
}

impl Share {
    /// Reads `SERVER:PATH`, an IPv6 address in brackets.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn read(text: &str) -> core::result::Result<Self, String> {
        let split = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:"),
            None => text.split_once(':'),
        };
        let (server, path) = split.ok_or_else(|| format!("{} must be SERVER:/PATH", quoted(text)))?;
        let written = if text.starts_with('[') { format!("[{server}]") } else { server.to_owned() };
        Ok(Self { server: checked_server(&written)?, path: checked_path(path)? })
    }
}

/// A made volume: its share, and its name there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) share: Share,
    pub(crate) name: String,
}

impl Handle {
    /// The handle of the volume that is requested under this name.
    ///
    /// # Errors
    /// `invalid-argument` for a name that no record can have, and for a handle that is too long.
    pub(crate) fn new(share: Share, name: String) -> Result<Self> {
        if !is_name(&name) {
            return Err(Error::invalid_argument(format!(
                "name: {} must have no `/`, no `{SEPARATOR}`, no control character and no `.` at its beginning",
                quoted(&name)
            )));
        }
        let handle = Self { share, name };
        let bytes = handle.to_string().len();
        if bytes > HANDLE_BYTES {
            return Err(Error::invalid_argument(format!(
                "parameters.share: the volume's handle {} has {bytes} bytes, and {HANDLE_BYTES} at most are allowed; \
                 use a shorter name of the server or the share",
                quoted(&handle.to_string())
            )));
        }
        Ok(handle)
    }

    /// Reads a handle.
    ///
    /// # Errors
    /// `invalid-argument` for one that this plugin did not give.
    pub(crate) fn read(id: &str) -> Result<Self> {
        let wrong = |why: String| Error::invalid_argument(format!("the handle {}: {why}", quoted(id)));
        let (share, name) = id
            .rsplit_once(SEPARATOR)
            .filter(|(_, name)| is_name(name))
            .ok_or_else(|| wrong(format!("must be SERVER:/SHARE{SEPARATOR}NAME")))?;
        Ok(Self { share: Share::read(share).map_err(wrong)?, name: name.to_owned() })
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{SEPARATOR}{}", self.share, self.name)
    }
}

/// Whether a volume can have this name: that of its record on the share.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= HANDLE_BYTES
        && !name.starts_with('.')
        && !name.chars().any(|c| c == '/' || c == SEPARATOR || c.is_control())
}
