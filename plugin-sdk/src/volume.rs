//! One volume, as a pod wants it, with typed access to its source.

use std::fmt;
use std::ops::RangeInclusive;

use crate::backend;
use crate::error::{Error, Result};
use crate::field_kind::{FieldKind, word_or};
use crate::quote::quoted;
use crate::{quantity, suggest};

/// One volume, as a pod wants it. Each getter asks the host; the handle is valid during the call
/// only.
///
/// The source's fields come as text; the typed getters parse it and return for a bad value an
/// [`InvalidArgument`](Error::InvalidArgument) that names the field (`emptyDir.sizeLimit`), the
/// value and what would be right:
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
/// let error = read(&scratch.handle()).err().expect("MB is not a suffix");
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

    /// Whether the volume must not be writable through this mount.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.0.read_only()
    }

    /// Whether the volume is used as a device (`volumeMode: Block`).
    #[must_use]
    pub fn is_device(&self) -> bool {
        self.0.as_device()
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

    /// The SELinux label that everything in the volume must have; none when it is mounted without.
    /// The host's own mounts ([`crate::filesystems`], [`crate::image_files`]) have it already. A
    /// plugin that lets a driver mount passes it on as the option `context="LABEL"`.
    ///
    /// ```
    /// use volhost_plugin_sdk::prelude::*;
    /// # let _host = volhost_plugin_sdk::testing::TestHost::new();
    /// let volume = Volume::builder("shares")
    ///     .persistent_volume("pv-1")
    ///     .claim("shop/data")
    ///     .capacity(1 << 30)
    ///     .access_mode("ReadWriteOnce")
    ///     .mount_option("noatime")
    ///     .annotation("volhost.io/tier", "gold")
    ///     .selinux_label("system_u:object_r:container_file_t:s0")
    ///     .mount_group(2000)
    ///     .read_only();
    /// let volume = volume.handle();
    /// assert_eq!(volume.mount_group(), Some(2000));
    /// assert_eq!((volume.source(), volume.spec_name()), ("shares".to_owned(), "pv-1".to_owned()));
    /// assert_eq!(volume.persistent_volume().as_deref(), Some("pv-1"));
    /// assert_eq!((volume.claim().as_deref(), volume.capacity()), (Some("shop/data"), Some(1 << 30)));
    /// assert_eq!((volume.access_modes(), volume.mount_options()), (vec!["ReadWriteOnce".to_owned()], vec!["noatime".to_owned()]));
    /// assert_eq!(volume.annotation("volhost.io/tier").as_deref(), Some("gold"));
    /// assert!(volume.selinux_label().is_some() && volume.read_only() && !volume.is_device());
    /// ```
    #[must_use]
    pub fn selinux_label(&self) -> Option<String> {
        self.0.selinux_label()
    }

    /// The group (`fsGroup`) of the pod for which the volume is mounted now: in `publish` the
    /// pod's, in `stage` that of the first pod that wants it. None in any other function, and when
    /// the pod has no group.
    #[must_use]
    pub fn mount_group(&self) -> Option<u32> {
        self.0.mount_group()
    }

    /// The PersistentVolume's mount options, in the order given.
    #[must_use]
    pub fn mount_options(&self) -> Vec<String> {
        self.0.mount_options()
    }

    /// An annotation of the PersistentVolume whose key begins with `volhost.io/`; none for any
    /// other key.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<String> {
        self.0.annotation(key)
    }

    /// The names of the source's top-level fields, sorted.
    #[must_use]
    pub fn fields(&self) -> Vec<String> {
        self.0.parameters()
    }

    /// The type of the source's field at this path; none when absent or null.
    #[must_use]
    pub fn kind(&self, path: &str) -> Option<FieldKind> {
        self.0.kind(path).map(backend::field_kind)
    }

    /// The names of the fields of the map at this path, or the indices of the list; empty for
    /// anything else.
    #[must_use]
    pub fn fields_at(&self, path: &str) -> Vec<String> {
        self.0.fields(path)
    }

    /// The paths of the entries of a list (`items.0`, `items.1` ...); none when it is absent. Each
    /// entry must be a map.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field.
    pub fn list(&self, path: &str) -> Result<Vec<String>> {
        match self.kind(path) {
            None => return Ok(Vec::new()),
            Some(FieldKind::List) => {}
            Some(other) => return Err(self.invalid(path, format_args!("is a {other}, and must be a list"))),
        }
        let entries = self.fields_at(path).into_iter().map(|index| join(path, &index));
        entries
            .map(|at| match self.kind(&at) {
                Some(FieldKind::Map) => Ok(at),
                other => Err(self.invalid(&at, format_args!("is {}, and must be a map", word_or(other, "nothing")))),
            })
            .collect()
    }

    /// Reads a field that is a file's mode: permission bits, 0 to 0777. None when absent.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field and the value.
    pub fn mode(&self, path: &str) -> Result<Option<u32>> {
        let Some(number) = self.integer(path)? else {
            return Ok(None);
        };
        match u32::try_from(number) {
            Ok(mode) if mode <= 0o777 => Ok(Some(mode)),
            _ => Err(self.invalid(
                path,
                format_args!("{number} is not a mode; write 0 to 0777 (in JSON, which has no octal numbers, 0 to 511)"),
            )),
        }
    }

    /// Reads a required field that is the path of a file in the volume: relative, without `..`, not
    /// beginning with `..`. The result is without needless slashes and dots.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field and the value.
    pub fn file_path(&self, path: &str) -> Result<String> {
        /// The kernel's limits, in bytes.
        const LONGEST_NAME: usize = 255;
        const LONGEST_PATH: usize = 4096;
        let text = self.required(path)?;
        let refuse = |why: &str| Err(self.invalid(path, format_args!("{} {why}", quoted(&text))));
        if text.starts_with('/') {
            return refuse("must be a relative path");
        }
        if text.contains('\0') {
            return refuse("must not contain a NUL character");
        }
        let names: Vec<&str> = text.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        if names.contains(&"..") {
            return refuse("must not contain \"..\"");
        }
        if names.first().is_some_and(|name| name.starts_with("..")) {
            return refuse("must not begin with \"..\": such names are reserved for the host");
        }
        if names.iter().any(|name| name.len() > LONGEST_NAME) || text.len() > LONGEST_PATH {
            return refuse("is too long; a name has at most 255 bytes, a path 4096");
        }
        if names.is_empty() {
            return refuse("names no file");
        }
        Ok(names.join("/"))
    }

    /// One field of the source as text, by its path (`sizeLimit`, `items.0.key`): a string as it
    /// is, a number or boolean in JSON's spelling, an object or list as JSON text. None when absent
    /// or null; an empty string is `""`.
    #[must_use]
    pub fn string(&self, path: &str) -> Option<String> {
        self.0.parameter(path)
    }

    /// Reads a field that is a text of 8,192 bytes at most: a name, a path. None when absent.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field.
    pub fn short(&self, path: &str) -> Result<Option<String>> {
        /// Twice Linux's limit for a path, so that a path that is too long gets the message about
        /// paths.
        const BYTES: usize = 8192;
        match self.string(path) {
            Some(text) if text.starts_with(['[', '{']) && self.is_list_or_map(path) => {
                Err(self.invalid(path, "must be a text"))
            }
            Some(text) if text.len() > BYTES => {
                Err(self.invalid(path, format_args!("is too long: {} bytes, and {BYTES} is the most", text.len())))
            }
            text => Ok(text),
        }
    }

    fn is_list_or_map(&self, path: &str) -> bool {
        self.kind(path).is_some_and(|kind| matches!(kind, FieldKind::List | FieldKind::Map))
    }

    /// Reads a field that must be present and not empty. As [`Volume::short`].
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field.
    pub fn required(&self, path: &str) -> Result<String> {
        match self.short(path)? {
            Some(text) if !text.is_empty() => Ok(text),
            Some(_) => Err(self.invalid(path, "must not be empty")),
            None => Err(self.invalid(path, "is missing, and required")),
        }
    }

    /// Reads a required field that is an absolute path without `..`.
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
        if text.contains('\0') {
            return Err(self.invalid(path, format_args!("{} must not contain NUL", quoted(&text))));
        }
        Ok(text)
    }

    /// Reads a field that is a Kubernetes quantity (`64Mi`), in whole bytes, rounded up. None when
    /// absent or empty.
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

    /// Reads a field that is `true` or `false`. None when absent.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field and the value.
    pub fn boolean(&self, path: &str) -> Result<Option<bool>> {
        self.one_of(path, &[("true", true), ("false", false)])
    }

    /// Reads a field that is a whole number. None when absent.
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

    /// Reads a field that is a whole number of this range, in quotes: attributes of a `csi` volume are
    /// texts. `what` names the number in the message (`the number of a port`). None when absent.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field, the value and the range.
    ///
    /// ```
    /// use volhost_plugin_sdk::prelude::*;
    /// # let _host = volhost_plugin_sdk::testing::TestHost::new();
    /// let volume = Volume::builder("csi").field("port", "2049").field("uid", "1000").field("gid", "-1");
    /// let volume = volume.handle();
    /// assert_eq!(volume.number_in_quotes("port", "the number of a port", 1..=65535)?, Some(2049));
    /// assert_eq!(volume.user_or_group("uid", "the number of a user")?, Some(1000));
    /// let error = volume.user_or_group("gid", "the number of a group").unwrap_err();
    /// assert!(error.to_string().contains("must be the number of a group, from 0 to 4294967294"), "{error}");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn number_in_quotes(&self, path: &str, what: &str, range: RangeInclusive<u32>) -> Result<Option<u32>> {
        let Some(text) = self.short(path)? else { return Ok(None) };
        // `parse` takes a sign.
        let digits = text.chars().all(|c| c.is_ascii_digit());
        match text.parse::<u32>() {
            Ok(number) if digits && range.contains(&number) => Ok(Some(number)),
            _ => Err(self.invalid(
                path,
                format_args!("{} must be {what}, from {} to {}, in quotes", quoted(&text), range.start(), range.end()),
            )),
        }
    }

    /// As [`Volume::number_in_quotes`], for the number of a user or a group.
    ///
    /// # Errors
    /// As [`Volume::number_in_quotes`].
    pub fn user_or_group(&self, path: &str, what: &str) -> Result<Option<u32>> {
        /// The highest number: the next one means "none".
        const LAST: u32 = u32::MAX - 1;
        self.number_in_quotes(path, what, 0..=LAST)
    }

    /// Reads a field that is one of a few words, and returns the word's value. None when absent.
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

    /// Refuses a source with a field that is not among `known`: a misspelt field is otherwise
    /// silently ignored.
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

    /// As [`Volume::known_fields`], for the map at this path.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field; also when the path is not a
    /// map.
    ///
    /// ```
    /// use volhost_plugin_sdk::prelude::*;
    /// # let _host = volhost_plugin_sdk::testing::TestHost::new();
    /// /// `shares: {server: s1, level: gold, items: [{path: a, mode: 0640}], limits: {files: 10}, at: /srv}`
    /// fn read(volume: &Volume) -> Result<()> {
    ///     volume.known_fields(&["server", "level", "items", "limits", "at"])?;
    ///     volume.known_fields_at("limits", &["files"])?;
    ///     let files: Option<i64> = volume.integer("limits.files")?;
    ///     let level = volume.one_of("level", &[("gold", 1), ("silver", 2)])?;
    ///     let at = volume.absolute_path("at")?;
    ///     for entry in volume.list("items")? {
    ///         let path = volume.file_path(&format!("{entry}.path"))?;
    ///         let mode = volume.mode(&format!("{entry}.mode"))?.unwrap_or(0o644);
    ///         log::debug(format_args!("{path} {mode:o}"));
    ///     }
    ///     if files == Some(0) {
    ///         return Err(volume.invalid("limits.files", "0 is too few; leave it out for no limit"));
    ///     }
    ///     log::debug(format_args!("{level:?} {at} {:?} {:?} {}", volume.short("server")?, volume.string("level"), volume.place("at")));
    ///     Ok(())
    /// }
    ///
    /// let volume = Volume::builder("shares").field("at", "/srv").field("limits.files", 10).field("items.0.path", "a/b");
    /// assert_eq!(volume.handle().kind("items"), Some(FieldKind::List));
    /// assert_eq!(volume.handle().fields(), ["at", "items", "limits"]);
    /// assert_eq!(volume.handle().fields_at("limits"), ["files"]);
    /// read(&volume.handle())?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn known_fields_at(&self, path: &str, known: &[&str]) -> Result<()> {
        match self.kind(path) {
            Some(FieldKind::Map) => {}
            other => {
                return Err(self.invalid(path, format_args!("is {}, and must be a map", word_or(other, "missing"))));
            }
        }
        let fields = self.fields_at(path);
        let Some(unknown) = fields.iter().find(|field| !known.contains(&field.as_str())) else {
            return Ok(());
        };
        Err(self.invalid(&join(path, unknown), suggest::unknown("no such field", unknown, known, str::to_owned)))
    }

    /// A field as messages name it: `SOURCE.PATH`.
    #[must_use]
    pub fn place(&self, path: &str) -> String {
        let source = self.source();
        // `csi:DRIVER` is the field `csi`.
        let field = source.split_once(':').map_or(source.as_str(), |(field, _)| field);
        if path.is_empty() { field.to_owned() } else { format!("{field}.{path}") }
    }

    /// The error for a bad field: `SOURCE.PATH: why`.
    #[must_use]
    pub fn invalid(&self, path: &str, why: impl fmt::Display) -> Error {
        self.invalid_as(path, &why)
    }

    /// Not generic, so that a plugin contains its code once.
    fn invalid_as(&self, path: &str, why: &dyn fmt::Display) -> Error {
        Error::InvalidArgument(format!("{}: {why}", self.place(path)))
    }

    pub(crate) fn handle(&self) -> &'call backend::Volume {
        self.0
    }
}

/// A path one field deeper.
pub(crate) fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

impl fmt::Debug for Volume<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Volume({} {})", self.source(), self.spec_name())
    }
}
