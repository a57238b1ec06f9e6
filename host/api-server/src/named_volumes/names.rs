//! The names of the objects that make up a named volume.
//!
//! Names and ids that are lower-case DNS names stay as they are. Others, which containers use too
//! (`My_data`), are written in hexadecimal after `x-`, so that different names stay different.

use thiserror::Error;

/// The namespace of the claims and of the users' pods.
pub(super) const NAMESPACE: &str = "volhost-volumes";
/// The start of a StorageClass's name: classes are in no namespace.
const CLASS_PREFIX: &str = "volhost-volume.";
/// The start of a name that is written in hexadecimal.
const ENCODED: &str = "x-";
/// The longest object name of a volume, in bytes. With [`MAX_ID_BYTES`] and a dot it is within the
/// 253 bytes of a pod's name.
const MAX_NAME_BYTES: usize = 150;
/// The longest id in a pod's name, in bytes. The ids of containers have 64.
const MAX_ID_BYTES: usize = 100;

/// Why a name or an id was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum NamedVolumeNameError {
    /// It has a character that no volume name has.
    #[error("{what}: {text:?} is not valid: a letter or digit comes first, then letters, digits, `_`, `.` and `-`")]
    Malformed { what: &'static str, text: String },
    /// It is too long.
    #[error("{what}: it is too long: {max} characters at most, {half} if it has capitals or `_`")]
    TooLong { what: &'static str, max: usize, half: usize },
}

/// The valid name of a named volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumeName {
    name: String,
    object: String,
}

impl VolumeName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`NamedVolumeNameError`].
    pub(super) fn new(name: &str) -> Result<Self, NamedVolumeNameError> {
        let object = encode("name", name, MAX_NAME_BYTES, true)?;
        Ok(Self { name: name.to_owned(), object })
    }

    /// Returns the volume of this claim; none if it is no claim of a named volume.
    pub(super) fn of_claim(namespace: &str, claim: &str) -> Option<Self> {
        let name = (namespace == NAMESPACE).then(|| decode(claim)).flatten()?;
        Self::new(&name).ok().filter(|volume| volume.object == claim)
    }

    /// Returns the name as users write it.
    pub(super) fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns the name of the claim.
    pub(super) fn claim(&self) -> &str {
        &self.object
    }

    /// Returns the name of the StorageClass.
    pub(super) fn class(&self) -> String {
        format!("{CLASS_PREFIX}{}", self.object)
    }

    /// Returns the name of the PersistentVolume, where no driver makes the volume.
    pub(super) fn persistent_volume(&self) -> String {
        self.class()
    }

    /// Returns the name of a user's pod.
    ///
    /// # Errors
    /// [`NamedVolumeNameError`] for an invalid id.
    pub(super) fn pod(&self, id: &str) -> Result<String, NamedVolumeNameError> {
        Ok(format!("{}.{}", self.object, encode("id", id, MAX_ID_BYTES, false)?))
    }

    /// Returns the id of the user with this pod. A pod that was added by other means is its own
    /// user.
    pub(super) fn user(&self, namespace: &str, pod: &str) -> String {
        let id = pod.strip_prefix(&self.object).and_then(|rest| rest.strip_prefix('.'));
        let id = id.filter(|id| namespace == NAMESPACE && !id.contains('.')).and_then(decode);
        id.unwrap_or_else(|| format!("pod {namespace}/{pod}"))
    }
}

/// Writes a text as the name of an object. An id has no dots: one separates it from the volume.
fn encode(what: &'static str, text: &str, max: usize, dots: bool) -> Result<String, NamedVolumeNameError> {
    let is_valid = text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if !is_valid {
        return Err(NamedVolumeNameError::Malformed { what, text: text.chars().take(64).collect() });
    }
    let is_label = |label: &str| {
        let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && label.chars().all(inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_plain = text.split('.').all(is_label) && !text.starts_with(ENCODED) && (dots || !text.contains('.'));
    let encoded = if is_plain {
        text.to_owned()
    } else {
        text.bytes().fold(ENCODED.to_owned(), |encoded, byte| format!("{encoded}{byte:02x}"))
    };
    if encoded.len() > max {
        return Err(NamedVolumeNameError::TooLong { what, max, half: (max - ENCODED.len()) / 2 });
    }
    Ok(encoded)
}

/// Reads what [`encode`] wrote.
fn decode(encoded: &str) -> Option<String> {
    let Some(digits) = encoded.strip_prefix(ENCODED) else { return Some(encoded.to_owned()) };
    let bytes = (0..digits.len()).step_by(2);
    let bytes = bytes.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect::<Option<Vec<u8>>>()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_valid_name_is_read_back_from_its_claim() {
        for name in ["data", "My_data", "x-6162", "a.b", "a..b", "a-", "0".repeat(64).as_str()] {
            let volume = VolumeName::new(name).unwrap();
            assert_eq!(VolumeName::of_claim(NAMESPACE, volume.claim()), Some(volume));
        }
    }

    #[test]
    fn users_of_volumes_with_similar_names_are_different_pods() {
        let (short, long) = (VolumeName::new("a").unwrap(), VolumeName::new("a.b").unwrap());
        assert_ne!(short.pod("b.c").unwrap(), long.pod("c").unwrap());
        assert_eq!(short.user(NAMESPACE, &short.pod("b.c").unwrap()), "b.c");
        assert_eq!(long.user(NAMESPACE, &long.pod("Web_1").unwrap()), "Web_1");
        assert_eq!(short.user("default", "web"), "pod default/web");
    }

    #[test]
    fn hostile_names_are_refused_and_named() {
        for name in ["", "../etc", "a/b", "-a", ".a", "a b", "a\n", "ä", "a\0"] {
            assert!(matches!(VolumeName::new(name), Err(NamedVolumeNameError::Malformed { .. })), "{name:?}");
        }
        assert!(matches!(VolumeName::new(&"a".repeat(151)), Err(NamedVolumeNameError::TooLong { .. })));
        assert!(matches!(VolumeName::new(&"A".repeat(75)), Err(NamedVolumeNameError::TooLong { .. })));
        assert!(VolumeName::new("a").unwrap().pod("a/b").is_err());
    }
}
