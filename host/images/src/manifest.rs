//! Manifests, indexes and configs, as far as a volume needs them. They come from strangers.

use serde::Deserialize;
use volhost_model::images::ImageError;
use volhost_model::oci::Digest;
use volhost_model::text::printable;

/// The largest manifest, index or config, in bytes: what the distribution specification asks
/// registries to accept.
pub(crate) const MANIFEST_BYTES: u64 = 4 << 20;
/// The most layers of an image: fewer than overlay takes with the empty one below.
const MOST_LAYERS: usize = 128;

const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// What is asked for.
pub(crate) const ACCEPTED: [&str; 4] = [OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST];
/// Configs that list the digests of their unpacked layers.
const CONFIGS: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];

/// How a layer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// The types of layers that are archives.
const LAYERS: [(&str, Compression); 5] = [
    ("application/vnd.oci.image.layer.v1.tar", Compression::None),
    ("application/vnd.oci.image.layer.v1.tar+gzip", Compression::Gzip),
    ("application/vnd.oci.image.layer.v1.tar+zstd", Compression::Zstd),
    ("application/vnd.docker.image.rootfs.diff.tar", Compression::None),
    ("application/vnd.docker.image.rootfs.diff.tar.gzip", Compression::Gzip),
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: u32,
    #[serde(default)]
    media_type: String,
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
}

#[derive(Debug, Deserialize)]
struct Config {
    rootfs: Option<Rootfs>,
}

#[derive(Debug, Deserialize)]
struct Rootfs {
    diff_ids: Vec<String>,
}

/// A blob by digest and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

/// A layer of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) blob: Blob,
    pub(crate) compression: Compression,
    /// The digest of the archive, where the config has it.
    pub(crate) unpacked: Option<Digest>,
}

/// What a reference leads to.
#[derive(Debug)]
pub(crate) enum Found {
    /// An image: its config, where that lists the layers' digests, and its layers, the lowest
    /// first.
    Image { config: Option<Blob>, layers: Vec<Layer> },
    /// The image for this platform, of a list.
    Listed(Blob),
}

fn corrupt(text: String) -> ImageError {
    ImageError::Corrupt(text)
}

impl Descriptor {
    fn blob(&self, what: &str) -> Result<Blob, ImageError> {
        let digest = self.digest.parse().map_err(|error| corrupt(format!("{what}: {error}")))?;
        Ok(Blob { digest, size: self.size })
    }

    /// Its name in an image layout.
    pub(crate) fn reference_name(&self) -> Option<&str> {
        self.annotations.get("org.opencontainers.image.ref.name").map(String::as_str)
    }

    /// The blob of a manifest or index.
    pub(crate) fn of_manifest(&self) -> Result<Blob, ImageError> {
        let blob = self.blob("the index")?;
        if blob.size > MANIFEST_BYTES {
            return Err(corrupt(format!("a manifest of {} bytes is no manifest", blob.size)));
        }
        Ok(blob)
    }
}

/// This node's architecture, by Go's name, as images have it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

fn parse<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T, ImageError> {
    serde_json::from_slice(bytes)
        .map_err(|error| corrupt(format!("{what} cannot be read: {}", printable(&error.to_string()))))
}

/// The manifests of an image layout's index.
pub(crate) fn read_layout_index(bytes: &[u8]) -> Result<Vec<Descriptor>, ImageError> {
    let document: Document = parse("the layout's index.json", bytes)?;
    Ok(document.manifests.unwrap_or_default())
}

/// Reads a manifest or an index.
///
/// # Errors
/// `Corrupt` for what is neither, `Unsupported` for what has no files for this platform.
pub(crate) fn read(bytes: &[u8]) -> Result<Found, ImageError> {
    let document: Document = parse("the manifest", bytes)?;
    if document.schema_version != 2 {
        let text = format!("the manifest is of version {}, and 2 is supported", document.schema_version);
        return Err(ImageError::Unsupported(text));
    }
    match (document.manifests, document.config, document.layers) {
        (Some(manifests), None, None) => listed(&manifests).map(Found::Listed),
        (None, Some(config), Some(layers)) => {
            if !document.media_type.is_empty() && !ACCEPTED.contains(&document.media_type.as_str()) {
                let text = format!("the manifest is of type {}, and no image's", printable(&document.media_type));
                return Err(ImageError::Unsupported(text));
            }
            let layers = layers.iter().map(layer).collect::<Result<Vec<_>, _>>()?;
            if layers.is_empty() || layers.len() > MOST_LAYERS {
                let text = format!("it has {} layers, and an image volume has 1 to {MOST_LAYERS}", layers.len());
                return Err(ImageError::Unsupported(text));
            }
            let config = CONFIGS.contains(&config.media_type.as_str()).then(|| config.of_manifest()).transpose()?;
            Ok(Found::Image { config, layers })
        }
        _ => Err(corrupt("the manifest is neither that of an image nor a list of manifests".to_owned())),
    }
}

/// The manifest for this platform; the first one, as container runtimes choose.
fn listed(manifests: &[Descriptor]) -> Result<Blob, ImageError> {
    let is_ours = |platform: &Platform| platform.os == "linux" && platform.architecture == architecture();
    let ours = manifests.iter().find(|one| one.platform.as_ref().is_some_and(is_ours));
    // Of artifacts, which run nowhere, lists often have one manifest without a platform.
    let only = match manifests {
        [only] if only.platform.is_none() => Some(only),
        _ => None,
    };
    let Some(found) = ours.or(only) else {
        let name = |platform: &Platform| printable(&format!("{}/{}", platform.os, platform.architecture));
        let there: Vec<String> = manifests.iter().filter_map(|one| one.platform.as_ref().map(name)).take(8).collect();
        return Err(ImageError::Unsupported(format!(
            "it has no image for linux/{}; there is: {}",
            architecture(),
            there.join(", ")
        )));
    };
    found.of_manifest()
}

fn layer(descriptor: &Descriptor) -> Result<Layer, ImageError> {
    let known = LAYERS.iter().find(|(name, _)| *name == descriptor.media_type);
    let Some((_, compression)) = known else {
        let text = format!(
            "a layer is of type {}, and not an archive (tar, tar+gzip, tar+zstd) whose files a volume could show",
            printable(&descriptor.media_type)
        );
        return Err(ImageError::Unsupported(text));
    };
    Ok(Layer { blob: descriptor.blob("a layer")?, compression: *compression, unpacked: None })
}

/// Sets the digests of the unpacked layers that the config lists.
///
/// # Errors
/// `Corrupt` when it is no config, or of other layers.
pub(crate) fn apply_config(layers: &mut [Layer], config: &[u8]) -> Result<(), ImageError> {
    let config: Config = parse("the image's config", config)?;
    let Some(Rootfs { diff_ids }) = config.rootfs else { return Ok(()) };
    if diff_ids.len() != layers.len() {
        return Err(corrupt(format!("the config lists {} layers, and the manifest {}", diff_ids.len(), layers.len())));
    }
    for (layer, id) in layers.iter_mut().zip(diff_ids) {
        layer.unpacked = Some(id.parse().map_err(|error| corrupt(format!("the config: {error}")))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(layer_type: &str) -> String {
        let digest = Digest::of(b"x");
        format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.empty.v1+json","digest":"{digest}","size":2}},
            "layers":[{{"mediaType":"{layer_type}","digest":"{digest}","size":1}}]}}"#
        )
    }

    #[test]
    fn an_artifact_without_a_config_is_an_image_if_its_layers_are_archives() {
        let found = read(manifest("application/vnd.oci.image.layer.v1.tar+zstd").as_bytes()).unwrap();
        let Found::Image { config: None, layers } = found else { panic!("{found:?}") };
        assert_eq!(layers[0].compression, Compression::Zstd);
        for wrong in ["application/wasm", "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", ""] {
            assert!(matches!(read(manifest(wrong).as_bytes()), Err(ImageError::Unsupported(_))), "{wrong}");
        }
    }

    #[test]
    fn of_a_list_the_manifest_for_this_platform_is_taken() {
        let (ours, other) = (Digest::of(b"ours"), Digest::of(b"other"));
        let list = |architecture: &str| {
            format!(
                r#"{{"schemaVersion":2,"manifests":[
                {{"mediaType":"{OCI_MANIFEST}","digest":"{other}","size":3,"platform":{{"os":"linux","architecture":"z80"}}}},
                {{"mediaType":"{OCI_MANIFEST}","digest":"{ours}","size":3,"platform":{{"os":"linux","architecture":"{architecture}"}}}}]}}"#
            )
        };
        let found = read(list(architecture()).as_bytes()).unwrap();
        assert!(matches!(&found, Found::Listed(blob) if blob.digest == ours), "{found:?}");
        let refused = read(list("vax").as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("linux/z80, linux/vax"), "{refused}");
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"schemaVersion":1}"#,
            r#"{"schemaVersion":2}"#,
            r#"{"schemaVersion":2,"manifests":[]}"#,
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
        let wrong = manifest("application/vnd.oci.image.layer.v1.tar").replace("sha256:", "sha256:../");
        assert!(matches!(read(wrong.as_bytes()), Err(ImageError::Corrupt(_))));
    }

    #[test]
    fn a_config_names_each_unpacked_layer() {
        let mut layers = match read(manifest("application/vnd.oci.image.layer.v1.tar").as_bytes()).unwrap() {
            Found::Image { layers, .. } => layers,
            found @ Found::Listed(_) => panic!("{found:?}"),
        };
        let unpacked = Digest::of(b"archive");
        apply_config(&mut layers, format!(r#"{{"rootfs":{{"diff_ids":["{unpacked}"]}}}}"#).as_bytes()).unwrap();
        assert_eq!(layers[0].unpacked, Some(unpacked));
        assert!(apply_config(&mut layers, br#"{"rootfs":{"diff_ids":[]}}"#).is_err());
    }
}
