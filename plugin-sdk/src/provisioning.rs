//! What a [`Controller`](crate::Controller) and a [`Snapshotter`](crate::Snapshotter) are asked for, and how they answer.

use std::fmt;

use crate::backend;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<'call>(&'call backend::$name);

        impl<'call> $name<'call> {
            pub(crate) fn new(handle: &'call backend::$name) -> Self {
                Self(handle)
            }
        }

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    };
}

handle!(
    /// A volume that somebody wants.
    VolumeRequest
);
handle!(
    /// A volume that there is, to be filled in.
    VolumeAnswer
);
handle!(
    /// A page of the volumes that there are, to be filled in.
    VolumePage
);
handle!(
    /// A snapshot that somebody wants.
    SnapshotRequest
);
handle!(
    /// A page of the snapshots that there are, to be filled in.
    SnapshotPage
);

impl VolumeRequest<'_> {
    /// What whoever asks calls it: the same name, the same volume. Empty where no volume is to be made.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// It must have at least this many bytes; none: as many as the plugin likes.
    #[must_use]
    pub fn required_bytes(&self) -> Option<u64> {
        self.0.required_bytes()
    }

    /// It must not have more than this many bytes.
    #[must_use]
    pub fn limit_bytes(&self) -> Option<u64> {
        self.0.limit_bytes()
    }

    /// One of the operator's parameters.
    #[must_use]
    pub fn parameter(&self, key: &str) -> Option<String> {
        self.0.parameter(key)
    }

    /// The keys of the operator's parameters, sorted.
    #[must_use]
    pub fn parameters(&self) -> Vec<String> {
        self.0.parameters()
    }

    /// The file system that it is to be mounted with, if that was said.
    #[must_use]
    pub fn fs_type(&self) -> Option<String> {
        self.0.fs_type()
    }

    /// It is to be handed over as a device.
    #[must_use]
    pub fn as_device(&self) -> bool {
        self.0.as_device()
    }

    /// How it is to be used, in Kubernetes' spelling (`ReadWriteOnce`).
    #[must_use]
    pub fn access_modes(&self) -> Vec<String> {
        self.0.access_modes()
    }

    /// The volume whose content it begins with.
    #[must_use]
    pub fn source_volume(&self) -> Option<String> {
        self.0.source_volume()
    }

    /// The snapshot whose content it begins with.
    #[must_use]
    pub fn source_snapshot(&self) -> Option<String> {
        self.0.source_snapshot()
    }
}

impl VolumeAnswer<'_> {
    /// Its handle: what every later call names it by. 1 to 128 bytes without control characters.
    pub fn id(&mut self, id: &str) -> &mut Self {
        self.0.id(id);
        self
    }

    /// Its size in bytes.
    pub fn capacity(&mut self, bytes: u64) -> &mut Self {
        self.0.capacity(bytes);
        self
    }

    /// A field of `volumeAttributes` that its mounting needs.
    pub fn attribute(&mut self, key: &str, value: &str) -> &mut Self {
        self.0.attribute(key, value);
        self
    }
}

impl VolumePage<'_> {
    /// Adds a volume with its size in bytes.
    pub fn add(&mut self, id: &str, capacity: u64) {
        self.0.add(id, capacity);
    }

    /// There are more: a call with this token goes on.
    pub fn next(&mut self, token: &str) {
        self.0.next(token);
    }
}

impl SnapshotRequest<'_> {
    /// What whoever asks calls it: the same name, the same snapshot.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// The volume.
    #[must_use]
    pub fn volume_id(&self) -> String {
        self.0.volume_id()
    }

    /// One of the operator's parameters.
    #[must_use]
    pub fn parameter(&self, key: &str) -> Option<String> {
        self.0.parameter(key)
    }

    /// The keys of the operator's parameters, sorted.
    #[must_use]
    pub fn parameters(&self) -> Vec<String> {
        self.0.parameters()
    }
}

impl SnapshotPage<'_> {
    /// Adds a snapshot: its handle, its volume's, the bytes that a volume made of it needs, and when it was made, in seconds since 1970.
    pub fn add(&mut self, id: &str, volume_id: &str, bytes: u64, made: u64) {
        self.0.add(id, volume_id, bytes, made);
    }

    /// There are more: a call with this token goes on.
    pub fn next(&mut self, token: &str) {
        self.0.next(token);
    }
}
