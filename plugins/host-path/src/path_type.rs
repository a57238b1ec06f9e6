//! The eight values of `hostPath.type`.

use volhost_plugin_sdk::prelude::*;

/// The kind that the path must be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathType {
    /// Anything.
    Any,
    DirectoryOrCreate,
    Directory,
    FileOrCreate,
    File,
    Socket,
    CharDevice,
    BlockDevice,
}

impl PathType {
    /// Kubernetes' spelling.
    pub(crate) const WORDS: &[(&'static str, Self)] = &[
        ("", Self::Any),
        ("DirectoryOrCreate", Self::DirectoryOrCreate),
        ("Directory", Self::Directory),
        ("FileOrCreate", Self::FileOrCreate),
        ("File", Self::File),
        ("Socket", Self::Socket),
        ("CharDevice", Self::CharDevice),
        ("BlockDevice", Self::BlockDevice),
    ];

    /// The kind that it accepts, with the kubelet's words; none for any kind.
    fn wants(self) -> Option<(SourceKind, &'static str)> {
        match self {
            Self::Any => None,
            Self::DirectoryOrCreate | Self::Directory => Some((SourceKind::Directory, "a directory")),
            Self::FileOrCreate | Self::File => Some((SourceKind::File, "a file")),
            Self::Socket => Some((SourceKind::Socket, "a socket file")),
            Self::CharDevice => Some((SourceKind::CharDevice, "a character device")),
            Self::BlockDevice => Some((SourceKind::BlockDevice, "a block device")),
        }
    }

    /// Refuses `path` if it is of another kind. `precondition`, since the node may change.
    pub(crate) fn check(self, path: &str, found: &SourceKind) -> Result<()> {
        match self.wants() {
            Some((wanted, words)) if wanted != *found => Err(Error::precondition(format!(
                "hostPath type check failed: {path} is not {words}, it is {found}. Correct hostPath.path or hostPath.type"
            ))),
            _ => Ok(()),
        }
    }

    /// The error for a missing path.
    pub(crate) fn missing(self, path: &str, why: &str) -> Error {
        let way_out = match self {
            Self::Any => "type DirectoryOrCreate or FileOrCreate would create it",
            Self::Directory => "create it, or use type DirectoryOrCreate",
            Self::File => "create it, or use type FileOrCreate",
            _ => "the program that makes it has not run yet, or the path is wrong",
        };
        Error::not_found(match self.wants() {
            None => format!("hostPath.path: {path} does not exist; {way_out} ({why})"),
            Some((_, words)) => {
                format!("hostPath type check failed: {path} is not {words}, it does not exist; {way_out} ({why})")
            }
        })
    }
}
