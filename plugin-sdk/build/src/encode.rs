//! From core module to component.
//!
//! rustc leaves a core module whose contract (the WIT world, as the SDK's macro saw it) sits in a
//! custom section. Encoding wraps the module in a component with typed imports and exports, which
//! is what the host loads and checks.

use wasmparser::{Encoding, Parser, Payload};
use wit_component::ComponentEncoder;

use crate::reserve::{ReserveError, with_reserve};

/// The prefix of the custom section that carries the contract. The world's name follows.
const CONTRACT_SECTION: &str = "component-type";

/// The reasons for which a core module could not become a component.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// Not WebAssembly at all, or a damaged file.
    #[error("not a WebAssembly module")]
    NotWasm(#[source] wasmparser::BinaryReaderError),
    /// It is a component already.
    #[error("already a component: it needs no encoding")]
    AlreadyComponent,
    /// An ordinary core module that knows nothing of the component model.
    #[error(
        "a core module without a contract: no `{CONTRACT_SECTION}` section in it. A volhost plugin gets one from the \
         SDK's `export_plugin!` macro; is it called in the crate?"
    )]
    NoContract,
    /// Its memory could not be given a reserve.
    #[error("the module could not be rewritten")]
    Reserve(#[from] ReserveError),
    /// The module's imports and exports do not fit the contract it carries.
    #[error("the module does not fit its own contract: {message}")]
    Mismatch {
        /// Which import or export, in the encoder's words.
        message: String,
    },
}

/// Wraps `module`, with a reserve of memory, into a component and validates the result. The same
/// module always gives the same bytes.
///
/// # Errors
/// When `module` is not a core module, carries no contract, or does not fit it.
pub fn component(module: &[u8]) -> Result<Vec<u8>, EncodeError> {
    if !carries_contract(module)? {
        return Err(EncodeError::NoContract);
    }
    let module = with_reserve(module)?;
    ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .and_then(|mut encoder| encoder.encode())
        // The encoder's chain of causes goes into one line: it has no types to keep.
        .map_err(|error| EncodeError::Mismatch { message: format!("{error:#}") })
}

fn carries_contract(module: &[u8]) -> Result<bool, EncodeError> {
    let mut found = false;
    for payload in Parser::new(0).parse_all(module) {
        match payload.map_err(EncodeError::NotWasm)? {
            Payload::Version { encoding: Encoding::Component, .. } => return Err(EncodeError::AlreadyComponent),
            Payload::CustomSection(section) if section.name().starts_with(CONTRACT_SECTION) => found = true,
            _ => {}
        }
    }
    Ok(found)
}
