//! Why no operation is started for a pod's volume, though it is not as wanted and no back-off runs.

use std::fmt;

use serde::{Deserialize, Serialize};
use volhost_model::names::{OuterName, PluginName, SpecName, UniqueVolumeName};

/// The reason, as users read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BlockedReason {
    /// The source of pods reports a reason: the volume's plugin is not loaded, for example.
    BySource(String),
    /// An earlier run mounted something in its place, and not every source of pods has been read
    /// (rule R2).
    SourcesUnread,
    /// As many volumes are attached to this node as may be.
    AttachLimit(AttachLimitReached),
    /// A controller attaches it, and the node's status does not report it as in use yet.
    NotReportedInUse,
    /// The controller has not attached it yet.
    ControllerPending,
    /// The controller could not attach it, for this reason.
    ControllerFailed(String),
    /// It is for one pod alone, and this other one uses it.
    UsedByPod(String),
    /// It is mounted with another SELinux label.
    OtherLabel {
        /// The other pod that has it mounted; none when only the node has.
        pod: Option<String>,
        /// The label it is mounted with.
        mounted: MountedLabel,
        /// The label that the pod needs.
        needed: Option<String>,
    },
    /// It is staged as its PersistentVolume was before an edit.
    StagedBeforeEdit,
    /// Another volume of the pod uses its folder.
    FolderInUse {
        /// The other volume.
        volume: UniqueVolumeName,
        /// The folder.
        folder: SpecName,
    },
    /// It is made of this volume of the pod, which is not mounted yet.
    NeedsVolume(OuterName),
}

/// The SELinux label that the node has mounted a volume with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MountedLabel {
    /// There is no record of it.
    Unknown,
    /// This one, or none.
    Known(Option<String>),
}

/// A limit of attached volumes, reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttachLimitReached {
    /// The plugin whose volumes are limited.
    pub(crate) plugin: PluginName,
    /// How the names of the limited volumes begin; empty for all of the plugin's.
    pub(crate) names: String,
    /// How many may be attached.
    pub(crate) limit: u32,
    /// How many are, or may be.
    pub(crate) attached: u32,
    /// The first of them.
    pub(crate) first: Vec<UniqueVolumeName>,
}

impl BlockedReason {
    /// The event for it is another's: the one of the volume that is not mounted yet, or the one
    /// that reported the source's reason.
    pub(crate) const fn is_reported_already(&self) -> bool {
        matches!(self, Self::BySource(_) | Self::NeedsVolume(_))
    }
}

impl fmt::Display for BlockedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BySource(why) => f.write_str(why),
            Self::SourcesUnread => {
                f.write_str("what an earlier run mounted there waits until every source of pods has been read")
            }
            Self::AttachLimit(reached) => reached.fmt(f),
            Self::NotReportedInUse => f.write_str("waits until the node's status reports the volume as in use"),
            Self::ControllerPending => f.write_str("waits for the controller to attach the volume to this node"),
            Self::ControllerFailed(why) => {
                write!(f, "the controller could not attach the volume to this node: {why}")
            }
            Self::UsedByPod(pod) => {
                write!(f, "volume uses the ReadWriteOncePod access mode and is already in use by another pod ({pod})")
            }
            Self::OtherLabel { pod: Some(pod), mounted, needed } => write!(
                f,
                "conflicting SELinux labels of volume: pod {pod} has it mounted with label {mounted}, and this pod needs {}; it waits until the other has gone",
                Quoted(needed.as_deref())
            ),
            Self::OtherLabel { pod: None, mounted, needed } => write!(
                f,
                "the node has it mounted with SELinux label {mounted}, and this pod needs {}; it is mounted anew",
                Quoted(needed.as_deref())
            ),
            Self::StagedBeforeEdit => f.write_str(
                "the node has it staged as its PersistentVolume was before an edit; it is staged again first",
            ),
            Self::FolderInUse { volume, folder } => {
                write!(f, "volume {volume} still uses the folder {folder} of the pod")
            }
            Self::NeedsVolume(name) => {
                write!(f, "it is made of volume {name} of the pod, which is not mounted yet")
            }
        }
    }
}

impl fmt::Display for MountedLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("that is not recorded"),
            Self::Known(label) => Quoted(label.as_deref()).fmt(f),
        }
    }
}

impl fmt::Display for AttachLimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, names, limit, attached, first } = self;
        write!(f, "plugin {plugin} may have {limit} volumes")?;
        if !names.is_empty() {
            write!(f, " whose names begin with {names:?}")?;
        }
        write!(f, " attached to this node and has {attached}")?;
        let mut listed: Vec<&str> = first.iter().map(UniqueVolumeName::as_str).collect();
        if usize::try_from(*attached).is_ok_and(|attached| attached > first.len()) {
            listed.push("...");
        }
        if !listed.is_empty() {
            write!(f, " ({})", listed.join(", "))?;
        }
        f.write_str("; it waits until one is detached")
    }
}

/// A label in quotes, or `none`.
struct Quoted<'a>(Option<&'a str>);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(label) => write!(f, "{label:?}"),
            None => f.write_str("none"),
        }
    }
}
