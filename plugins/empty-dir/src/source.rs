//! The fields of `emptyDir`.

use volhost_plugin_sdk::prelude::*;

/// Where the volume's files live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Below the host's root folder.
    Disk,
    /// In a tmpfs.
    Memory,
}

/// A checked `emptyDir`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) medium: Medium,
    /// In bytes, never 0.
    pub(crate) size_limit: Option<u64>,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field; `unsupported` for huge pages.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&["medium", "sizeLimit"])?;
        let size_limit = volume.bytes("sizeLimit")?.filter(|bytes| *bytes > 0);
        if let Some(medium) = volume.string("medium").filter(|medium| is_huge_pages(medium)) {
            return Err(Error::unsupported(format!(
                "emptyDir.medium: {} is not in this version of the plugin; \"\" and \"Memory\" are",
                quoted(&medium)
            )));
        }
        let medium = volume.one_of("medium", &[("", Medium::Disk), ("Memory", Medium::Memory)])?;
        Ok(Self { medium: medium.unwrap_or(Medium::Disk), size_limit })
    }
}

fn is_huge_pages(medium: &str) -> bool {
    medium.strip_prefix("HugePages").is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
