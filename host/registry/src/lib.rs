//! Volume plugins in OCI registries.
//!
//! A plugin is an artifact as the WebAssembly world lays it out (CNCF's guidance "Wasm OCI Artifact"): a manifest whose config is of type
//! `application/vnd.wasm.config.v0+json`, with the component as its one layer of type `application/wasm`. So any tool that follows it can
//! pull what volhost published, and the reverse. The author's minisign signature is an artifact of its own that *refers* to the plugin's
//! manifest (distribution specification 1.1): it stays with the plugin and does not change it.
//!
//! ```text
//!  REPOSITORY:TAG ──► manifest ──► config   what the component imports and exports
//!                        ▲   └───► layer    the component
//!                        │ subject
//!                     manifest ──► layer    the signature
//! ```
//!
//! A registry is not trusted. Its answers are bounded before they are read and checked against their digests before they are used; names
//! that it suggests are ignored; its content is not interpreted here.
//!
//! | module | its job |
//! |---|---|
//! | [`reference`](mod@reference) | `HOST/NAME:TAG@sha256:...` |
//! | [`digest`] | content by its digest |
//! | [`credentials`] | credentials from the environment and docker's configuration |
//! | [`publish`](mod@publish), [`pull`](mod@pull) | the two directions |
//! | `artifact` | manifests and configs |
//! | `referrers` | what refers to a manifest |
//! | `session` | requests to one repository: authentication, redirects, refusals |
//! | `challenge` | how a registry asks for authentication |
//! | `transport` | one request over one connection, bounded |
//! | `tls` | certificate authorities |
#![forbid(unsafe_code)]

mod artifact;
mod challenge;
pub mod credentials;
pub mod digest;
pub mod publish;
pub mod pull;
pub mod reference;
mod referrers;
mod session;
mod text;
mod tls;
mod transport;

use std::time::Duration;

pub use credentials::{Credentials, CredentialsError};
pub use digest::Digest;
pub use publish::{Published, publish};
pub use pull::{Pulled, pull};
pub use reference::{Reference, ReferenceError};
pub use session::SessionError;
pub use tls::TlsError;
pub use transport::TransportError;

/// How to reach a registry.
#[derive(Debug, Clone)]
pub struct Access {
    /// The login. Without it, requests are anonymous.
    pub credentials: Option<Credentials>,
    /// Use HTTP without TLS. Only to this machine.
    pub plain_http: bool,
    /// How long a registry may be silent: while a connection is opened, and between two pieces of an answer.
    pub idle_timeout: Duration,
}

impl Default for Access {
    fn default() -> Self {
        Self { credentials: None, plain_http: false, idle_timeout: IDLE_TIMEOUT }
    }
}

/// Longer than a loaded registry takes to look up a manifest, shorter than a user waits for a dead one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
