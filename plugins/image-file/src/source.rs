//! The fields of a `csi` source of the driver `image-file.volhost.io`.

use volhost_plugin_sdk::MountOptions;
use volhost_plugin_sdk::prelude::*;

const ATTRIBUTES: &str = "volumeAttributes";
const IMAGE: &str = "volumeAttributes.image";
/// The file systems that the host mounts from a file.
const FS_TYPES: &[(&str, &str)] = &[("erofs", "erofs"), ("squashfs", "squashfs"), ("ext4", "ext4")];
/// The longest path of an image, in bytes: it is the volume's name.
const PATH_BYTES: usize = 900;

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The image's path.
    pub(crate) image: String,
    pub(crate) fs_type: &'static str,
    pub(crate) options: MountOptions,
    pub(crate) fs_group: FsGroup,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field; `precondition` when no folder is granted.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&["driver", "volumeHandle", "fsType", "readOnly", ATTRIBUTES])?;
        volume.known_fields_at(ATTRIBUTES, &["image"])?;
        if volume.boolean("readOnly")? == Some(false) {
            return Err(volume
                .invalid("readOnly", "an image can't be written; leave this out, or use the driver loop.volhost.io"));
        }
        volume.required("fsType")?;
        let Some(fs_type) = volume.one_of("fsType", FS_TYPES)? else {
            return Err(volume.invalid("fsType", "is missing"));
        };
        Ok(Self { image: image(volume)?, fs_type, options: MountOptions::read(volume), fs_group: FsGroup::of(volume)? })
    }
}

fn image(volume: &Volume) -> Result<String> {
    let image = volume.required(IMAGE)?;
    let why = if image.split('/').any(|name| name == "..") {
        r#"must not contain "..""#
    } else if image.chars().any(char::is_control) {
        "has a control character"
    } else if image.len() > PATH_BYTES {
        "is longer than 900 bytes"
    } else if image.ends_with('/') {
        "must name a file"
    } else if image.starts_with('/') {
        return Ok(image);
    } else {
        return Ok(format!("{}/{image}", folder(volume)?.trim_end_matches('/')));
    };
    Err(volume.invalid(IMAGE, format_args!("{} {why}", quoted(&image))))
}

/// The folder of a relative path: the only granted one.
fn folder(volume: &Volume) -> Result<String> {
    match image_files::folders().as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Error::precondition(
            "no folder of images is granted to this plugin; see `image-files` under [grants] in the configuration",
        )),
        several => Err(volume.invalid(
            IMAGE,
            format_args!("must be an absolute path, for several folders are granted: {}", several.join(", ")),
        )),
    }
}
