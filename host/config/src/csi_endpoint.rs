//! The socket of a CSI driver.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// The longest path of a unix socket, in bytes: the kernel's address has 108, and the last is a
/// NUL.
const PATH_BYTES: usize = 107;

/// A unix socket, as CSI writes it: `unix:///run/csi.sock`, `unix:/run/csi.sock`, or the path
/// alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiEndpoint(PathBuf);

/// Why a text is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CsiEndpointError {
    /// Another kind of socket.
    #[error("{0:?} is no unix socket such as unix:///run/csi/csi.sock")]
    NotUnix(String),
    /// Too long.
    #[error("the socket's path has {0} bytes, {PATH_BYTES} at most")]
    TooLong(usize),
}

impl FromStr for CsiEndpoint {
    type Err = CsiEndpointError;

    fn from_str(text: &str) -> Result<Self, CsiEndpointError> {
        let path = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")).unwrap_or(text);
        if !path.starts_with('/') || path.contains('\0') {
            return Err(CsiEndpointError::NotUnix(text.to_owned()));
        }
        if path.len() > PATH_BYTES {
            return Err(CsiEndpointError::TooLong(path.len()));
        }
        Ok(Self(PathBuf::from(path)))
    }
}

impl CsiEndpoint {
    /// The socket's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_written_as_drivers_write_it() {
        for text in ["unix:///run/csi.sock", "unix:/run/csi.sock", "/run/csi.sock"] {
            assert_eq!(text.parse::<CsiEndpoint>().unwrap().path(), Path::new("/run/csi.sock"));
        }
        let long = format!("unix:///{}", "x".repeat(200));
        for bad in ["", "tcp://127.0.0.1:1", "unix://run/csi.sock", "csi.sock", long.as_str()] {
            assert!(bad.parse::<CsiEndpoint>().is_err(), "{bad}");
        }
    }
}
