//! The steps of which kernel operations are made.

use std::fmt;

/// The step of a kernel operation. An error names the one that failed; the twin injects faults at one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Making the root folder.
    CreateRoot,
    /// Making the root folder a mount of its own.
    MountRoot,
    /// Taking the root folder's mount away.
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
    /// Asking what stands at a name.
    Inspect,
    /// Asking the kernel which mounts there are.
    ListMounts,
    /// Copying a mount, unseen.
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
    /// Unmounting.
    Unmount,
    /// Removing the mount point.
    RemoveMountPoint,
    /// Removing something inside a folder that is being deleted.
    Remove,
    /// Removing an empty folder.
    RemoveFolder,
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
            Self::Unmount => "unmounting",
            Self::RemoveMountPoint => "removing mount point",
            Self::Remove => "removing",
            Self::RemoveFolder => "removing folder",
            Self::OpenFile => "opening file",
            Self::ReadFile => "reading file",
            Self::WriteFile => "writing file",
            Self::PublishFile => "putting in place file",
            Self::RemoveFile => "removing file",
            Self::Lock => "locking",
            Self::OpenHostPath => "opening host path",
            Self::CreateHostPath => "making host path",
            Self::CloneHandle => "duplicating the handle of",
            Self::ReadMemory => "reading the size of memory",
        })
    }
}
