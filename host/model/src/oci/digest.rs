//! Content by its digest.

use std::fmt;
use std::str::FromStr;

use crate::text::{lower_hex, printable};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The one algorithm that every registry must know.
const PREFIX: &str = "sha256:";
/// Hexadecimal digits of one.
const DIGITS: usize = 64;

/// A SHA-256 digest, written as registries write it: `sha256:` and 64 digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

/// What is no digest.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("'{0}' is no digest: it is written sha256: and 64 hexadecimal digits in lower case")]
pub struct DigestError(String);

impl Digest {
    /// The digest of `content`.
    pub fn of(content: &[u8]) -> Self {
        Self::from_hash(Sha256::new_with_prefix(content))
    }

    /// The digest of what `hash` has seen.
    pub fn from_hash(hash: Sha256) -> Self {
        Self(format!("{PREFIX}{}", lower_hex(&hash.finalize())))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The digits alone.
    pub fn hex(&self) -> &str {
        self.0.strip_prefix(PREFIX).unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.strip_prefix(PREFIX) {
            Some(digits) if digits.len() == DIGITS && digits.bytes().all(digit) => Ok(Self(text.to_owned())),
            _ => Err(DigestError(printable(text))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_digest_is_one() {
        let digest = Digest::of(b"");
        assert_eq!(digest.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(digest.as_str().parse(), Ok(digest.clone()));
        for wrong in
            ["", "sha256:", "sha512:00", &digest.as_str().to_uppercase(), &format!("{digest}0"), "sha256:../.."]
        {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
