//! Where an image comes from: a registry, or an image layout in a folder of the node.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

use super::digest::{Digest, DigestError};
use super::reference::{LATEST, Reference, ReferenceError};
use crate::text::printable;

/// How the name of an image layout begins, as podman and skopeo write it.
const LAYOUT: &str = "oci:";
/// The longest path of a layout, in bytes: half of what Linux allows, so that blobs fit below it.
const PATH_BYTES: usize = 2048;

/// What a name of an image lacks.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LocationError {
    /// The name in a registry.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// The digest of a layout's image.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// The folder of a layout.
    #[error("'{0}' is no image layout: write oci:/FOLDER, oci:/FOLDER:TAG or oci:/FOLDER@sha256:..., without `..`")]
    Layout(String),
}

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageLocation {
    /// A registry. The reference has a tag or a digest.
    Registry(Reference),
    /// An OCI image layout on this node.
    Layout {
        /// Its folder: an absolute path without `..`.
        folder: PathBuf,
        /// Which of its images, by `org.opencontainers.image.ref.name`.
        tag: Option<String>,
        /// The digest of the image's manifest.
        digest: Option<Digest>,
    },
}

impl ImageLocation {
    /// The digest of the manifest, if it is written: such an image never changes.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        match self {
            Self::Registry(reference) => reference.digest(),
            Self::Layout { digest, .. } => digest.as_ref(),
        }
    }

    /// Whether another image may get the name at any time: it has no digest, and no tag or
    /// `latest`.
    #[must_use]
    pub fn is_latest(&self) -> bool {
        let tag = match self {
            Self::Registry(reference) => reference.tag(),
            Self::Layout { tag, .. } => tag.as_deref(),
        };
        self.digest().is_none() && tag.is_none_or(|tag| tag == LATEST)
    }
}

impl fmt::Display for ImageLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(reference) => reference.fmt(f),
            Self::Layout { folder, tag, digest } => {
                write!(f, "{LAYOUT}{}", folder.display())?;
                // Without the slash, what follows the folder's own colon would be read as a tag.
                if tag.is_none() && folder.file_name().is_some_and(|name| name.as_encoded_bytes().contains(&b':')) {
                    f.write_str("/")?;
                }
                tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))?;
                digest.as_ref().map_or(Ok(()), |digest| write!(f, "@{digest}"))
            }
        }
    }
}

impl FromStr for ImageLocation {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let Some(rest) = text.strip_prefix(LAYOUT).filter(|rest| rest.starts_with('/')) else {
            return Ok(Self::Registry(Reference::of_image(text)?));
        };
        let (rest, digest) = match rest.rsplit_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse()?)),
            None => (rest, None),
        };
        let (folder, tag) = match rest.rsplit_once(':') {
            Some((folder, tag)) if !tag.contains('/') => (folder, Some(tag)),
            _ => (rest, None),
        };
        let wrong = || LocationError::Layout(printable(text));
        let plain = |text: &str| !text.is_empty() && text.len() <= PATH_BYTES && !text.chars().any(char::is_control);
        let path = Path::new(folder);
        let is_whole = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !is_whole || !plain(folder) || tag.is_some_and(|tag| !plain(tag)) {
            return Err(wrong());
        }
        // Without repeated slashes and one at the end, so that one folder has one name.
        Ok(Self::Layout { folder: path.components().collect(), tag: tag.map(str::to_owned), digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_a_folder_with_a_tag_or_a_digest() {
        let digest = Digest::of(b"x");
        for (text, full, latest) in [
            ("oci:/srv/app", "oci:/srv/app", true),
            ("oci:/srv/app/:latest", "oci:/srv/app:latest", true),
            ("oci:/srv/a:b/app:1.0", "oci:/srv/a:b/app:1.0", false),
            ("oci:/srv/app:1//", "oci:/srv/app:1/", true),
            ("oci:/srv/app:/.", "oci:/srv/app:/", true),
            ("oci:/srv/app:1:2", "oci:/srv/app:1:2", false),
            (&format!("oci:/srv/app:1/@{digest}"), &format!("oci:/srv/app:1/@{digest}"), false),
            (&format!("oci:/srv/app@{digest}"), &format!("oci:/srv/app@{digest}"), false),
            ("nginx", "docker.io/library/nginx:latest", true),
            ("r.example/a:1", "r.example/a:1", false),
        ] {
            let location: ImageLocation = text.parse().unwrap();
            assert_eq!((location.to_string().as_str(), location.is_latest()), (full, latest), "{text}");
            assert_eq!(location.to_string().parse(), Ok(location));
        }
    }

    #[test]
    fn what_is_no_layout_is_refused() {
        for text in ["oci:/srv/../etc", "oci:/srv/a:", "oci:/a\nb", "oci:/a@sha256:0", "oci:srv/app", "oci:/a:b\0"] {
            assert!(text.parse::<ImageLocation>().is_err(), "{text}");
        }
    }
}
