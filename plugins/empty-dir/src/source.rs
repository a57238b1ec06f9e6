//! The fields of `emptyDir`.

use volhost_plugin_sdk::prelude::*;
use volhost_plugin_sdk::quantity::parse_bytes;

/// The storage of the volume's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Below the host's root folder.
    Disk,
    /// In a tmpfs.
    Memory,
    /// In huge pages of this size in bytes, or of the one size that the pod requests.
    HugePages(Option<u64>),
}

/// A checked `emptyDir`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) medium: Medium,
    /// In bytes, never 0.
    pub(crate) size_limit: Option<u64>,
}

/// The prefix of a medium of huge pages; the size of a page follows.
const HUGE_PAGES_OF: &str = "HugePages-";

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&["medium", "sizeLimit"])?;
        let size_limit = volume.bytes("sizeLimit")?.filter(|bytes| *bytes > 0);
        Ok(Self { medium: medium(volume)?, size_limit })
    }
}

fn medium(volume: &Volume) -> Result<Medium> {
    const FIELD: &str = "medium";
    if let Some(medium) = volume.string(FIELD)
        && let Some(size) = medium.strip_prefix(HUGE_PAGES_OF)
    {
        let bytes = parse_bytes(size).map_err(|error| volume.invalid(FIELD, format_args!("{medium}: {error}")))?;
        if !bytes.is_power_of_two() {
            return Err(volume.invalid(
                FIELD,
                format_args!("{} is not a size of a page; write HugePages-2Mi or HugePages-1Gi", quoted(&medium)),
            ));
        }
        return Ok(Medium::HugePages(Some(bytes)));
    }
    let words = [("", Medium::Disk), ("Memory", Medium::Memory), ("HugePages", Medium::HugePages(None))];
    Ok(volume.one_of(FIELD, &words)?.unwrap_or(Medium::Disk))
}
