//! Signs tokens with the operator's key.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";
/// The largest key file, in bytes: an RSA key of 8,192 bits has about 6,400.
const MAX_KEY_BYTES: u64 = 64 << 10;
/// Permissions that let others than the owner at the file.
const OTHERS: u32 = 0o077;

/// Why a signing key was refused. Shows nothing of it.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("the token signing key {} cannot be read: {source}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// The kernel's words.
        #[source]
        source: std::io::Error,
    },
    /// Others can read it.
    #[error("the token signing key {} can be read by others than its owner (mode {mode:o}); chmod it to 600", file.display())]
    Open {
        /// Which.
        file: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is too large for a key.
    #[error("the token signing key {} has more than {MAX_KEY_BYTES} bytes; is it the right file?", file.display())]
    TooLarge {
        /// Which.
        file: PathBuf,
    },
    /// It is no key that can be used.
    #[error("the token signing key {} {source}", file.display())]
    Form {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: FormError,
    },
}

/// Why a text is no signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FormError {
    /// Not PKCS#8 in PEM.
    #[error(
        "is no private key in PEM with the line {BEGIN}; `openssl pkcs8 -topk8 -nocrypt` converts other forms, `openssl genpkey -algorithm ed25519` makes one"
    )]
    Pem,
    /// A key of another kind.
    #[error("is neither an RSA key (2,048 bits at least), nor a P-256 key, nor an Ed25519 key")]
    Kind,
}

/// The key could not be used just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the signing key could not be used")]
pub(super) struct SignError;

enum PrivateKey {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// The operator's key. Its debug text shows the kind alone.
pub struct Signer {
    key: PrivateKey,
    /// Names the key, so that who checks a token finds the public one.
    id: String,
    random: SystemRandom,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({} {})", self.algorithm(), self.id)
    }
}

impl Signer {
    /// Reads the key from a file that only its owner can read.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn read(file: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::Read { file: file.to_owned(), source };
        let opened = File::open(file).map_err(failed)?;
        let metadata = opened.metadata().map_err(failed)?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(KeyError::Open { file: file.to_owned(), mode });
        }
        let mut text = String::new();
        opened.take(MAX_KEY_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if u64::try_from(text.len()).is_ok_and(|length| length > MAX_KEY_BYTES) {
            return Err(KeyError::TooLarge { file: file.to_owned() });
        }
        Self::from_pem(&text).map_err(|source| KeyError::Form { file: file.to_owned(), source })
    }

    /// A key in PKCS#8, in PEM.
    ///
    /// # Errors
    /// `FormError`
    pub fn from_pem(text: &str) -> Result<Self, FormError> {
        let body = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).ok_or(FormError::Pem)?.0;
        let base64: String = body.split_ascii_whitespace().collect();
        let der = STANDARD.decode(base64).map_err(|_| FormError::Pem)?;
        let random = SystemRandom::new();
        let key = if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der) {
            PrivateKey::Ed25519(key)
        } else if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random) {
            PrivateKey::P256(key)
        } else {
            PrivateKey::Rsa(RsaKeyPair::from_pkcs8(&der).map_err(|_| FormError::Kind)?)
        };
        let public = match &key {
            PrivateKey::Rsa(key) => key.public_key().as_ref(),
            PrivateKey::P256(key) => key.public_key().as_ref(),
            PrivateKey::Ed25519(key) => key.public_key().as_ref(),
        };
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(public));
        Ok(Self { key, id, random })
    }

    /// The algorithm's name in a token (RFC 7518, RFC 8037).
    fn algorithm(&self) -> &'static str {
        match self.key {
            PrivateKey::Rsa(_) => "RS256",
            PrivateKey::P256(_) => "ES256",
            PrivateKey::Ed25519(_) => "EdDSA",
        }
    }

    /// A signed token with these claims (RFC 7515, compact).
    pub(super) fn sign(&self, claims: &Value) -> Result<String, SignError> {
        let header = json!({"alg": self.algorithm(), "kid": self.id, "typ": "JWT"});
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(claims));
        let signature = match &self.key {
            PrivateKey::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &self.random, signed.as_bytes(), &mut signature).map_err(|_| SignError)?;
                signature
            }
            PrivateKey::P256(key) => {
                key.sign(&self.random, signed.as_bytes()).map_err(|_| SignError)?.as_ref().to_vec()
            }
            PrivateKey::Ed25519(key) => key.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use ring::signature::{
        ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
    };

    use super::*;

    /// A key that nothing but these tests ever used.
    const RSA: &str = include_str!("test-rsa-key.pem");

    fn pem(der: &[u8]) -> String {
        format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(der))
    }

    pub(in super::super) fn ed25519() -> String {
        pem(Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap().as_ref())
    }

    fn p256() -> String {
        pem(EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap().as_ref())
    }

    fn public(signer: &Signer) -> Vec<u8> {
        match &signer.key {
            PrivateKey::Rsa(key) => key.public_key().as_ref().to_vec(),
            PrivateKey::P256(key) => key.public_key().as_ref().to_vec(),
            PrivateKey::Ed25519(key) => key.public_key().as_ref().to_vec(),
        }
    }

    #[test]
    fn each_kind_of_key_signs_tokens_that_its_public_key_verifies() {
        let kinds: [(String, &str, &'static dyn VerificationAlgorithm); 3] = [
            (RSA.to_owned(), "RS256", &RSA_PKCS1_2048_8192_SHA256),
            (p256(), "ES256", &ECDSA_P256_SHA256_FIXED),
            (ed25519(), "EdDSA", &ED25519),
        ];
        for (text, name, algorithm) in kinds {
            let signer = Signer::from_pem(&text).unwrap();
            let token = signer.sign(&json!({"sub": "me"})).unwrap();
            let (signed, signature) = token.rsplit_once('.').unwrap();
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            let key = UnparsedPublicKey::new(algorithm, public(&signer));
            key.verify(signed.as_bytes(), &signature).unwrap();
            assert!(key.verify(b"something else", &signature).is_err());
            let header = URL_SAFE_NO_PAD.decode(signed.split('.').next().unwrap()).unwrap();
            let header: Value = serde_json::from_slice(&header).unwrap();
            assert_eq!(header["alg"], name);
            assert_eq!(header["kid"], signer.id);
        }
    }

    #[test]
    fn a_file_that_is_no_key_says_what_would_be_one_and_shows_nothing_of_itself() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        for (text, words) in [
            ("topsecret", "openssl pkcs8"),
            ("-----BEGIN EC PRIVATE KEY-----\ntopsecret\n-----END EC PRIVATE KEY-----", "openssl pkcs8"),
            ("-----BEGIN PRIVATE KEY-----\ndG9wc2VjcmV0\n-----END PRIVATE KEY-----", "neither an RSA key"),
        ] {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            let error = Signer::read(&file).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("topsecret"), "{error}");
        }
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        fs::write(&file, ed25519()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Signer::read(&file).unwrap_err().to_string();
        assert!(error.contains("mode 640") && error.contains("chmod"), "{error}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        Signer::read(&file).unwrap();
    }
}
