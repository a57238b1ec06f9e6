//! Checked names. A value of these types is safe as one component of a path: it is not empty, not
//! `.` or `..`, has no `/`, no NUL and no control character, and is short enough for a file name.
//!
//! A copy of a name shares its text: both worlds, the operation table and every record of a volume
//! share the same names.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::text::shorten;

/// Linux's limit for one path component, in bytes.
pub const MAX_COMPONENT_BYTES: usize = 255;
/// The longest name a plugin may give a volume, in bytes. CSI allows 128-byte handles and drivers
/// use more; paths never carry it.
pub const MAX_VOLUME_NAME_BYTES: usize = 1024;

/// Why a name was refused. The text says what would be right, and shows at most the beginning of
/// what was given.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// It is empty.
    #[error("{what} is empty")]
    Empty {
        /// The kind of name.
        what: &'static str,
    },
    /// It is too long.
    #[error("{what} {shown:?} has {bytes} bytes, {limit} at most")]
    TooLong {
        /// The kind of name.
        what: &'static str,
        /// Its beginning.
        shown: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// It is not of the allowed form.
    #[error("{what} {shown:?} is not valid: {rule}")]
    Malformed {
        /// The kind of name.
        what: &'static str,
        /// Its beginning.
        shown: String,
        /// The valid form.
        rule: &'static str,
    },
}

/// How much of a refused name a message shows, in characters.
const SHOWN_CHARS: usize = 64;

/// The beginning of `text`, short enough for an error message.
fn shown(text: &str) -> String {
    shorten(text, SHOWN_CHARS)
}

fn check_component(what: &'static str, text: &str, limit: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty { what });
    }
    if text.len() > limit {
        return Err(NameError::TooLong { what, shown: shown(text), bytes: text.len(), limit });
    }
    if text == "." || text == ".." || text.contains('/') || text.chars().any(char::is_control) {
        return Err(NameError::Malformed {
            what,
            shown: shown(text),
            rule: "it must be one path component, without `/`, control characters, and not `.` or `..`",
        });
    }
    Ok(())
}

fn is_dns_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
}

fn is_dns_label(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_dns_char) && !text.starts_with('-') && !text.ends_with('-')
}

/// Checks a Kubernetes DNS label (RFC 1123): a pod's volume name, a namespace.
pub fn check_dns_label(what: &'static str, text: &str) -> Result<(), NameError> {
    const LABEL_BYTES: usize = 63;
    check_component(what, text, LABEL_BYTES)?;
    if is_dns_label(text) {
        return Ok(());
    }
    Err(NameError::Malformed {
        what,
        shown: shown(text),
        rule: "it must be lower-case letters, digits and `-`, and begin and end with a letter or digit",
    })
}

/// Checks a Kubernetes DNS subdomain (RFC 1123): the name of a pod, a claim, a PersistentVolume.
pub fn check_dns_subdomain(what: &'static str, text: &str) -> Result<(), NameError> {
    const SUBDOMAIN_BYTES: usize = 253;
    check_component(what, text, SUBDOMAIN_BYTES)?;
    if text.split('.').all(is_dns_label) {
        return Ok(());
    }
    Err(NameError::Malformed {
        what,
        shown: shown(text),
        rule: "it must be lower-case letters, digits, `-` and `.`, and each part must begin and end with a letter or digit",
    })
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        // Copies share their text, so that most names that are equal are equal by address; a map
        // compares each name that it finds.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }

        impl $name {
            /// Checks and takes the name.
            ///
            /// # Errors
            /// [`NameError`] when it is not of the type's form.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                let check: fn(&'static str, &str) -> Result<(), NameError> = $check;
                check($what, &text)?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }
    };
}

name_type!(
    /// A pod's uid: the name of its folder under `pods/`.
    PodUid, "pod uid", check_pod_uid
);
name_type!(
    /// The name of a volume in its pod (`spec.volumes[].name`).
    OuterName, "volume name", check_dns_label
);
name_type!(
    /// The name of a volume in the pod's folder: the outer name for an inline volume, the
    /// PersistentVolume's name otherwise.
    SpecName, "volume spec name", check_dns_subdomain
);
name_type!(
    /// A plugin's name, `vendor/name`.
    PluginName, "plugin name", check_plugin_name
);
name_type!(
    /// The name by which the host knows one volume: equal names are one volume.
    UniqueVolumeName, "unique volume name", check_unique_name
);

/// Checks a pod's uid. Kubernetes uses UUIDs and the kubelet 32 hex digits for static pods;
/// anything is taken that is visible, short and safe in a path, a log line and a command.
fn check_pod_uid(what: &'static str, text: &str) -> Result<(), NameError> {
    const UID_BYTES: usize = 128;
    check_component(what, text, UID_BYTES)?;
    let ends = [text.chars().next(), text.chars().next_back()];
    let good = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && ends.iter().flatten().all(char::is_ascii_alphanumeric);
    if good {
        return Ok(());
    }
    Err(NameError::Malformed {
        what,
        shown: shown(text),
        rule: "it must be ASCII letters, digits, `-`, `_` and `.`, and begin and end with a letter or digit",
    })
}

fn check_plugin_name(what: &'static str, text: &str) -> Result<(), NameError> {
    const RULE: &str = "it must be `vendor/name`, each of lower-case letters, digits, `-` and `.`";
    if text.is_empty() {
        return Err(NameError::Empty { what });
    }
    if text.len() > MAX_COMPONENT_BYTES {
        return Err(NameError::TooLong { what, shown: shown(text), bytes: text.len(), limit: MAX_COMPONENT_BYTES });
    }
    match text.split_once('/') {
        Some((vendor, name)) if [vendor, name].iter().all(|part| part.split('.').all(is_dns_label)) => Ok(()),
        _ => Err(NameError::Malformed { what, shown: shown(text), rule: RULE }),
    }
}

fn check_unique_name(what: &'static str, text: &str) -> Result<(), NameError> {
    // A plugin name, a slash, and what the plugin or the pod adds.
    const LIMIT: usize = MAX_COMPONENT_BYTES + 1 + MAX_VOLUME_NAME_BYTES;
    if text.len() > LIMIT {
        return Err(NameError::TooLong { what, shown: shown(text), bytes: text.len(), limit: LIMIT });
    }
    if text.splitn(3, '/').filter(|part| !part.is_empty()).count() < 3 || text.chars().any(char::is_control) {
        return Err(NameError::Malformed {
            what,
            shown: shown(text),
            rule: "it must be `vendor/name/volume` without control characters",
        });
    }
    Ok(())
}

impl PluginName {
    /// The name as one path component: `vendor~name`, as the kubelet writes it.
    pub fn escaped(&self) -> String {
        self.0.replace('/', "~")
    }

    /// The plugin name behind a folder's name, the inverse of [`PluginName::escaped`].
    ///
    /// # Errors
    /// [`NameError`] when the folder is not named for a plugin.
    pub fn from_escaped(folder: &str) -> Result<Self, NameError> {
        // Both ways: a folder's name has no slash, so a slash must not become part of the plugin's.
        let swap = |character| match character {
            '~' => '/',
            '/' => '~',
            other => other,
        };
        Self::new(folder.chars().map(swap).collect::<String>())
    }
}

impl UniqueVolumeName {
    /// The name of a volume that pods share: the plugin attaches or stages it, and names it itself.
    ///
    /// # Errors
    /// [`NameError`] when `volume_name`, the plugin's word, is empty, too long or has control characters.
    pub fn shared(plugin: &PluginName, volume_name: &str) -> Result<Self, NameError> {
        Self::new(format!("{plugin}/{volume_name}"))
    }

    /// The name of a volume that belongs to one pod. Unlike the kubelet's `UID-NAME` it has a slash
    /// between uid and name, which neither of them contains: the volumes of different pods never
    /// have equal names.
    pub fn of_pod(plugin: &PluginName, pod: &PodUid, spec_name: &SpecName) -> Self {
        // Made of checked parts: a plugin name, and components without control characters.
        Self([plugin.as_str(), "/", pod.as_str(), "/", spec_name.as_str()].concat().into())
    }

    /// The plugin's part of the name, `vendor/name`.
    pub fn plugin(&self) -> &str {
        let mut slashes = self.0.match_indices('/');
        let _vendor = slashes.next();
        slashes.next().map_or(self.as_str(), |(at, _)| self.0.get(..at).unwrap_or(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused_as_path_components() {
        for bad in ["", ".", "..", "a/b", "a\0b", "a\nb"] {
            assert!(PodUid::new(bad).is_err(), "{bad:?}");
            assert!(OuterName::new(bad).is_err(), "{bad:?}");
            assert!(SpecName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_name_of_ten_thousand_characters_is_refused_without_being_repeated() {
        let error = OuterName::new("x".repeat(10_000)).unwrap_err().to_string();
        assert!(error.contains("10000 bytes, 63 at most"), "{error}");
        assert!(error.len() < 200, "{error}");
    }

    #[test]
    fn a_plugin_name_escapes_to_the_kubelets_folder_and_back() {
        let name = PluginName::new("kubernetes.io/empty-dir").unwrap();
        assert_eq!(name.escaped(), "kubernetes.io~empty-dir");
        assert_eq!(PluginName::from_escaped("kubernetes.io~empty-dir").unwrap(), name);
        for folder in ["kubernetes.io/empty-dir", "a~b/c", "a~b~c"] {
            assert!(PluginName::from_escaped(folder).is_err(), "{folder}");
        }
        for bad in ["empty-dir", "a/b/c", "../x", "A/b", "a/", "/b"] {
            assert!(PluginName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_pod_uid_is_short_and_visible() {
        for good in ["0", "uid-a", "f9f3c5a2-7d1e-4c39-8a3a-0d5c2f2c9b11", "d41d8cd98f00b204e9800998ecf8427e", "a.b_c"]
        {
            assert!(PodUid::new(good).is_ok(), "{good:?}");
        }
        let long = "a".repeat(129);
        for bad in ["-a", "a-", ".hidden", "a b", "a\u{202e}b", "a\u{200b}", "ü", "a~b", "a,b", "$(x)", "a%b", &long] {
            assert!(PodUid::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn volumes_of_different_pods_never_have_equal_names() {
        let plugin = PluginName::new("kubernetes.io/empty-dir").unwrap();
        let name = |pod: &str, volume: &str| {
            UniqueVolumeName::of_pod(&plugin, &PodUid::new(pod).unwrap(), &SpecName::new(volume).unwrap())
        };
        assert_ne!(name("aaaa", "x-y"), name("aaaa-x", "y"));
        assert_ne!(name("aaaa", "x.y"), name("aaaa.x", "y"));
    }

    #[test]
    fn unique_names_begin_with_their_plugin() {
        let plugin = PluginName::new("kubernetes.io/empty-dir").unwrap();
        let pod = PodUid::new("1234").unwrap();
        let unique = UniqueVolumeName::of_pod(&plugin, &pod, &SpecName::new("scratch").unwrap());
        assert_eq!(unique.as_str(), "kubernetes.io/empty-dir/1234/scratch");
        assert_eq!(unique.plugin(), "kubernetes.io/empty-dir");
        assert!(UniqueVolumeName::shared(&plugin, "").is_err());
        assert_eq!(UniqueVolumeName::shared(&plugin, "driver^a/b").unwrap().plugin(), "kubernetes.io/empty-dir");
    }
}
