//! Errors of host functions: the plugin's to handle, or the call's end.

use volhost_kernel::{ErrorKind, FilesystemError, ImageError, KernelError};
use wasmtime::component::ResourceTableError;

use crate::abort::Abort;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::types;

impl From<Abort> for HostError {
    fn from(abort: Abort) -> Self {
        Self::Abort(abort.into())
    }
}

impl From<ResourceTableError> for HostError {
    fn from(error: ResourceTableError) -> Self {
        Self::Abort(handle_error(&error).into())
    }
}

impl From<KernelError> for HostError {
    fn from(error: KernelError) -> Self {
        Self::Plugin(kernel_error(&error))
    }
}

/// A full table is a passed limit; everything else about handles, wasmtime has checked before, so
/// that it is a defect.
pub(crate) fn handle_error(error: &ResourceTableError) -> Abort {
    match error {
        ResourceTableError::Full => Abort::limit("more handles at once than it may have"),
        other => Abort::contract(format!("it used a handle wrongly: {other}")),
    }
}

/// The case of the contract for what the kernel said, with the kernel's own words.
fn kernel_error(error: &KernelError) -> types::Error {
    let text = error.to_string();
    // Undoing failed too: part of it may remain.
    if let KernelError::UndoFailed { .. } = error {
        return types::Error::Uncertain(text);
    }
    if let KernelError::Filesystem(FilesystemError::Damaged { .. })
    | KernelError::Image(ImageError::Damaged { .. })
    | KernelError::Image(ImageError::CutShort { .. }) = error
    {
        return types::Error::Corrupt(text);
    }
    match error.kind() {
        ErrorKind::InvalidArgument => types::Error::InvalidArgument(text),
        ErrorKind::NotFound => types::Error::NotFound(text),
        ErrorKind::Conflict => types::Error::Conflict(text),
        ErrorKind::Busy => types::Error::Busy(text),
        ErrorKind::PermissionDenied => types::Error::PermissionDenied(text),
        ErrorKind::Unsupported => types::Error::Unsupported(text),
        ErrorKind::NoSpace | ErrorKind::Exhausted | ErrorKind::Unreachable => types::Error::Retryable(text),
        _ => types::Error::Other(types::OtherError { code: code(error), message: text }),
    }
}

/// The errno's name, `EIO`, when a system call failed.
fn code(error: &KernelError) -> String {
    let known = error.errno().map(|errno| nix::errno::Errno::from_raw(errno.raw_os_error()));
    known.map_or_else(|| "EIO".to_owned(), |errno| format!("{errno:?}"))
}
