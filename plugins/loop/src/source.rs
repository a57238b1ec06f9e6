//! The fields of a `csi` source of the driver `loop.volhost.io`.

use volhost_plugin_sdk::PER_MOUNT_OPTIONS;
use volhost_plugin_sdk::prelude::*;

/// The file systems that the host can format and mount.
pub(crate) const FS_TYPES: &[(&str, &str)] =
    &[("ext2", "ext2"), ("ext3", "ext3"), ("ext4", "ext4"), ("xfs", "xfs"), ("btrfs", "btrfs"), ("", DEFAULT_FS)];
/// The default file system, as with CSI.
pub(crate) const DEFAULT_FS: &str = "ext4";
/// The file system that refuses to mount a copy beside its original, unless an option allows it.
pub(crate) const XFS: &str = "xfs";
/// Linux's limit for a file name, in bytes.
const NAME_BYTES: usize = 255;

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The image file's path.
    pub(crate) image: String,
    pub(crate) fs_type: &'static str,
    /// The volume itself is read-only, for every pod.
    pub(crate) read_only: bool,
    /// Per-mount options.
    pub(crate) mount_flags: Vec<String>,
    /// Options of the file system.
    pub(crate) fs_options: Vec<(String, Option<String>)>,
    pub(crate) fs_group: FsGroup,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field; `precondition` when no folder is granted.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        if volume.persistent_volume().is_none() {
            return Err(Error::invalid_argument(
                "csi: a volume of loop.volhost.io is a PersistentVolume; a pod reaches it through a persistentVolumeClaim",
            ));
        }
        volume.known_fields(&["driver", "volumeHandle", "fsType", "readOnly", "volumeAttributes"])?;
        if volume.kind("volumeAttributes").is_some() {
            volume.known_fields_at("volumeAttributes", &["folder"])?;
        }
        let name = volume.required("volumeHandle")?;
        if !is_handle(&name) {
            return Err(volume.invalid(
                "volumeHandle",
                format_args!(
                    "{} must be a file name: no `/`, no `.` at its beginning, {NAME_BYTES} bytes at most",
                    quoted(&name)
                ),
            ));
        }
        let folder = folder(volume)?;
        let fs_type = volume.one_of("fsType", FS_TYPES)?.unwrap_or(DEFAULT_FS);
        let (mount_flags, mut fs_options) = mount_options(volume);
        if fs_type == XFS {
            // A copy has the identity of its original, and both may be mounted here.
            fs_options.push(("nouuid".to_owned(), None));
        }
        Ok(Self {
            image: format!("{}/{name}", folder.trim_end_matches('/')),
            fs_type,
            read_only: volume.boolean("readOnly")?.unwrap_or(false),
            mount_flags,
            fs_options,
            fs_group: FsGroup::of(volume)?,
        })
    }

    /// The size of a new image.
    ///
    /// # Errors
    /// `invalid-argument` when the PersistentVolume has none.
    pub(crate) fn size(&self, volume: &Volume) -> Result<u64> {
        volume.capacity().filter(|bytes| *bytes > 0).ok_or_else(|| {
            Error::invalid_argument(format!(
                "spec.capacity.storage: is missing; it sets the size of the image {}",
                self.image
            ))
        })
    }
}

/// Whether a volume can have this handle: a plain file name that hides nothing.
pub(crate) fn is_handle(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES
        && !name.starts_with('.')
        && !name.contains('/')
        && !name.chars().any(char::is_control)
}

/// The folder of the image: `volumeAttributes.folder`, or the one that is granted.
fn folder(volume: &Volume) -> Result<String> {
    const FIELD: &str = "volumeAttributes.folder";
    if volume.string(FIELD).is_some() {
        let folder = volume.absolute_path(FIELD)?;
        if folder.chars().any(char::is_control) {
            return Err(volume.invalid(FIELD, format_args!("{} has a control character", quoted(&folder))));
        }
        return Ok(folder);
    }
    let granted = loop_devices::folders();
    match granted.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Error::precondition(
            "no folder for images is granted to this plugin; see `loop-files` under [grants] in the configuration",
        )),
        several => Err(volume.invalid(
            FIELD,
            format_args!("is missing, and several folders are granted; name one of {}", several.join(", ")),
        )),
    }
}

/// The options, each by itself: one item may contain several, with commas, as in `fstab`.
fn mount_options(volume: &Volume) -> (Vec<String>, Vec<(String, Option<String>)>) {
    let items = volume.mount_options();
    let all = items.iter().flat_map(|item| item.split(',')).map(str::trim).filter(|option| !option.is_empty());
    let (flags, own): (Vec<&str>, Vec<&str>) = all.partition(|option| PER_MOUNT_OPTIONS.contains(option));
    let own = own.into_iter().map(|option| match option.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (option.to_owned(), None),
    });
    (flags.into_iter().map(str::to_owned).collect(), own.collect())
}
