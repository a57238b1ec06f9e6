//! Names and digests of what registries keep.

mod digest;
mod location;
mod reference;

pub use digest::{Digest, DigestError};
pub use location::{ImageLocation, LocationError};
pub use reference::{LATEST, Reference, ReferenceError, host_alone, is_loopback};
