//! The steps of which kernel operations are made.

use std::fmt;

/// The step of a kernel operation. An error names the one that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Making the root folder.
    CreateRoot,
    /// Making the root folder a mount of its own.
    MountRoot,
    /// Unmounting the root folder.
    UnmountRoot,
    /// Setting how mount events travel to other namespaces.
    SetPropagation,
    /// Opening a folder.
    OpenFolder,
    /// Making a folder.
    MakeFolder,
    /// Setting a folder's mode.
    SetMode,
    /// Setting a folder's group.
    SetGroup,
    /// Reading a folder's entries.
    ListFolder,
    /// Asking what is at a name.
    Inspect,
    /// Asking the kernel which mounts there are.
    ListMounts,
    /// Copying a mount, detached.
    CloneMount,
    /// Setting per-mount options.
    SetOptions,
    /// Setting an option of a new file system.
    ConfigureFileSystem,
    /// Making a new file system.
    CreateFileSystem,
    /// Making the mount point.
    MakeMountPoint,
    /// Making the mount visible.
    Attach,
    /// Making sure that what is visible is what was attached.
    CheckAttached,
    /// Ending the connection to the server of a FUSE file system.
    EndServer,
    /// Opening `/dev/fuse`.
    OpenFuse,
    /// Asking the server of a FUSE file system something.
    AskServer,
    /// Looking for a connection to such a server.
    FindConnection,
    /// Unmounting.
    Unmount,
    /// Removing the mount point.
    RemoveMountPoint,
    /// Removing something inside a folder that is being deleted.
    Remove,
    /// Removing an empty folder.
    RemoveFolder,
    /// Giving a folder another name.
    MoveFolder,
    /// Opening a file.
    OpenFile,
    /// Reading a file.
    ReadFile,
    /// Writing a file.
    WriteFile,
    /// Putting a written file in its place.
    PublishFile,
    /// Removing a file.
    RemoveFile,
    /// Taking the lock.
    Lock,
    /// Opening a path of the host.
    OpenHostPath,
    /// Making a folder or file at a path of the host.
    CreateHostPath,
    /// Duplicating a handle.
    CloneHandle,
    /// Asking how much memory the machine has.
    ReadMemory,
    /// Reading what the SELinux policy says of containers.
    ReadPolicy,
    /// Opening a block device.
    OpenDevice,
    /// Asking a block device for its size, or whether it is read-only.
    InspectDevice,
    /// Asking whether something uses a block device exclusively.
    CheckUse,
    /// Reading a block device.
    ReadDevice,
    /// Making a symbolic link to a block device.
    LinkDevice,
    /// Asking which loop devices there are.
    FindLoop,
    /// Giving a loop device its file.
    AttachLoop,
    /// Detaching a loop device from its file.
    DetachLoop,
    /// Setting a loop device to the size of its file.
    ResizeLoop,
    /// Making a file larger.
    GrowFile,
    /// Copying an image file.
    CopyImage,
    /// Keeping everybody from writing to a file system for a moment.
    FreezeFilesystem,
    /// Letting a frozen file system be written again.
    ThawFilesystem,
    /// Reserving the room of an image file.
    ReserveImage,
    /// Giving back the room that an image file does not need.
    ReleaseImage,
    /// Asking what is on a block device.
    ProbeDevice,
    /// Making a file system on a block device.
    FormatDevice,
    /// Erasing what a failed formatting left.
    EraseDevice,
    /// Checking a file system.
    CheckFileSystem,
    /// Mounting a file system that is on a device.
    MountFileSystem,
    /// Mounting an overlay.
    MountOverlay,
    /// Mounting a file system that is in a file.
    MountImage,
    /// Mounting what a server exports.
    MountShare,
    /// Asking how large a file system is.
    MeasureFileSystem,
    /// Growing a file system.
    GrowFileSystem,
    /// Setting the owner and group of something.
    SetOwner,
    /// Making a symbolic link.
    MakeLink,
    /// Reading a symbolic link.
    ReadLink,
    /// Putting a new set of files in the place of the old one.
    PublishPayload,
    /// Removing a link or folder that an older set of files left.
    ClearPayload,
    /// Setting group and mode of a volume's files.
    ApplyOwnership,
    /// Making the user namespace of an id map.
    MakeIdMap,
    /// Giving a mount other ids.
    MapIds,
    /// Opening a sub-path of a volume.
    OpenSubPath,
    /// Asking a file system how full it is.
    AskUsage,
    /// Adding up what files take.
    MeasureFiles,
    /// Making a folder that can have a quota.
    MakeLimitedFolder,
    /// Setting the quota of a folder.
    SetQuota,
    /// Making a mount namespace.
    UnshareMounts,
    /// A primitive as a whole, when it is refused before it begins.
    Primitive,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CreateRoot => "making the root folder",
            Self::MountRoot => "making the root folder a mount of its own",
            Self::UnmountRoot => "unmounting the root folder",
            Self::SetPropagation => "setting mount propagation of",
            Self::OpenFolder => "opening folder",
            Self::MakeFolder => "making folder",
            Self::SetMode => "setting the mode of",
            Self::SetGroup => "setting the group of",
            Self::ListFolder => "reading folder",
            Self::Inspect => "looking at",
            Self::ListMounts => "listing the mounts of",
            Self::CloneMount => "binding",
            Self::SetOptions => "setting mount options of",
            Self::ConfigureFileSystem => "configuring file system",
            Self::CreateFileSystem => "creating file system",
            Self::MakeMountPoint => "making mount point",
            Self::Attach => "mounting at",
            Self::CheckAttached => "checking the mount at",
            Self::EndServer => "ending the connection to the file system's server",
            Self::OpenFuse => "opening the FUSE device",
            Self::AskServer => "asking the file system's server",
            Self::FindConnection => "looking for the connection to a file system's server",
            Self::Unmount => "unmounting",
            Self::RemoveMountPoint => "removing mount point",
            Self::Remove => "removing",
            Self::RemoveFolder => "removing folder",
            Self::MoveFolder => "renaming folder",
            Self::OpenFile => "opening file",
            Self::ReadFile => "reading file",
            Self::WriteFile => "writing file",
            Self::PublishFile => "putting into place file",
            Self::RemoveFile => "removing file",
            Self::Lock => "locking",
            Self::OpenHostPath => "opening host path",
            Self::CreateHostPath => "making host path",
            Self::CloneHandle => "duplicating the handle of",
            Self::ReadMemory => "reading the size of memory",
            Self::ReadPolicy => "reading the SELinux policy",
            Self::OpenDevice => "opening block device",
            Self::InspectDevice => "asking block device",
            Self::CheckUse => "looking for users of block device",
            Self::ReadDevice => "reading block device",
            Self::LinkDevice => "linking to a block device at",
            Self::FindLoop => "looking for the loop device of",
            Self::AttachLoop => "making a loop device of",
            Self::DetachLoop => "detaching the loop device of",
            Self::ResizeLoop => "resizing loop device",
            Self::GrowFile => "growing file",
            Self::CopyImage => "copying an image to",
            Self::FreezeFilesystem => "freezing the file system at",
            Self::ThawFilesystem => "thawing the file system at",
            Self::ReserveImage => "reserving the room of",
            Self::ReleaseImage => "releasing the room of",
            Self::ProbeDevice => "looking for data on block device",
            Self::FormatDevice => "formatting block device",
            Self::EraseDevice => "erasing what a failed mkfs left on block device",
            Self::MountFileSystem => "mounting the file system on",
            Self::MountOverlay => "mounting an overlay of",
            Self::MountImage => "mounting the image",
            Self::MountShare => "mounting the share",
            Self::CheckFileSystem => "checking the file system on",
            Self::MeasureFileSystem => "asking for the size of the file system on",
            Self::GrowFileSystem => "growing the file system on",
            Self::SetOwner => "setting the owner of",
            Self::MakeLink => "making link",
            Self::ReadLink => "reading link",
            Self::PublishPayload => "publishing the files of",
            Self::ClearPayload => "clearing left-over",
            Self::ApplyOwnership => "setting group and mode of",
            Self::MakeIdMap => "making the id map for",
            Self::MapIds => "mapping the ids of",
            Self::OpenSubPath => "opening sub-path",
            Self::AskUsage => "measuring the usage of",
            Self::MeasureFiles => "measuring",
            Self::MakeLimitedFolder => "making a folder with a quota at",
            Self::SetQuota => "setting the quota of",
            Self::UnshareMounts => "making a mount namespace for",
            Self::Primitive => "running",
        })
    }
}
