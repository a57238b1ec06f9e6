//! The fields of a `csi` source of the driver `tmpfs.volhost.io`.

use volhost_plugin_sdk::MountOptions;
use volhost_plugin_sdk::prelude::*;

const HANDLE: &str = "volumeHandle";
const ATTRIBUTES: &str = "volumeAttributes";
const SIZE: &str = "volumeAttributes.size";
const INODES: &str = "volumeAttributes.inodes";
const MODE: &str = "volumeAttributes.mode";
const UID: &str = "volumeAttributes.uid";
const GID: &str = "volumeAttributes.gid";
/// As long as the name of an object in Kubernetes.
const HANDLE_BYTES: usize = 253;
/// The kernel's default: every user may create files, and remove only the user's own.
const DEFAULT_MODE: u32 = 0o1777;
/// Every bit that chmod(2) sets.
const MODES: u32 = 0o7777;

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) handle: String,
    /// The most bytes; none: half of the machine's memory.
    pub(crate) size: Option<u64>,
    /// The most files and folders; none: the kernel's own limit.
    pub(crate) inodes: Option<u32>,
    pub(crate) mode: u32,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) mount_options: Vec<String>,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&["driver", HANDLE, "readOnly", ATTRIBUTES])?;
        if volume.kind(ATTRIBUTES).is_some() {
            volume.known_fields_at(ATTRIBUTES, &["size", "inodes", "mode", "uid", "gid"])?;
        }
        volume.boolean("readOnly")?;
        // A volume of one pod is an emptyDir.
        let handle = volume.required(HANDLE)?;
        if handle.len() > HANDLE_BYTES || handle.chars().any(char::is_control) {
            let why = format!("{} must have {HANDLE_BYTES} bytes at most, and no control characters", quoted(&handle));
            return Err(volume.invalid(HANDLE, why));
        }
        let size = volume.bytes(SIZE)?;
        if size == Some(0) {
            // To the kernel it means "without a limit".
            return Err(volume.invalid(SIZE, "must be one byte at least"));
        }
        Ok(Self {
            handle,
            size,
            inodes: volume.number_in_quotes(INODES, "a number of files and folders", 1..=u32::MAX)?,
            mode: mode(volume)?,
            uid: volume.user_or_group(UID, "the number of a user")?,
            gid: volume.user_or_group(GID, "the number of a group")?,
            mount_options: MountOptions::read(volume).of_mount_alone()?,
        })
    }

    /// The memory as the source describes it.
    pub(crate) fn memory(&self) -> Tmpfs {
        let memory = Tmpfs::new().mode(self.mode);
        let memory = self.size.into_iter().fold(memory, Tmpfs::size);
        let memory = self.inodes.into_iter().fold(memory, |memory, inodes| memory.inodes(inodes.into()));
        let memory = self.uid.into_iter().fold(memory, Tmpfs::user);
        self.gid.into_iter().fold(memory, Tmpfs::group)
    }
}

/// Attributes of a `csi` volume are texts.
fn mode(volume: &Volume) -> Result<u32> {
    let Some(text) = volume.short(MODE)? else { return Ok(DEFAULT_MODE) };
    let is_octal = text.chars().all(|c| c.is_digit(8));
    match u32::from_str_radix(&text, 8) {
        Ok(mode) if is_octal && mode <= MODES => Ok(mode),
        _ => Err(volume.invalid(MODE, format_args!("{} must be octal, {MODES:o} at most, in quotes", quoted(&text)))),
    }
}
