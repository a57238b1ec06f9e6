//! The sources of `projected`.

use volhost_plugin_sdk::file_set::DEFAULT_MODE;
use volhost_plugin_sdk::objects::{self, ConfigMap, Secret};
use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::{FileSet, KeySelection, PodItems};

/// The default lifetime of a token, in seconds, and the shortest and longest that Kubernetes
/// allows.
const TOKEN_SECONDS: u64 = 3600;
const SHORTEST_TOKEN: u64 = 600;
const LONGEST_TOKEN: u64 = 1 << 32;
/// The words for each kind of source.
const KINDS: &[&str] =
    &["configMap", "secret", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

/// The selection of certificates.
#[derive(Debug)]
pub(crate) enum Bundle {
    Named(String),
    SignedBy { signer: String, label_selector: Option<String> },
}

/// A checked entry of `sources`.
#[derive(Debug)]
pub(crate) enum Source {
    ConfigMap { name: String, keys: KeySelection },
    Secret { name: String, keys: KeySelection },
    Pod(PodItems),
    Token { at: String, path: String, audience: Option<String>, seconds: u64, mode: u32 },
    Bundle { at: String, path: String, which: Bundle, optional: bool, mode: u32 },
}

impl Source {
    /// Reads and checks every source.
    ///
    /// # Errors
    /// `invalid-argument` naming the field; `unsupported` for pod certificates.
    pub(crate) fn read_all(volume: &Volume) -> Result<Vec<Self>> {
        volume.known_fields(&["sources", "defaultMode"])?;
        let mode = volume.mode("defaultMode")?.unwrap_or(DEFAULT_MODE);
        volume.list("sources")?.into_iter().map(|at| Self::read(volume, &at, mode)).collect()
    }

    fn read(volume: &Volume, entry: &str, mode: u32) -> Result<Self> {
        volume.known_fields_at(entry, KINDS)?;
        let given: Vec<String> = volume
            .fields_at(entry)
            .into_iter()
            .filter(|kind| volume.kind(&format!("{entry}.{kind}")).is_some())
            .collect();
        let [kind] = given.as_slice() else {
            let why = match given.len() {
                0 => format!("has no source; give it one of {}", KINDS.join(", ")),
                _ => format!("has {} sources ({}); give each an entry of its own", given.len(), given.join(", ")),
            };
            return Err(volume.invalid(entry, why));
        };
        let at = format!("{entry}.{kind}");
        match kind.as_str() {
            "configMap" => {
                let (name, keys) = keyed(volume, &at, mode)?;
                Ok(Self::ConfigMap { name, keys })
            }
            "secret" => {
                let (name, keys) = keyed(volume, &at, mode)?;
                Ok(Self::Secret { name, keys })
            }
            "downwardAPI" => {
                volume.known_fields_at(&at, &["items"])?;
                Ok(Self::Pod(PodItems::read(volume, &at, mode)?))
            }
            "serviceAccountToken" => token(volume, at, mode),
            "clusterTrustBundle" => bundle(volume, at, mode),
            _ => Err(Error::unsupported(format!(
                "{}: this node issues no pod certificates; use a secret with the certificate",
                volume.place(&at)
            ))),
        }
    }

    /// Adds the source's files.
    ///
    /// # Errors
    /// `not-found` for what is missing and not optional; else the host's.
    pub(crate) fn show(&self, volume: &Volume, pod: &Pod, files: &FileSet) -> Result<()> {
        match self {
            Self::ConfigMap { name, keys } => keys.show(volume, ConfigMap::open(volume, pod, name), files),
            Self::Secret { name, keys } => keys.show(volume, Secret::open(volume, pod, name), files),
            Self::Pod(items) => items.show(volume, pod, files),
            Self::Token { at, path, audience, seconds, mode } => {
                objects::service_account_token(pod, audience.as_deref(), *seconds)
                    .and_then(|token| files.add_private(path, &token, *mode))
                    .with_context(|| volume.place(at))
            }
            Self::Bundle { at, path, which, optional, mode } => {
                let found = match which {
                    Bundle::Named(name) => objects::trust_bundle(volume, name),
                    Bundle::SignedBy { signer, label_selector } => {
                        objects::trust_bundles(volume, signer, label_selector.as_deref())
                    }
                };
                match found {
                    // The file exists anyway: programs expect to find it.
                    Err(Error::NotFound(_)) if *optional => files.add(path, b"", *mode),
                    found => found.and_then(|pem| files.add_private(path, &pem, *mode)),
                }
                .with_context(|| volume.place(at))
            }
        }
    }
}

fn keyed(volume: &Volume, at: &str, mode: u32) -> Result<(String, KeySelection)> {
    volume.known_fields_at(at, &["name", "items", "optional"])?;
    Ok((volume.required(&format!("{at}.name"))?, KeySelection::read(volume, at, mode)?))
}

fn token(volume: &Volume, at: String, mode: u32) -> Result<Source> {
    volume.known_fields_at(&at, &["path", "audience", "expirationSeconds"])?;
    let field = format!("{at}.expirationSeconds");
    let seconds = match volume.integer(&field)? {
        None => TOKEN_SECONDS,
        Some(number) => match u64::try_from(number) {
            Ok(seconds) if (SHORTEST_TOKEN..=LONGEST_TOKEN).contains(&seconds) => seconds,
            _ => {
                let why = format!("{number} is out of range; {SHORTEST_TOKEN} to {LONGEST_TOKEN} is allowed");
                return Err(volume.invalid(&field, why));
            }
        },
    };
    let audience = volume.string(&format!("{at}.audience")).filter(|audience| !audience.is_empty());
    Ok(Source::Token { path: volume.file_path(&format!("{at}.path"))?, audience, seconds, mode, at })
}

fn bundle(volume: &Volume, at: String, mode: u32) -> Result<Source> {
    volume.known_fields_at(&at, &["name", "signerName", "labelSelector", "optional", "path"])?;
    let selector = format!("{at}.labelSelector");
    if volume.kind(&selector).is_some() {
        volume.known_fields_at(&selector, &["matchLabels", "matchExpressions"])?;
    }
    let text = |field: &str| volume.string(&format!("{at}.{field}")).filter(|text| !text.is_empty());
    let which = match (text("name"), text("signerName")) {
        (Some(name), None) => match text("labelSelector") {
            None => Bundle::Named(name),
            Some(_) => return Err(volume.invalid(&at, "has name and labelSelector; a selector goes with signerName")),
        },
        (None, Some(signer)) => Bundle::SignedBy { signer, label_selector: text("labelSelector") },
        (Some(_), Some(_)) => return Err(volume.invalid(&at, "has both name and signerName; remove one")),
        (None, None) => return Err(volume.invalid(&at, "has neither name nor signerName; add one")),
    };
    let optional = volume.boolean(&format!("{at}.optional"))?.unwrap_or(false);
    Ok(Source::Bundle { path: volume.file_path(&format!("{at}.path"))?, which, optional, mode, at })
}
