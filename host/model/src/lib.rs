//! The words volhost is written in: pods, volumes, their names, the failures of operations, and the
//! views that the command line and the API show. No I/O and no policy; every other crate depends on
//! this one and it depends on none of ours.
//!
//! | module | contains |
//! |---|---|
//! | [`names`] | checked names: pods, volumes, plugins; the unique name of a volume |
//! | [`needed_volume`] | a volume that another volume of the pod is made of |
//! | [`pod`] | a pod, as far as volumes are concerned |
//! | [`container_mount`] | how a container uses a volume |
//! | [`pod_fields`] | fields of a pod as text, as `downwardAPI` shows them |
//! | [`pod_resources`] | what a container asks for and may use, as text |
//! | [`selinux`] | the SELinux label of a volume's files |
//! | [`spec`] | one resolved volume: its source and, if it has one, its PersistentVolume |
//! | [`fields`] | the fields of a volume's source |
//! | [`mount_options`] | which mount options a PersistentVolume may ask for |
//! | [`label_selector`] | which objects a user selects by their labels |
//! | [`back_off`] | when something that failed is tried again |
//! | [`failure`] | what a failed operation says of the state it leaves |
//! | [`visible`] | which characters every output writes as escapes |
//! | [`view`] | what a user is shown of pods, volumes, operations, plugins and events |
//! | [`objects`] | interface: the objects that a volume may read |
//! | [`drivers`] | interface: calls of registered CSI drivers |
//! | [`driver_programs`] | interface: runs of FlexVolume drivers |
//! | [`images`] | interface: the images of the node |
//! | [`iscsi`] | interface: sessions with iSCSI targets |
//! | [`fc`] | interface: units of Fibre Channel targets |
//! | [`scsi`] | devices of SCSI units |
//! | [`oci`] | names and digests of what registries keep |
//! | [`clock`] | the time of day, never running backwards |
//! | [`duration`] | durations as people write them: `2m3s` |
//! | [`quantity`] | Kubernetes quantities as bytes |
//! | [`text`] | bytes as digits, long texts cut for messages, errors with their causes |
#![forbid(unsafe_code)]

pub mod back_off;
pub mod clock;
pub mod container_mount;
pub mod csi_layout;
pub mod driver_programs;
pub mod drivers;
pub mod duration;
pub mod failure;
pub mod fc;
pub mod fields;
mod huge_pages;
pub mod images;
pub mod iscsi;
pub mod label_selector;
pub mod mount_options;
pub mod names;
pub mod needed_volume;
pub mod objects;
pub mod oci;
pub mod pod;
pub mod pod_fields;
pub mod pod_resources;
pub mod quantity;
pub mod scsi;
pub mod selinux;
pub mod spec;
pub mod text;
pub mod view;
pub mod visible;

pub use back_off::BackOff;
pub use container_mount::{ContainerMount, MountPropagation, RecursiveReadOnly};
pub use failure::{Failure, FailureClass};
pub use fields::Fields;
pub use names::{NameError, OuterName, PluginName, PodUid, SpecName, UniqueVolumeName};
pub use needed_volume::NeededVolume;
pub use pod::{ContainerResources, FsGroupChangePolicy, Pod};
pub use spec::{FieldKind, VolumeSpec};
