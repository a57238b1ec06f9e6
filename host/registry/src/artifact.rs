//! Manifests and configs: the OCI image specification 1.1, as the guidance for WebAssembly uses it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use volhost_model::oci::Digest;

/// A manifest.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// A list of manifests.
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The config of a WebAssembly artifact.
pub(crate) const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Its layer.
pub(crate) const WASM_LAYER: &str = "application/wasm";
/// The config of an artifact that has none.
pub(crate) const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// That config.
pub(crate) const EMPTY_CONTENT: &[u8] = b"{}";
/// A signature of minisign: the artifact's type, and its layer's.
pub(crate) const SIGNATURE: &str = "application/vnd.volhost.minisign.v1";

/// When something was created, in RFC 3339.
pub(crate) const CREATED: &str = "org.opencontainers.image.created";

/// The largest manifest, in bytes: the minimum that the distribution specification asks registries
/// to accept.
pub(crate) const MANIFEST_BYTES: u64 = 4 << 20;
/// The largest signature, as the host reads them.
pub(crate) const SIGNATURE_BYTES: u64 = 8 << 10;

/// The content of a digest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<BTreeMap<String, String>>,
}

impl Descriptor {
    pub(crate) fn of(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(content).to_string(),
            size: content.len() as u64,
            artifact_type: None,
            annotations: None,
        }
    }
}

/// A manifest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArtifactManifest {
    pub(crate) schema_version: u32,
    #[serde(default)]
    pub(crate) media_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<BTreeMap<String, String>>,
}

/// A list of manifests.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub(crate) schema_version: u32,
    #[serde(default)]
    pub(crate) media_type: String,
    /// Descriptors, as they were found: those of others stay as they are when ours is added.
    #[serde(default)]
    pub(crate) manifests: Vec<Value>,
}

/// The config of a WebAssembly artifact.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WasmConfig<'a> {
    pub(crate) created: &'a str,
    pub(crate) architecture: &'static str,
    pub(crate) os: &'static str,
    pub(crate) layer_digests: Vec<String>,
    pub(crate) component: Component<'a>,
}

/// The outside of a component.
#[derive(Debug, Serialize)]
pub(crate) struct Component<'a> {
    pub(crate) exports: &'a [String],
    pub(crate) imports: &'a [String],
}
