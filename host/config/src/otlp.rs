//! The collector of traces.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;

/// A collector that speaks OTLP over gRPC, without TLS.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum OtlpEndpoint {
    /// `http://HOST:PORT`.
    Http(String),
    /// `unix:PATH`, the path absolute.
    Unix(PathBuf),
}

/// Why a text is no usable endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OtlpEndpointError {
    /// The socket's path is not absolute.
    #[error("{0:?} is no usable endpoint; write unix: and the socket's absolute path")]
    RelativeSocket(String),
    /// TLS.
    #[error("{0:?} cannot be reached: volhost does not support TLS; send the traces to a collector on this node")]
    Tls(String),
    /// Neither HTTP nor a socket.
    #[error("{0:?} is no endpoint; write http://HOST:PORT or unix:PATH")]
    Unknown(String),
}

impl FromStr for OtlpEndpoint {
    type Err = OtlpEndpointError;
    fn from_str(text: &str) -> Result<Self, OtlpEndpointError> {
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///run/x.sock` is gRPC's other way of writing `unix:/run/x.sock`.
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.starts_with('/') {
                Ok(Self::Unix(PathBuf::from(path)))
            } else {
                Err(OtlpEndpointError::RelativeSocket(text.to_owned()))
            };
        }
        if text.starts_with("https:") {
            return Err(OtlpEndpointError::Tls(text.to_owned()));
        }
        match text.strip_prefix("http://") {
            Some(rest) if !rest.is_empty() && text.parse::<tonic::transport::Uri>().is_ok() => {
                Ok(Self::Http(text.to_owned()))
            }
            _ => Err(OtlpEndpointError::Unknown(text.to_owned())),
        }
    }
}

impl TryFrom<String> for OtlpEndpoint {
    type Error = OtlpEndpointError;
    fn try_from(text: String) -> Result<Self, OtlpEndpointError> {
        text.parse()
    }
}

impl fmt::Display for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(url) => f.write_str(url),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_http_or_a_socket() {
        for (text, shown) in [
            ("http://127.0.0.1:4317", "http://127.0.0.1:4317"),
            ("unix:/run/otel.sock", "unix:/run/otel.sock"),
            ("unix:///run/otel.sock", "unix:/run/otel.sock"),
        ] {
            assert_eq!(text.parse::<OtlpEndpoint>().unwrap().to_string(), shown);
        }
        for bad in ["", "127.0.0.1:4317", "unix:run/otel.sock", "http://", "https://a:4317", "http://a b"] {
            assert!(bad.parse::<OtlpEndpoint>().is_err(), "{bad}");
        }
    }
}
