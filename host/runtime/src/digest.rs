//! SHA-256 in lower-case hex, as `sha256sum` prints it.

use std::io::{self, Read};

use sha2::{Digest, Sha256};
use volhost_model::text::lower_hex;

/// How much of a stream is read at once, in bytes.
const PART_BYTES: usize = 64 << 10;

/// The digest of `bytes`.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    lower_hex(&Sha256::digest(bytes))
}

/// The digest of a stream, read to its end.
pub(crate) fn sha256_hex_of(mut from: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut part = vec![0; PART_BYTES];
    loop {
        let read = match from.read(&mut part) {
            Ok(0) => return Ok(lower_hex(&hash.finalize())),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(part.get(..read).unwrap_or_default());
    }
}

/// Returns whether `text` is such a digest: what a caller hands over becomes part of a file's name.
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
        assert_eq!(sha256_hex_of(&b"test"[..]).unwrap(), digest);
        assert!(is_digest(&digest));
        assert!(!is_digest("../../etc/passwd"));
    }
}
