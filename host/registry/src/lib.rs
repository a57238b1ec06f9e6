//! Volume plugins in OCI registries.
//!
//! A plugin is an artifact as the WebAssembly world lays it out (CNCF's guidance "Wasm OCI
//! Artifact"): a manifest whose config is of type `application/vnd.wasm.config.v0+json`, with the
//! component as its one layer of type `application/wasm`. So any tool that follows it can pull what
//! volhost published, and the reverse. The author's minisign signature is an artifact of its own
//! that *refers* to the plugin's manifest (distribution specification 1.1): it stays with the
//! plugin and does not change it. Signatures that `cosign sign` has added are pulled, too.
//!
//! ```text
//!  REPOSITORY:TAG ──► manifest ──► config   what the component imports and exports
//!                        ▲   └───► layer    the component
//!                        │ subject
//!                     manifest ──► layer    the signature
//! ```
//!
//! A registry is not trusted. Its answers are bounded before they are read and checked against
//! their digests before they are used; names that it suggests are ignored; its content is not
//! interpreted here.
//!
//! | module | its job |
//! |---|---|
//! | [`credentials`] | credentials from the environment and docker's configuration |
//! | [`image`] | manifests and blobs of any image |
//! | [`publish`](mod@publish), [`pull`](mod@pull) | the two directions |
//! | [`document`] | a document of a type of its own |
//! | `access` | how to reach a registry |
//! | `artifact` | manifests and configs |
//! | `cosign` | signatures that `cosign sign` has added |
//! | `referrers` | what refers to a manifest |
//! | `session` | requests to one repository: authentication, redirects, refusals |
//! | `challenge` | how a registry asks for authentication |
//! | `transport` | one request over one connection, bounded |
//! | `tls` | certificate authorities |
#![forbid(unsafe_code)]

mod access;
mod artifact;
mod challenge;
mod cosign;
pub mod credentials;
pub mod document;
pub mod image;
pub mod publish;
mod publish_error;
pub mod pull;
mod referrers;
mod session;
mod tls;
mod transport;

pub use access::Access;
pub use cosign::CosignSignature;
pub use credentials::{Credentials, CredentialsError};
pub use document::{publish_document, pull_document};
pub use publish::{PublishedArtifact, publish};
pub use pull::{PulledPlugin, pull};
pub use session::SessionError;
pub use tls::TlsError;
pub use transport::TransportError;
pub use volhost_model::oci::{Digest, Reference, ReferenceError};
