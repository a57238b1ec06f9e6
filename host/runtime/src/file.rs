//! A plugin file: read once, bounded, and recognized as a plugin before any of it is interpreted.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use wasmparser::Payload;

use crate::abi::SDK_SECTION;
use crate::digest::{sha256_hex, sha256_hex_of};
use crate::error::LoadProblem;
use crate::sections::visit_sections;
use crate::text::tame;

/// The longest note of what built a plugin, in bytes.
const SDK_BYTES: usize = 128;

/// A plugin file's content.
#[derive(Debug)]
pub(crate) struct PluginFile {
    pub(crate) wasm: Vec<u8>,
    /// SHA-256 of it.
    pub(crate) digest: String,
}

impl PluginFile {
    /// Reads the file and makes sure that it is a component by its header.
    pub(crate) fn read(path: &Path, limit: u64) -> Result<Self, LoadProblem> {
        let (file, length) = open(path)?;
        let mut wasm = Vec::with_capacity(usize::try_from(length.min(limit)).unwrap_or(0));
        file.take(limit.saturating_add(1)).read_to_end(&mut wasm).map_err(LoadProblem::Read)?;
        if u64::try_from(wasm.len()).is_ok_and(|read| read > limit) {
            return Err(LoadProblem::TooLarge { limit });
        }
        check_header(&wasm)?;
        let digest = sha256_hex(&wasm);
        Ok(Self { wasm, digest })
    }

    /// Returns the SHA-256 of the first `limit` bytes without keeping them in memory.
    pub(crate) fn digest(path: &Path, limit: u64) -> Result<String, LoadProblem> {
        let (file, _) = open(path)?;
        sha256_hex_of(file.take(limit)).map_err(LoadProblem::Read)
    }

    /// Returns what the plugin says built it: a custom section of the component, or of a module in
    /// it. Reads section headers only.
    pub(crate) fn sdk(&self) -> Option<String> {
        let mut sdk = None;
        visit_sections(&self.wasm, |payload| match payload {
            Payload::CustomSection(section) if section.name() == SDK_SECTION => {
                sdk = Some(tame(&String::from_utf8_lossy(section.data()), SDK_BYTES));
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        sdk
    }
}

/// A regular file, and its length in bytes.
fn open(path: &Path) -> Result<(File, u64), LoadProblem> {
    // Non-blocking: a named pipe in the plugin folder must not block the host.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(LoadProblem::Read)?;
    let found = file.metadata().map_err(LoadProblem::Read)?;
    if found.is_file() { Ok((file, found.len())) } else { Err(LoadProblem::NotAFile) }
}

fn check_header(wasm: &[u8]) -> Result<(), LoadProblem> {
    const MAGIC: &[u8] = b"\0asm";
    const CORE: &[u8] = &[1, 0, 0, 0];
    /// The layer of the binary format that says "component".
    const COMPONENT_LAYER: &[u8] = &[1, 0];
    if wasm.is_empty() {
        return Err(LoadProblem::Empty);
    }
    let Some(version) = wasm.strip_prefix(MAGIC) else {
        return Err(LoadProblem::NotWasm);
    };
    if version.starts_with(CORE) {
        return Err(LoadProblem::CoreModule);
    }
    match version.get(2..4) {
        Some(COMPONENT_LAYER) => Ok(()),
        _ => Err(LoadProblem::UnknownBinary),
    }
}
