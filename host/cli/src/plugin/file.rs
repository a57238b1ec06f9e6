//! Plugin files and the signatures beside them.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use volhost_model::text::lower_hex;

use super::super::error::CliError;

/// A plugin's file, if it is not too large for one.
pub(crate) fn read_plugin(file: &Path) -> Result<Vec<u8>, CliError> {
    let failed = |source| CliError::File { path: file.to_path_buf(), source };
    let limit = volhost_runtime::Limits::default().file_bytes;
    let mut wasm = Vec::new();
    File::open(file).map_err(failed)?.take(limit + 1).read_to_end(&mut wasm).map_err(failed)?;
    if wasm.len() as u64 > limit {
        return Err(CliError::Failed(format!(
            "{}: it has more than {} MiB, too much for a plugin",
            file.display(),
            limit >> 20
        )));
    }
    Ok(wasm)
}

/// The digest of a plugin's file: SHA-256 in hex, as `sha256sum` prints it.
pub(crate) fn digest(wasm: &[u8]) -> String {
    lower_hex(&Sha256::digest(wasm))
}

/// The name of a plugin's signature file.
pub(super) fn signature_of(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".minisig");
    PathBuf::from(name)
}
