//! Core modules that other languages' compilers leave.
//!
//! Such a module knows nothing of the contract it was written for, and may ask for WASI preview 1,
//! which no component can. Here it gets the contract from WIT files, and the WebAssembly project's
//! own adapter from preview 1 to WASI 0.2.

use std::path::{Path, PathBuf};

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmparser::{Encoding, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{ParseError, Resolve};

/// The reasons for which a module of another language could not become a component.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    /// Not WebAssembly at all, or a damaged file.
    #[error("not a WebAssembly module")]
    NotWasm(#[source] wasmparser::BinaryReaderError),
    /// It is a component already.
    #[error("already a component: it needs no encoding")]
    AlreadyComponent,
    /// The WIT files cannot be read or do not fit each other.
    #[error("the WIT in {}: {message}", path.display())]
    Wit {
        /// The folder or file.
        path: PathBuf,
        /// The parser's message, with the place.
        message: String,
    },
    /// No such world, or several to choose from.
    #[error("the world in {}: {message}", path.display())]
    World {
        /// The folder or file with the WIT.
        path: PathBuf,
        /// The parser's message.
        message: String,
    },
    /// The module's imports and exports are not those of the world.
    #[error("the module does not fit the world: {message}")]
    Mismatch {
        /// Which import or export, in the encoder's words.
        message: String,
    },
}

/// Makes the core module `module` a component of the world `world` in the WIT at `wit`: a file, or
/// a folder with its dependencies in `deps`. Without `world`, the only one in there. The same input
/// always gives the same bytes.
///
/// # Errors
/// When `module` is not a core module, the WIT names no such world, or the two do not fit.
pub fn component(module: &[u8], wit: &Path, world: Option<&str>) -> Result<Vec<u8>, ForeignError> {
    check(module)?;
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).map_err(|error| {
        let marked = error.downcast_ref::<ParseError>().map(|error| error.render(&resolve.source_map));
        ForeignError::Wit { path: wit.to_owned(), message: marked.unwrap_or_else(|| format!("{error:#}")) }
    })?;
    let world = resolve
        .select_world(&[package], world)
        .map_err(|error| ForeignError::World { path: wit.to_owned(), message: format!("{error:#}") })?;
    let mut module = module.to_owned();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .and_then(|()| ComponentEncoder::default().validate(true).module(&module))
        .and_then(|encoder| {
            encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)
        })
        .and_then(|mut encoder| encoder.encode())
        // The encoder's chain of causes goes into one line: it has no types to keep.
        .map_err(|error| ForeignError::Mismatch { message: format!("{error:#}") })
}

fn check(module: &[u8]) -> Result<(), ForeignError> {
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::Version { encoding: Encoding::Component, .. } = payload.map_err(ForeignError::NotWasm)? {
            return Err(ForeignError::AlreadyComponent);
        }
    }
    Ok(())
}
