//! SHA-256 in lower-case hex, as `sha256sum` prints it.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The digest of `bytes`.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// Whether `text` is such a digest: what a caller hands over becomes part of a file's name.
pub(crate) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha256sums() {
        let digest = sha256_hex(b"test");
        assert_eq!(digest, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08");
        assert!(is_digest(&digest));
        assert!(!is_digest("../../etc/passwd"));
    }
}
