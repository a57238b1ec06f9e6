//! One volume, as a pod wants it, with typed access to its source.

use std::fmt;

use crate::backend;
use crate::error::{Error, Result};
use crate::quote::quoted;
use crate::{quantity, suggest};

/// One volume, as a pod wants it. Each getter asks the host; a call's handle can't be kept after the call.
///
/// The source's fields come as text; the typed getters read it and answer a bad value with an
/// [`InvalidArgument`](Error::InvalidArgument) that names the field (`emptyDir.sizeLimit`), the value and what would
/// be right:
///
/// ```
/// # use volhost_plugin_sdk::prelude::*;
/// # use volhost_plugin_sdk::testing::TestHost;
/// struct Source {
///     server: String,
///     size: Option<u64>,
///     soft: bool,
/// }
///
/// fn read(volume: &Volume) -> Result<Source> {
///     volume.known_fields(&["server", "size", "soft"])?;
///     Ok(Source {
///         server: volume.required("server")?,
///         size: volume.bytes("size")?,
///         soft: volume.boolean("soft")?.unwrap_or(false),
///     })
/// }
///
/// let scratch = Volume::builder("scratch").field("server", "s1").field("size", "64MB");
/// let error = read(&scratch.handle()).err().expect("MB is no suffix");
/// assert!(error.to_string().starts_with("scratch.size: \"64MB\" is not a quantity"), "{error}");
/// ```
pub struct Volume<'call>(&'call backend::Volume);

impl<'call> Volume<'call> {
    pub(crate) fn new(handle: &'call backend::Volume) -> Self {
        Self(handle)
    }

    /// A volume for a test, by its source's name.
    #[cfg(not(target_family = "wasm"))]
    #[must_use]
    pub fn builder(source: &str) -> crate::testing::TestVolume {
        crate::testing::TestVolume::new(source)
    }

    /// The name in the pod's folder: the volume's name in the pod, or the PersistentVolume's name.
    #[must_use]
    pub fn spec_name(&self) -> String {
        self.0.spec_name()
    }

    /// The source's field name, such as `emptyDir`.
    #[must_use]
    pub fn source(&self) -> String {
        self.0.source()
    }

    /// The volume must not be writable through this mount.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.0.read_only()
    }

    /// The PersistentVolume's name, if it comes from one.
    #[must_use]
    pub fn persistent_volume(&self) -> Option<String> {
        self.0.persistent_volume()
    }

    /// The claim, as `namespace/name`, if it comes from one.
    #[must_use]
    pub fn claim(&self) -> Option<String> {
        self.0.claim()
    }

    /// The PersistentVolume's capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        self.0.capacity()
    }

    /// The PersistentVolume's access modes, in Kubernetes' spelling (`ReadWriteOnce`).
    #[must_use]
    pub fn access_modes(&self) -> Vec<String> {
        self.0.access_modes()
    }

    /// The PersistentVolume's mount options, in the order given.
    #[must_use]
    pub fn mount_options(&self) -> Vec<String> {
        self.0.mount_options()
    }

    /// The names of the source's top-level fields, sorted.
    #[must_use]
    pub fn fields(&self) -> Vec<String> {
        self.0.parameters()
    }

    /// One field of the source as text, by its path (`sizeLimit`, `items.0.key`): a string as it is, a number or
    /// boolean in JSON's spelling, an object or list as JSON text. None when absent or null; an empty string is `""`.
    #[must_use]
    pub fn string(&self, path: &str) -> Option<String> {
        self.0.parameter(path)
    }

    /// A field that must be there and not be empty.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field.
    pub fn required(&self, path: &str) -> Result<String> {
        match self.string(path) {
            Some(text) if !text.is_empty() => Ok(text),
            Some(_) => Err(self.invalid(path, "must not be empty")),
            None => Err(self.invalid(path, "is missing, and required")),
        }
    }

    /// A required field that holds an absolute path without `..`.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field and the value.
    pub fn absolute_path(&self, path: &str) -> Result<String> {
        let text = self.required(path)?;
        if !text.starts_with('/') {
            return Err(self.invalid(path, format_args!("{} must be an absolute path", quoted(&text))));
        }
        if text.split('/').any(|name| name == "..") {
            return Err(self.invalid(path, format_args!("{} must not contain \"..\"", quoted(&text))));
        }
        Ok(text)
    }

    /// A field that holds a Kubernetes quantity (`64Mi`), in whole bytes, rounded up. None when absent or empty.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field and the value.
    pub fn bytes(&self, path: &str) -> Result<Option<u64>> {
        match self.string(path) {
            None => Ok(None),
            Some(text) if text.is_empty() => Ok(None),
            Some(text) => quantity::parse_bytes(&text).map(Some).map_err(|error| self.invalid(path, error)),
        }
    }

    /// A field that holds `true` or `false`. None when absent.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field and the value.
    pub fn boolean(&self, path: &str) -> Result<Option<bool>> {
        self.one_of(path, &[("true", true), ("false", false)])
    }

    /// A field that holds a whole number. None when absent.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field and the value.
    pub fn integer(&self, path: &str) -> Result<Option<i64>> {
        self.string(path)
            .map(|text| {
                text.parse().map_err(|_| self.invalid(path, format_args!("{} is not a whole number", quoted(&text))))
            })
            .transpose()
    }

    /// A field that holds one of a few words, each with what it stands for. None when absent.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field, the value and what is allowed.
    pub fn one_of<T: Copy>(&self, path: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.string(path) else {
            return Ok(None);
        };
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(Some(*meaning));
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Err(self.invalid(path, suggest::unknown(&format!("{} is not known", quoted(&text)), &text, &known, quoted)))
    }

    /// Refuses a source with a field that is not among `known`: a misspelt field is otherwise silently ignored.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field and the nearest known one.
    pub fn known_fields(&self, known: &[&str]) -> Result<()> {
        let fields = self.fields();
        let Some(unknown) = fields.iter().find(|field| !known.contains(&field.as_str())) else {
            return Ok(());
        };
        Err(self.invalid(unknown, suggest::unknown("no such field", unknown, known, str::to_owned)))
    }

    /// The error for a bad field: `SOURCE.PATH: why`.
    #[must_use]
    pub fn invalid(&self, path: &str, why: impl fmt::Display) -> Error {
        self.invalid_as(path, &why)
    }

    /// Not generic, so that a plugin holds it once.
    fn invalid_as(&self, path: &str, why: &dyn fmt::Display) -> Error {
        let source = self.source();
        // `csi:DRIVER` is the field `csi`.
        let field = source.split_once(':').map_or(source.as_str(), |(field, _)| field);
        Error::InvalidArgument(format!("{field}.{path}: {why}"))
    }
}

impl fmt::Debug for Volume<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Volume({} {})", self.source(), self.spec_name())
    }
}
