//! The PEM certificates of a ClusterTrustBundle.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// Letters in a line of PEM (RFC 7468).
const LINE: usize = 64;

/// A text that is no list of certificates.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum TrustBundleError {
    /// It has no certificate.
    #[error("there is no certificate in it; one begins with {BEGIN}")]
    Empty,
    /// It has other PEM blocks.
    #[error("only certificates may be in it; remove the other blocks")]
    OtherBlock,
    /// A certificate does not end.
    #[error("a certificate has no END line")]
    NoEnd,
    /// A certificate has headers.
    #[error("a certificate has headers; remove them")]
    Headers,
    /// A certificate is not base64.
    #[error("a certificate is not base64: {0}")]
    Base64(#[source] base64::DecodeError),
    /// A certificate has no bytes.
    #[error("a certificate is empty")]
    EmptyCertificate,
}

/// Checks that the text consists of certificates, with space and comments between them.
///
/// # Errors
/// [`TrustBundleError`].
pub(crate) fn check(text: &str) -> Result<(), TrustBundleError> {
    certificates(text).map(drop)
}

/// Returns every certificate, without comments.
pub(crate) fn certificates(text: &str) -> Result<Vec<String>, TrustBundleError> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((between, after)) = rest.split_once(BEGIN) {
        refuse_others(between)?;
        let (body, after) = after.split_once(END).ok_or(TrustBundleError::NoEnd)?;
        found.push(normalised(body)?);
        rest = after;
    }
    refuse_others(rest)?;
    if found.is_empty() {
        return Err(TrustBundleError::Empty);
    }
    Ok(found)
}

fn refuse_others(between: &str) -> Result<(), TrustBundleError> {
    if between.contains("-----BEGIN") {
        return Err(TrustBundleError::OtherBlock);
    }
    Ok(())
}

fn normalised(body: &str) -> Result<String, TrustBundleError> {
    if body.contains(':') {
        return Err(TrustBundleError::Headers);
    }
    let base64: String = body.split_ascii_whitespace().collect();
    let der = STANDARD.decode(base64).map_err(TrustBundleError::Base64)?;
    if der.is_empty() {
        return Err(TrustBundleError::EmptyCertificate);
    }
    let encoded = STANDARD.encode(der);
    let mut pem = format!("{BEGIN}\n");
    let mut letters = encoded.as_str();
    while !letters.is_empty() {
        let (line, more) = letters.split_at(letters.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        letters = more;
    }
    pem.push_str(END);
    pem.push('\n');
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_normalised_without_the_text_between_them() {
        let one = format!("# a comment\n{BEGIN}\n{}\n{END}\n\n", "QUJD".repeat(20));
        let all = certificates(&format!("{one}{one}")).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], all[1]);
        assert!(all[0].lines().all(|line| line.len() <= LINE) && !all[0].contains('#'), "{}", all[0]);
    }

    #[test]
    fn a_text_without_certificates_is_refused() {
        for text in [
            "",
            "hello",
            &format!("{BEGIN}\nQUJD\n"),
            &format!("{BEGIN}\n!!!\n{END}"),
            &format!("{BEGIN}\n{END}"),
            &format!("{BEGIN}\nA: b\nQUJD\n{END}"),
            &format!("{BEGIN}\nQUJD\n{END}\n-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----"),
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
