//! How a volume is to be used: a request's `volume_capability`, checked.

use serde::{Deserialize, Serialize};
use volhost_model::{mount_options, selinux};

use crate::check::shown;
use crate::refusal::{Refusal, Result};
use volhost_proto::csi::VolumeCapability;
use volhost_proto::csi::volume_capability::AccessType;
use volhost_proto::csi::volume_capability::access_mode::Mode;

const FIELD: &str = "volume_capability";
/// The longest name of a file system, in bytes.
const FS_TYPE_BYTES: usize = 128;

/// How a volume is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestedUsage {
    /// As a device.
    pub(crate) block: bool,
    /// The file system; empty for the plugin's usual one.
    pub(crate) fs_type: String,
    /// Mount options, each by itself, without the label.
    pub(crate) mount_flags: Vec<String>,
    /// The SELinux label of everything in the volume: the CO says it as a mount option.
    #[serde(default)]
    pub(crate) selinux_label: Option<String>,
    /// The access mode's number.
    mode: i32,
    /// The group that the volume's files are for, where the CO leaves that to the driver.
    #[serde(default)]
    pub(crate) mount_group: Option<u32>,
}

impl RequestedUsage {
    /// Reads the capability of a request.
    ///
    /// # Errors
    /// [`Refusal::Field`].
    pub(crate) fn read(capability: Option<&VolumeCapability>) -> Result<Self> {
        let capability = capability.ok_or_else(|| Refusal::field(FIELD, "is missing"))?;
        let mode = capability.access_mode.map_or(0, |mode| mode.mode);
        match Mode::try_from(mode) {
            Ok(Mode::Unknown) => return Err(Refusal::field(FIELD, "says no access mode")),
            Ok(_) => {}
            Err(_) => return Err(Refusal::field(FIELD, format!("there is no access mode {mode}"))),
        }
        match &capability.access_type {
            None => Err(Refusal::field(FIELD, "says neither `block` nor `mount`")),
            Some(AccessType::Block(_)) => Ok(Self { block: true, mode, ..Self::plain() }),
            Some(AccessType::Mount(mount)) => {
                let fs_type = mount.fs_type.clone();
                if fs_type.len() > FS_TYPE_BYTES || fs_type.chars().any(|c| c.is_control() || c == '/') {
                    return Err(Refusal::field(FIELD, "`fs_type` is no name of a file system"));
                }
                let (selinux_label, mount_flags) = read_flags(&mount.mount_flags)?;
                let group = mount.volume_mount_group.as_str();
                let number = || {
                    group.parse().map_err(|_| {
                        Refusal::field(FIELD, format!("`volume_mount_group`: {} is no group's number", shown(group)))
                    })
                };
                let mount_group = if group.is_empty() { None } else { Some(number()?) };
                Ok(Self { block: false, fs_type, mount_flags, selinux_label, mode, mount_group })
            }
        }
    }

    /// All of a request's capabilities, of which there must be one.
    ///
    /// # Errors
    /// [`Refusal::Field`].
    pub(crate) fn read_all(capabilities: &[VolumeCapability]) -> Result<Vec<Self>> {
        if capabilities.is_empty() {
            return Err(Refusal::field("volume_capabilities", "is missing"));
        }
        capabilities.iter().map(|capability| Self::read(Some(capability))).collect()
    }

    /// The commonest use, for a volume of which nothing else is known.
    pub(crate) fn plain() -> Self {
        let mode = Mode::SingleNodeWriter.into();
        Self {
            block: false,
            fs_type: String::new(),
            mount_flags: Vec::new(),
            selinux_label: None,
            mode,
            mount_group: None,
        }
    }

    /// The same for whatever group: that is given when it is published.
    pub(crate) fn for_any_group(&self) -> Self {
        Self { mount_group: None, ..self.clone() }
    }

    fn mode(&self) -> Mode {
        Mode::try_from(self.mode).unwrap_or(Mode::Unknown)
    }

    /// Returns whether no pod may write it.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.mode(), Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly)
    }

    /// What a publication asks for that the staged volume does not give, if anything: a staged
    /// volume is mounted already, with the file system, the options and the right to write that it
    /// was staged with.
    pub(crate) fn exceeds(&self, staged: &Self, read_only: bool) -> Option<String> {
        if !self.fs_type.is_empty() && self.fs_type != staged.fs_type {
            let has = if staged.fs_type.is_empty() { "the plugin's usual one" } else { staged.fs_type.as_str() };
            return Some(format!("`fs_type` is {}, and it was staged with {has}", shown(&self.fs_type)));
        }
        if let Some(flag) = self.mount_flags.iter().find(|flag| !staged.mount_flags.contains(flag)) {
            return Some(format!("`mount_flags` has {}, and it was staged without", shown(flag)));
        }
        if let Some(label) = self.selinux_label.as_ref().filter(|_| self.selinux_label != staged.selinux_label) {
            let has = staged
                .selinux_label
                .as_deref()
                .map_or_else(|| "without one".to_owned(), |has| format!("with {}", shown(has)));
            return Some(format!("`mount_flags` has the SELinux label {}, and it was staged {has}", shown(label)));
        }
        if staged.is_read_only() && !self.is_read_only() && !read_only {
            return Some("the access mode lets its users write, and it was staged for readers".to_owned());
        }
        None
    }

    /// It may be published once on a node.
    pub(crate) fn is_for_one(&self) -> bool {
        self.mode() == Mode::SingleNodeSingleWriter
    }

    /// It may be published to several nodes.
    pub(crate) fn is_for_many_nodes(&self) -> bool {
        matches!(self.mode(), Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter)
    }

    /// The access mode in Kubernetes' spelling.
    pub(crate) fn kubernetes_mode(&self) -> &'static str {
        match self.mode() {
            Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly => "ReadOnlyMany",
            Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter => "ReadWriteMany",
            Mode::SingleNodeSingleWriter => "ReadWriteOncePod",
            Mode::Unknown | Mode::SingleNodeWriter | Mode::SingleNodeMultiWriter => "ReadWriteOnce",
        }
    }
}

/// The label and the other options. The label is an item of its own, for it may have commas.
fn read_flags(items: &[String]) -> Result<(Option<String>, Vec<String>)> {
    let refused = |item: usize, why: String| Refusal::field(FIELD, format!("mount_flags[{item}]: {why}"));
    let mut label: Option<String> = None;
    let mut options = Vec::new();
    for (item, text) in items.iter().enumerate() {
        match selinux::label_of_option(text) {
            None => options.push((item, text.clone())),
            Some(Err(error)) => return Err(refused(item, error.to_string())),
            Some(Ok(other)) if label.as_deref().is_some_and(|label| label != other) => {
                return Err(refused(item, "is another SELinux label than one before; a volume has one".to_owned()));
            }
            Some(Ok(own)) => label = Some(own.to_owned()),
        }
    }
    let (indexes, texts): (Vec<usize>, Vec<String>) = options.into_iter().unzip();
    let flags = mount_options::split(&texts)
        .map_err(|(item, why)| refused(indexes.get(item).copied().unwrap_or(item), why.to_string()))?;
    Ok((label, flags))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use volhost_proto::csi::volume_capability::{AccessMode, BlockVolume, MountVolume};

    fn capability(access_type: Option<AccessType>, mode: i32) -> VolumeCapability {
        VolumeCapability { access_type, access_mode: Some(AccessMode { mode }) }
    }

    #[test]
    fn what_is_missing_or_unheard_of_is_named() {
        let mount = |flags: &[&str]| {
            let mount_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
            Some(AccessType::Mount(MountVolume { mount_flags, ..MountVolume::default() }))
        };
        let group = |group: &str| {
            Some(AccessType::Mount(MountVolume { volume_mount_group: group.to_owned(), ..MountVolume::default() }))
        };
        for (given, words) in [
            (None, "is missing"),
            (Some(capability(None, 1)), "neither `block` nor `mount`"),
            (Some(capability(mount(&[]), 0)), "says no access mode"),
            (Some(capability(mount(&[]), 99)), "no access mode 99"),
            (Some(capability(mount(&["a\0b"]), 1)), "mount_flags[0]"),
            (
                Some(capability(mount(&["context=u:r:t", "ro", "context=u:r:x"]), 1)),
                "mount_flags[2]: is another SELinux label",
            ),
            (
                Some(capability(mount(&["context=u:r:t", "fscontext=x"]), 1)),
                "mount_flags[1]: \"fscontext\" is the volume's SELinux label",
            ),
            (Some(capability(mount(&["ro", "context=\"u:r:t:s0\",bind=\"x\""]), 1)), "mount_flags[1]"),
            (Some(capability(group("staff"), 1)), "\"staff\" is no group's number"),
            (Some(capability(group("-1"), 1)), "\"-1\" is no group's number"),
            (Some(capability(group("4294967296"), 1)), "is no group's number"),
        ] {
            let error = RequestedUsage::read(given.as_ref()).unwrap_err().to_string();
            assert!(error.starts_with("volume_capability: ") && error.contains(words), "{error}");
        }
        let usage = RequestedUsage::read(Some(&capability(mount(&["noatime,ro"]), 7))).unwrap();
        assert_eq!(usage.mount_flags, ["noatime", "ro"]);
        let label = "u:r:t:s0:c1,c2";
        let labelled = format!("context=\"{label}\"");
        let staged = RequestedUsage::read(Some(&capability(mount(&["ro", &labelled, &labelled]), 7))).unwrap();
        assert_eq!(
            (staged.mount_flags.as_slice(), staged.selinux_label.as_deref()),
            (&["ro".to_owned()][..], Some(label))
        );
        let exceeds = |flag: &str| {
            RequestedUsage::read(Some(&capability(mount(&[flag]), 7)))
                .unwrap()
                .exceeds(&staged, false)
                .unwrap_or_default()
        };
        assert_eq!((exceeds(&labelled), exceeds("ro")), (String::new(), String::new()));
        assert!(exceeds("context=u:r:t:s0:c3").contains("\"u:r:t:s0:c3\", and it was staged with \"u:r:t:s0:c1,c2\""));
        let usage = RequestedUsage::read(Some(&capability(group("2345"), 7))).unwrap();
        assert_eq!((usage.mount_group, usage.for_any_group().mount_group), (Some(2345), None));
        assert!(
            RequestedUsage::read(Some(&capability(Some(AccessType::Block(BlockVolume {})), 3))).unwrap().is_read_only()
        );
    }
}
