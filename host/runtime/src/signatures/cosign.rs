//! Signatures of cosign with a key pair: ECDSA on P-256 over SHA-256.
//!
//! `cosign sign-blob` signs a file. `cosign sign` signs what is in a registry: a *payload* that
//! names the digest of a manifest, which names the digest of the file. `volhost plugin pull` keeps
//! payload and manifest, so that the chain from the signature to the file can be followed without
//! the registry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use volhost_model::text::lower_hex;

/// The frame of a public key's PEM.
pub(super) const PEM_BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const PEM_END: &str = "-----END PUBLIC KEY-----";
/// What precedes the point in the DER of a P-256 key (RFC 5480): the algorithm and the curve.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The bytes of an uncompressed point.
const POINT: usize = 65;
/// The type of the payload that `cosign sign` signs.
const PAYLOAD_TYPE: &str = "cosign container image signature";

/// A public key of cosign's.
#[derive(Debug, Clone)]
pub(super) struct CosignKey(UnparsedPublicKey<Vec<u8>>);

impl CosignKey {
    /// Reads `cosign.pub`.
    pub(super) fn decode(pem: &str) -> Result<Self, String> {
        let body = pem.trim().strip_prefix(PEM_BEGIN).and_then(|rest| rest.strip_suffix(PEM_END));
        let body = body.ok_or_else(|| format!("it does not end with {PEM_END}"))?;
        let body: String = body.split_whitespace().collect();
        let der = BASE64.decode(body).map_err(|error| format!("it is not base64: {error}"))?;
        match der.strip_prefix(&P256) {
            Some(point) if point.len() == POINT => {
                Ok(Self(UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point.to_vec())))
            }
            _ => Err("it is no key for ECDSA on P-256, the kind that `cosign generate-key-pair` makes".to_owned()),
        }
    }

    /// Whether this key has signed the content.
    pub(super) fn has_signed(&self, content: &[u8], signature: &[u8]) -> bool {
        self.0.verify(content, signature).is_ok()
    }
}

/// Reads what `cosign sign-blob --output-signature` writes.
pub(super) fn blob_signature(text: &str) -> Result<Vec<u8>, String> {
    let signature = BASE64.decode(text.trim()).map_err(|error| format!("it is not base64: {error}"))?;
    if signature.is_empty() { Err("it is empty".to_owned()) } else { Ok(signature) }
}

/// The signatures of an artifact in a registry, as `volhost plugin pull` keeps them beside the
/// plugin. All texts are base64.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArtifactSignatures {
    /// The artifact's manifest, as the registry sends it.
    pub manifest: String,
    /// Its signatures.
    pub signatures: Vec<ArtifactSignature>,
}

/// A signature that `cosign sign` has put into a registry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ArtifactSignature {
    /// What is signed: JSON that names the manifest's digest.
    pub payload: String,
    /// The signature, in DER.
    pub signature: String,
}

/// A payload, as far as it matters here.
#[derive(Deserialize)]
struct Payload {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    r#type: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// A manifest, as far as it matters here.
#[derive(Deserialize)]
struct Manifest {
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Layer {
    digest: String,
}

/// What a signature of an artifact is over, and whether that leads to the plugin.
pub(super) struct SignedPayload {
    pub(super) payload: Vec<u8>,
    pub(super) signature: Vec<u8>,
}

impl ArtifactSignatures {
    /// Reads the file.
    pub(super) fn decode(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The payloads with their signatures. Whether they are for this content is not checked.
    pub(super) fn payloads(&self) -> Result<Vec<SignedPayload>, String> {
        self.signatures
            .iter()
            .map(|one| Ok(SignedPayload { payload: decoded(&one.payload)?, signature: decoded(&one.signature)? }))
            .collect()
    }

    /// Checks that the payload names the manifest, and the manifest the content.
    ///
    /// # Errors
    /// The first link that does not hold.
    pub(super) fn check_chain(&self, payload: &[u8], content: &[u8]) -> Result<(), String> {
        let payload: Payload =
            serde_json::from_slice(payload).map_err(|error| format!("its payload is none of cosign's: {error}"))?;
        let Critical { image, r#type } = payload.critical;
        if r#type != PAYLOAD_TYPE {
            return Err(format!("its payload is of type `{}`, and not `{PAYLOAD_TYPE}`", r#type.escape_debug()));
        }
        let manifest = decoded(&self.manifest)?;
        let found = digest(&manifest);
        if image.digest != found {
            return Err(format!(
                "it signs the manifest {}, and the one beside it is {found}",
                image.digest.escape_debug()
            ));
        }
        let manifest: Manifest = serde_json::from_slice(&manifest)
            .map_err(|error| format!("the signed manifest cannot be read: {error}"))?;
        let found = digest(content);
        match manifest.layers.as_slice() {
            [layer] if layer.digest == found => Ok(()),
            [layer] => Err(format!(
                "the signed manifest {} is for the file {}, and the plugin's is {found}",
                image.digest,
                layer.digest.escape_debug()
            )),
            layers => {
                Err(format!("the signed manifest {} has {} layers, and a plugin has one", image.digest, layers.len()))
            }
        }
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, String> {
    BASE64.decode(text.trim()).map_err(|error| format!("a part of it is not base64: {error}"))
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", lower_hex(&Sha256::digest(content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by cosign 2.4.1: `cosign generate-key-pair`, and `cosign sign-blob --key cosign.key`.
    const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE2mOLeW2FdHXGe7HC5vodkXc7Rx9i\nL93lpRHV0UOsw4b2lmjbAsOHPK9T9pGIJ4IKzcK+g2IwfgUsHxnO+ZwBww==\n-----END PUBLIC KEY-----\n";
    const SIGNATURE: &str =
        "MEYCIQCXJl6FQHwTib41GrXLdnvQblEMvh7BpoVRV3yH3CrY5QIhAMBC/vAg01d3y6NBv2Sbl36qzPAK1OZeQixdBRSSW0Jf";
    const CONTENT: &[u8] = b"a plugin of a test\n";

    #[test]
    fn what_cosign_itself_has_written_is_verified() {
        let key = CosignKey::decode(KEY).unwrap();
        let signature = blob_signature(SIGNATURE).unwrap();
        assert!(key.has_signed(CONTENT, &signature));
        assert!(!key.has_signed(b"another plugin\n", &signature));
        let mut other = signature.clone();
        *other.last_mut().unwrap() ^= 1;
        assert!(!key.has_signed(CONTENT, &other) && !key.has_signed(CONTENT, &signature[1..]));
    }
}
