//! The optional capabilities of a plugin, one trait each. A plugin has those that its call of
//! [`export_plugin!`](crate::export_plugin) names; the host reads them from the component.
//!
//! The host may repeat each call at any time, as with [`VolumePlugin`], and runs no two calls for
//! one volume at once.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! /// Disks that are images in a granted folder: `disks: {image: /srv/images/a.img}`
//! struct Disks;
//!
//! impl VolumePlugin for Disks {
//!     fn describe(about: &mut Description) {
//!         about.name("example.com/disks").serves("disks");
//!     }
//!     fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
//!         id.name(&volume.absolute_path("image")?);
//!         Ok(())
//!     }
//!     fn publish(_: &Volume, _: &Pod, target: &MountTarget) -> Result<()> {
//!         match target.staging_mount()? {
//!             Some(mounted) if !target.is_mounted()? => target.attach(mounted.bind(false)?),
//!             _ => Ok(()),
//!         }
//!     }
//!     fn unpublish(target: &MountTarget) -> Result<()> {
//!         target.detach()
//!     }
//! }
//!
//! impl Attacher for Disks {
//!     fn attach(volume: &Volume) -> Result<String> {
//!         let image = volume.absolute_path("image")?;
//!         loop_devices::ensure_image(&image, volume.capacity().unwrap_or(64 << 20))?;
//!         match loop_devices::find(&image)? {
//!             Some(device) => Ok(device.path()),
//!             None => Ok(loop_devices::create(&image, volume.read_only())?.path()),
//!         }
//!     }
//!     fn detach(image: &str) -> Result<()> {
//!         loop_devices::remove(image)
//!     }
//!     fn wait_for_attach(volume: &Volume, _: &Attachment) -> Result<Option<BlockDevice>> {
//!         loop_devices::find(&volume.absolute_path("image")?)
//!     }
//!     fn are_attached(images: &[String]) -> Result<Vec<bool>> {
//!         images.iter().map(|image| Ok(loop_devices::find(image)?.is_some())).collect()
//!     }
//! }
//!
//! impl Stager for Disks {
//!     fn stage(_: &Volume, attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
//!         let Some(attached) = attached else { return Err(Error::precondition("it is not attached")) };
//!         if target.is_mounted()? {
//!             return Ok(());
//!         }
//!         let device = attached.open()?;
//!         if filesystems::probe(&device)?.is_none() {
//!             filesystems::format(&device, "ext4", &filesystems::FormatOptions::new())?;
//!         }
//!         target.attach(filesystems::mount(&device, "ext4", &[], false)?)
//!     }
//!     fn unstage(_: &str, target: &MountTarget) -> Result<()> {
//!         target.detach()
//!     }
//! }
//!
//! impl BlockMapper for Disks {
//!     fn stage_device(_: &Volume, attached: Option<&Attachment>) -> Result<Option<BlockDevice>> {
//!         attached.map_or_else(|| Err(Error::precondition("it is not attached")), Attachment::open).map(Some)
//!     }
//!     // The defaults of these three do the same: each pod has the staged device.
//!     fn map_device(_: &Volume, _: &Pod, device: Option<&LentDevice>) -> Result<Option<BlockDevice>> {
//!         log::debug(format_args!("the pod uses {:?}", device.map(LentDevice::path)));
//!         Ok(None)
//!     }
//!     fn unmap_device(_: &str, _pod_uid: &str) -> Result<()> {
//!         Ok(())
//!     }
//!     fn unstage_device(_: &str) -> Result<()> {
//!         Ok(())
//!     }
//! }
//!
//! impl Expander for Disks {
//!     fn expand(volume: &Volume, attached: Option<&Attachment>, target: Option<&MountTarget>, to: u64) -> Result<u64> {
//!         let size = loop_devices::ensure_image(&volume.absolute_path("image")?, to)?;
//!         match (attached, target) {
//!             (Some(attached), Some(target)) => filesystems::grow(&attached.open()?, target),
//!             _ => Ok(size),
//!         }
//!     }
//! }
//!
//! impl Stats for Disks {
//!     fn measure(image: &str, _: Option<&MountTarget>, into: &mut Measurement) -> Result<()> {
//!         into.capacity(loop_devices::facts(image)?.0);
//!         Ok(())
//!     }
//! }
//!
//! impl OtherNodes for Disks {
//!     fn attached_to(_: &str) -> Result<Option<String>> {
//!         Ok(None)
//!     }
//!     fn detach_from(_: &str, _: &str) -> Result<()> {
//!         Ok(())
//!     }
//! }
//!
//! export_plugin!(Disks, Attacher, OtherNodes, Stager, BlockMapper, Expander, Stats);
//!
//! let host = volhost_plugin_sdk::testing::TestHost::new();
//! host.grant_images("/srv/images");
//! let volume = Volume::builder("disks").field("image", "/srv/images/a.img").capacity(64 << 20);
//! let attached = host.attach::<Disks>(&volume)?;
//! let attached = host.wait_for_attach::<Disks>(&volume, &attached)?;
//! assert!(host.is_attached::<Disks>("/srv/images/a.img")?);
//! let device = host.stage_device::<Disks>(&volume, Some(&attached))?;
//! assert_eq!(host.map_device::<Disks>(&volume, &Pod::builder(), device.as_deref())?, None);
//! host.stage::<Disks>(&volume, Some(&attached))?;
//! assert_eq!(host.node_target(volume.name()).mount().unwrap().fs_type, "ext4");
//! assert_eq!(host.expand::<Disks>(&volume, Some(&attached), true, 128 << 20)?, 128 << 20);
//! assert_eq!(host.measure::<Disks>("/srv/images/a.img", None)?.capacity, Some(128 << 20));
//! host.unstage::<Disks>("/srv/images/a.img", volume.name())?;
//! host.detach::<Disks>("/srv/images/a.img")?;
//! # Ok::<(), Error>(())
//! ```

use crate::describe::Measurement;
use crate::devices::{Attachment, BlockDevice, LentDevice};
use crate::error::Result;
use crate::mounts::MountTarget;
use crate::plugin::VolumePlugin;
use crate::pod::Pod;
use crate::provisioning::{GroupRequest, SnapshotPage, SnapshotRequest, VolumeAnswer, VolumePage, VolumeRequest};
use crate::volume::Volume;

/// The volume must be attached to the node before it can be used: a network disk, a loop device.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not attach volumes: `export_plugin!` names the capability `Attacher`, and the trait is not implemented",
    label = "there is no `impl Attacher for {Self}`",
    note = "implement the trait, or take `Attacher` out of `export_plugin!`"
)]
pub trait Attacher: VolumePlugin {
    /// Attaches the volume to this node, and returns the text by which
    /// [`wait_for_attach`](Self::wait_for_attach) finds the device. Attached already: the same
    /// answer.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) naming the other node when the volume is attached there
    /// and only one is allowed; any other.
    fn attach(volume: &Volume<'_>) -> Result<String>;

    /// Detaches the volume. Only the name that `identify` gave it is known. Not attached, or gone:
    /// ok.
    ///
    /// # Errors
    /// Any.
    fn detach(volume_name: &str) -> Result<()>;

    /// Returns the device once it exists; none for storage without a device.
    ///
    /// # Errors
    /// [`Retryable`](crate::Error::Retryable) until the device exists; any other.
    fn wait_for_attach(volume: &Volume<'_>, attached: &Attachment<'_>) -> Result<Option<BlockDevice>>;

    /// Returns for each of these volumes whether it is attached to this node, in order.
    ///
    /// # Errors
    /// Any.
    fn are_attached(volume_names: &[String]) -> Result<Vec<bool>>;
}

/// The storage knows to which other node a volume is attached, and can detach it there.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not report the node of a volume: `export_plugin!` names the capability `OtherNodes`, and the trait is not implemented",
    label = "there is no `impl OtherNodes for {Self}`",
    note = "implement the trait, or take `OtherNodes` out of `export_plugin!`"
)]
pub trait OtherNodes: Attacher {
    /// Returns the other node that the volume is attached to, or may be, by the storage's name for
    /// it; none when there is none. This node does not count. The host calls it when
    /// [`Attacher::attach`] has answered [`Conflict`](crate::Error::Conflict).
    ///
    /// # Errors
    /// Any.
    fn attached_to(volume_name: &str) -> Result<Option<String>>;

    /// Detaches the volume from that node, even if it is in use there. Not attached there: ok. The
    /// host calls this only for a node that the operator has marked as out of service, and calls
    /// [`attached_to`](Self::attached_to) afterwards.
    ///
    /// # Errors
    /// Any.
    fn detach_from(volume_name: &str, node: &str) -> Result<()>;
}

/// The volume is staged: mounted once for the node, then once for each pod. `publish` binds
/// [`MountTarget::staging_mount`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not stage volumes: `export_plugin!` names the capability `Stager`, and the trait is not implemented",
    label = "there is no `impl Stager for {Self}`",
    note = "implement the trait, or take `Stager` out of `export_plugin!`"
)]
pub trait Stager: VolumePlugin {
    /// Mounts the volume at its staging target. When it returns ok, the host checks that the target
    /// is a mount.
    ///
    /// # Errors
    /// Any; unless it is [`Uncertain`](crate::Error::Uncertain), nothing may have changed.
    fn stage(volume: &Volume<'_>, attached: Option<&Attachment<'_>>, target: &MountTarget<'_>) -> Result<()>;

    /// Unmounts the volume from its staging target. No pod uses it. When it returns ok, the host
    /// checks that nothing is left there.
    ///
    /// # Errors
    /// Any.
    fn unstage(volume_name: &str, target: &MountTarget<'_>) -> Result<()>;
}

/// Containers can use the volume as a raw device (`volumeMode: Block`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not map volumes as devices: `export_plugin!` names the capability `BlockMapper`, and the trait is not implemented",
    label = "there is no `impl BlockMapper for {Self}`",
    note = "implement the trait, or take `BlockMapper` out of `export_plugin!`"
)]
pub trait BlockMapper: VolumePlugin {
    /// Prepares the device on the node, and returns it. None: the volume is staged, and
    /// [`map_device`](Self::map_device) returns a device for each pod.
    ///
    /// # Errors
    /// Any.
    fn stage_device(volume: &Volume<'_>, attached: Option<&Attachment<'_>>) -> Result<Option<BlockDevice>>;

    /// Returns the device for this pod; none, the default, if it is the staged one, `device`.
    /// `device` is none if
    /// [`stage_device`](Self::stage_device) returned none; then this function has to return one.
    ///
    /// # Errors
    /// Any.
    fn map_device(volume: &Volume<'_>, pod: &Pod<'_>, device: Option<&LentDevice<'_>>) -> Result<Option<BlockDevice>> {
        let _ = (volume, pod, device);
        Ok(None)
    }

    /// Undoes [`map_device`](Self::map_device). Does nothing by default.
    ///
    /// # Errors
    /// Any.
    fn unmap_device(volume_name: &str, pod_uid: &str) -> Result<()> {
        let _ = (volume_name, pod_uid);
        Ok(())
    }

    /// Undoes [`stage_device`](Self::stage_device). Does nothing by default.
    ///
    /// # Errors
    /// Any.
    fn unstage_device(volume_name: &str) -> Result<()> {
        let _ = volume_name;
        Ok(())
    }
}

/// The volume can grow on this node, while it is being mounted and while it is in use.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not expand volumes: `export_plugin!` names the capability `Expander`, and the trait is not implemented",
    label = "there is no `impl Expander for {Self}`",
    note = "implement the trait, or take `Expander` out of `export_plugin!`"
)]
pub trait Expander: VolumePlugin {
    /// Grows the volume to at least `to` bytes, and returns its new size. Large enough already: ok.
    /// `target` is the staging mount if there is one, else the pod's mount; none for a device.
    ///
    /// # Errors
    /// [`Precondition`](crate::Error::Precondition) and [`Unsupported`](crate::Error::Unsupported):
    /// it cannot grow while it is in use, and a mount goes on without. Any other.
    fn expand(
        volume: &Volume<'_>,
        attached: Option<&Attachment<'_>>,
        target: Option<&MountTarget<'_>>,
        to: u64,
    ) -> Result<u64>;
}

/// The plugin knows facts of its volumes that their file systems do not report: a quota, a thin
/// pool, a lost path.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not measure volumes: `export_plugin!` names the capability `Stats`, and the trait is not implemented",
    label = "there is no `impl Stats for {Self}`",
    note = "implement the trait, or take `Stats` out of `export_plugin!`"
)]
pub trait Stats: VolumePlugin {
    /// Fills in what the plugin knows of a published volume; the host fills in the rest. Changes
    /// nothing, and may run beside any other call for the volume. `target` is the pod's mount of
    /// it; none for a device.
    ///
    /// # Errors
    /// Any; the host's own figures are shown all the same.
    fn measure(volume_name: &str, target: Option<&MountTarget<'_>>, into: &mut Measurement<'_>) -> Result<()>;
}

/// The plugin creates, deletes and lists volumes (dynamic provisioning).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not create volumes: `export_plugin!` names the capability `Controller`, and the trait is not implemented",
    label = "there is no `impl Controller for {Self}`",
    note = "implement the trait, or take `Controller` out of `export_plugin!`"
)]
pub trait Controller: VolumePlugin {
    /// Creates the volume. If one of that name exists and fits the request: the same answer.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) when one of that name does not fit;
    /// [`NotFound`](crate::Error::NotFound) when its source does not exist;
    /// [`other`](crate::Error::other) with `OUT_OF_RANGE` when no volume can have that size, and
    /// with `RESOURCE_EXHAUSTED` when there is no space; any other.
    fn create(wanted: &VolumeRequest<'_>, into: &mut VolumeAnswer<'_>) -> Result<()>;

    /// Deletes the volume with all its data. None there: ok.
    ///
    /// # Errors
    /// [`Busy`](crate::Error::Busy) while it is used; any other.
    fn delete(volume_id: &str) -> Result<()>;

    /// Describes the volume. Changes nothing.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none; any other.
    fn find(volume_id: &str, into: &mut VolumeAnswer<'_>) -> Result<()>;

    /// Gives the volume at least `to` bytes and at most `limit`, and returns its new size. Large
    /// enough already: ok.
    ///
    /// # Errors
    /// [`other`](crate::Error::other) with `OUT_OF_RANGE` when it cannot be of that size; any
    /// other.
    fn expand(volume_id: &str, to: u64, limit: Option<u64>) -> Result<u64>;

    /// Puts at most `most` volumes into the page, from the one that `start` is the token of; an
    /// empty one is the first's.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for a token that was never given; any
    /// other.
    fn list_volumes(start: &str, most: u32, into: &mut VolumePage<'_>) -> Result<()>;

    /// Returns how many bytes a volume with these parameters can have now; none, the default, when
    /// the plugin does not know.
    ///
    /// # Errors
    /// Any.
    fn free_space(wanted: &VolumeRequest<'_>) -> Result<Option<u64>> {
        let _ = wanted;
        Ok(None)
    }
}

/// The plugin makes snapshots of its volumes, and volumes of snapshots.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not make snapshots: `export_plugin!` names the capability `Snapshotter`, and the trait is not implemented",
    label = "there is no `impl Snapshotter for {Self}`",
    note = "implement the trait, or take `Snapshotter` out of `export_plugin!`"
)]
pub trait Snapshotter: Controller {
    /// Makes the snapshot, and puts it into the page. When it returns, the snapshot is whole. One
    /// of that name of that volume: the same answer.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) for one of that name of another volume;
    /// [`NotFound`](crate::Error::NotFound) when there is no such volume; any other.
    fn create_snapshot(wanted: &SnapshotRequest<'_>, into: &mut SnapshotPage<'_>) -> Result<()>;

    /// Deletes the snapshot. None there: ok.
    ///
    /// # Errors
    /// Any.
    fn delete_snapshot(snapshot_id: &str) -> Result<()>;

    /// Puts the snapshot into the page.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none; any other.
    fn find_snapshot(snapshot_id: &str, into: &mut SnapshotPage<'_>) -> Result<()>;

    /// Puts at most `most` snapshots into the page, of this volume or of all, as
    /// [`Controller::list_volumes`].
    ///
    /// # Errors
    /// As there.
    fn list_snapshots(volume_id: Option<&str>, start: &str, most: u32, into: &mut SnapshotPage<'_>) -> Result<()>;
}

/// A volume can be changed by its mutable parameters (a VolumeAttributesClass's `parameters`).
/// [`Controller::create`] finds them in its request, too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not change volumes: `export_plugin!` names the capability `Modifier`, and the trait is not implemented",
    label = "there is no `impl Modifier for {Self}`",
    note = "implement the trait, or take `Modifier` out of `export_plugin!`"
)]
pub trait Modifier: Controller {
    /// Gives the volume the mutable parameters that the request names, and leaves all others as
    /// they are. As they are already: ok.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for a key or value that this volume
    /// cannot have, when nothing was changed; [`NotFound`](crate::Error::NotFound) when there is no
    /// such volume; any other.
    fn modify(volume_id: &str, wanted: &VolumeRequest<'_>) -> Result<()>;
}

/// The plugin makes snapshots of several volumes that are of one moment, as a group. Each is a
/// snapshot of [`Snapshotter`] too, but deleted with its group alone.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not make snapshots of several volumes at once: `export_plugin!` names the capability `GroupSnapshotter`, and the trait is not implemented",
    label = "there is no `impl GroupSnapshotter for {Self}`",
    note = "implement the trait, or take `GroupSnapshotter` out of `export_plugin!`"
)]
pub trait GroupSnapshotter: Snapshotter {
    /// Makes the group, and puts its snapshots into the page, one a volume, each
    /// [`SnapshotPage::of_group`]. A group of that name of those volumes: the same answer.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) for one of that name of other volumes;
    /// [`NotFound`](crate::Error::NotFound) when one of the volumes is not there;
    /// [`Precondition`](crate::Error::Precondition) when they cannot be taken at one moment as they
    /// are; any other.
    fn create_group(wanted: &GroupRequest<'_>, into: &mut SnapshotPage<'_>) -> Result<()>;

    /// Deletes the group with all of its snapshots, also one that was only begun. None there: ok.
    ///
    /// # Errors
    /// Any.
    fn delete_group(group_id: &str) -> Result<()>;

    /// Puts the snapshots of the group into the page.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none that is whole; any other.
    fn find_group(group_id: &str, into: &mut SnapshotPage<'_>) -> Result<()>;
}
