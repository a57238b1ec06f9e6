//! The trusted certificate authorities: those of this machine.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio_rustls::TlsConnector;

/// Names another file of authorities, as for most programs.
const VARIABLE: &str = "SSL_CERT_FILE";
/// Where Linux systems keep them: Debian's place, Fedora's, Alpine's.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Why no certificate can be verified.
#[derive(Debug, Error)]
pub enum TlsError {
    /// There is no list of authorities.
    #[error(
        "this machine has no list of certificate authorities: install ca-certificates, or name a file in SSL_CERT_FILE"
    )]
    NoBundle,
    /// It cannot be read.
    #[error("the certificate authorities in {path} cannot be read")]
    Bundle {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: pem::Error,
    },
    /// It has none.
    #[error("{path} has no usable certificate authority")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The library refuses its own defaults.
    #[error("TLS cannot be set up")]
    SetUp(#[source] rustls::Error),
}

/// A connector that believes this machine's authorities.
pub(crate) fn connector() -> Result<TlsConnector, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::SetUp)?
        .with_root_certificates(roots()?)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots() -> Result<RootCertStore, TlsError> {
    let path = bundle().ok_or(TlsError::NoBundle)?;
    let failed = |source| TlsError::Bundle { path: path.clone(), source };
    let certificates: Vec<_> =
        CertificateDer::pem_file_iter(&path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    let mut roots = RootCertStore::empty();
    // Lists contain authorities of kinds that the library does not support; the others count.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(TlsError::Empty { path });
    }
    Ok(roots)
}

fn bundle() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named));
    }
    BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// A failure of the handshake, explained.
pub(crate) fn explain(error: &io::Error) -> &'static str {
    let certificate = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        .is_some_and(|inner| matches!(inner, rustls::Error::InvalidCertificate(_)));
    if certificate {
        "its certificate is not to be trusted; if the registry has an authority of its own, name that in SSL_CERT_FILE"
    } else {
        "no TLS connection; a registry on this machine without TLS needs --plain-http"
    }
}
