//! Kubernetes' access modes as CSI's.

use thiserror::Error;
use volhost_proto::csi::VolumeCapability;
use volhost_proto::csi::volume_capability::access_mode::Mode;
use volhost_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};

/// Why access modes have no CSI access mode.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum AccessModeError {
    /// CSI has no mode for both.
    #[error("CSI does not support ReadOnlyMany and ReadWriteOnce on the same volume")]
    ReadersAndWriter,
    /// This mode excludes others.
    #[error("CSI does not support ReadWriteOncePod and another access mode on the same volume")]
    PodAndOthers,
    /// None of the known ones.
    #[error("unsupported access modes: {0}")]
    Unknown(String),
}

/// Returns the CSI access mode of a volume with these modes. `distinguishes`: the driver
/// knows several writers on one node from one.
///
/// # Errors
/// [`AccessModeError`].
pub(crate) fn mode(modes: &[String], distinguishes: bool) -> Result<Mode, AccessModeError> {
    let has = |mode: &str| modes.iter().any(|one| one == mode);
    let (once, readers, many, pod) =
        (has("ReadWriteOnce"), has("ReadOnlyMany"), has("ReadWriteMany"), has("ReadWriteOncePod"));
    if distinguishes && pod && (once || readers || many) {
        return Err(AccessModeError::PodAndOthers);
    }
    match (many, once, readers, pod) {
        (true, ..) => Ok(Mode::MultiNodeMultiWriter),
        (_, true, true, _) => Err(AccessModeError::ReadersAndWriter),
        (_, _, true, _) => Ok(Mode::MultiNodeReaderOnly),
        (_, true, ..) if distinguishes => Ok(Mode::SingleNodeMultiWriter),
        (.., true) if distinguishes => Ok(Mode::SingleNodeSingleWriter),
        (_, true, ..) | (.., true) => Ok(Mode::SingleNodeWriter),
        _ => Err(AccessModeError::Unknown(modes.join(", "))),
    }
}

/// Returns the CSI capability of a volume.
pub(crate) fn capability(mode: Mode, is_block: bool, fs_type: &str, mount_flags: &[String]) -> VolumeCapability {
    let access_type = if is_block {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume {
            fs_type: fs_type.to_owned(),
            mount_flags: mount_flags.to_vec(),
            ..MountVolume::default()
        })
    };
    VolumeCapability { access_type: Some(access_type), access_mode: Some(AccessMode { mode: mode.into() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(modes: &[&str], distinguishes: bool) -> Result<Mode, AccessModeError> {
        mode(&modes.iter().map(|mode| (*mode).to_owned()).collect::<Vec<_>>(), distinguishes)
    }

    #[test]
    fn modes_are_those_of_the_upstream_sidecars() {
        assert_eq!(of(&["ReadWriteOnce"], false), Ok(Mode::SingleNodeWriter));
        assert_eq!(of(&["ReadWriteOnce"], true), Ok(Mode::SingleNodeMultiWriter));
        assert_eq!(of(&["ReadWriteOncePod"], false), Ok(Mode::SingleNodeWriter));
        assert_eq!(of(&["ReadWriteOncePod"], true), Ok(Mode::SingleNodeSingleWriter));
        assert_eq!(of(&["ReadOnlyMany"], true), Ok(Mode::MultiNodeReaderOnly));
        assert_eq!(of(&["ReadWriteOnce", "ReadWriteMany"], false), Ok(Mode::MultiNodeMultiWriter));
        assert_eq!(of(&["ReadWriteOnce", "ReadOnlyMany"], false), Err(AccessModeError::ReadersAndWriter));
        assert_eq!(of(&["ReadWriteOncePod", "ReadWriteMany"], true), Err(AccessModeError::PodAndOthers));
        assert_eq!(of(&["Sometimes"], false), Err(AccessModeError::Unknown("Sometimes".to_owned())));
    }
}
