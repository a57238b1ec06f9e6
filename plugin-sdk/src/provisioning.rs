//! The requests to a [`Controller`](crate::Controller) and a [`Snapshotter`](crate::Snapshotter),
//! and their answers.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! /// Volumes that are images in one folder; a volume's name is its handle.
//! struct Images;
//! # impl VolumePlugin for Images {
//! #     fn describe(about: &mut Description) { about.name("example.com/images").serves("images"); }
//! #     fn identify(_: &Volume, _: &mut Identity) -> Result<()> { Ok(()) }
//! #     fn publish(_: &Volume, _: &Pod, _: &MountTarget) -> Result<()> { Ok(()) }
//! #     fn unpublish(_: &MountTarget) -> Result<()> { Ok(()) }
//! # }
//! # fn path(id: &str) -> String { format!("/srv/images/{id}") }
//!
//! impl Controller for Images {
//!     fn create(wanted: &VolumeRequest, into: &mut VolumeAnswer) -> Result<()> {
//!         for parameter in wanted.parameters() {
//!             if parameter != "tier" {
//!                 return Err(Error::invalid_argument(format!("{parameter}: no such parameter. Known: tier")));
//!             }
//!         }
//!         if wanted.as_device() && wanted.fs_type().is_some() {
//!             return Err(Error::invalid_argument("a device has no file system"));
//!         }
//!         log::debug(format_args!("{:?} for {:?}", wanted.parameter("tier"), wanted.access_modes()));
//!         let size = wanted.required_bytes().unwrap_or(64 << 20);
//!         if wanted.limit_bytes().is_some_and(|limit| size > limit) {
//!             return Err(Error::other("OUT_OF_RANGE", "no size is both large and small enough"));
//!         }
//!         let id = wanted.name();
//!         let made = match wanted.source_volume().or(wanted.source_snapshot()) {
//!             Some(source) => loop_devices::copy(&path(&source), &path(&id))?,
//!             None => loop_devices::ensure_image(&path(&id), size)?,
//!         };
//!         into.id(&id).capacity(made).attribute("image", &path(&id));
//!         Ok(())
//!     }
//!     fn delete(id: &str) -> Result<()> {
//!         loop_devices::discard(&path(id))
//!     }
//!     fn find(id: &str, into: &mut VolumeAnswer) -> Result<()> {
//!         into.id(id).capacity(loop_devices::facts(&path(id))?.0);
//!         Ok(())
//!     }
//!     fn expand(id: &str, to: u64, _limit: Option<u64>) -> Result<u64> {
//!         loop_devices::ensure_image(&path(id), to)
//!     }
//!     fn list_volumes(start: &str, most: u32, into: &mut VolumePage) -> Result<()> {
//!         let names = loop_devices::names("/srv/images", start, most)?;
//!         for name in &names {
//!             into.add(name, loop_devices::facts(&path(name))?.0);
//!         }
//!         if let Some(last) = names.last().filter(|_| names.len() == most as usize) {
//!             into.next(last);
//!         }
//!         Ok(())
//!     }
//!     fn free_space(_: &VolumeRequest) -> Result<Option<u64>> {
//!         loop_devices::free_space("/srv/images").map(Some)
//!     }
//! }
//!
//! impl Snapshotter for Images {
//!     fn create_snapshot(wanted: &SnapshotRequest, into: &mut SnapshotPage) -> Result<()> {
//!         log::debug(format_args!("{:?} {:?}", wanted.parameters(), wanted.parameter("tier")));
//!         let bytes = loop_devices::copy(&path(&wanted.volume_id()), &path(&wanted.name()))?;
//!         into.add(&wanted.name(), &wanted.volume_id(), bytes, loop_devices::facts(&path(&wanted.name()))?.1);
//!         Ok(())
//!     }
//!     fn delete_snapshot(id: &str) -> Result<()> {
//!         loop_devices::discard(&path(id))
//!     }
//!     fn find_snapshot(id: &str, into: &mut SnapshotPage) -> Result<()> {
//!         let (bytes, made) = loop_devices::facts(&path(id))?;
//!         into.add(id, "", bytes, made);
//!         Ok(())
//!     }
//!     fn list_snapshots(_: Option<&str>, _start: &str, _most: u32, into: &mut SnapshotPage) -> Result<()> {
//!         into.next("");
//!         Ok(())
//!     }
//! }
//!
//! impl Modifier for Images {
//!     fn modify(id: &str, wanted: &VolumeRequest) -> Result<()> {
//!         match wanted.mutable_parameter("allocation").as_deref() {
//!             Some("full") => loop_devices::reserve(&path(id), loop_devices::facts(&path(id))?.0).map(drop),
//!             Some("sparse") => loop_devices::release(&path(id)),
//!             _ => Err(Error::invalid_argument(format!("{:?}: known is only allocation", wanted.mutable_parameters()))),
//!         }
//!     }
//! }
//!
//! impl GroupSnapshotter for Images {
//!     fn create_group(wanted: &GroupRequest, into: &mut SnapshotPage) -> Result<()> {
//!         log::debug(format_args!("{} secrets: {:?}", wanted.secrets().len(), wanted.secret("key").is_some()));
//!         for volume in wanted.volume_ids() {
//!             let id = format!("{}-{volume}", wanted.name());
//!             let bytes = loop_devices::copy(&path(&volume), &path(&id))?;
//!             into.add(&id, &volume, bytes, loop_devices::facts(&path(&id))?.1);
//!             into.of_group(&wanted.name());
//!         }
//!         Ok(())
//!     }
//!     fn delete_group(group: &str) -> Result<()> {
//!         for name in loop_devices::names("/srv/images", "", 100)? {
//!             if name.starts_with(&format!("{group}-")) {
//!                 loop_devices::discard(&path(&name))?;
//!             }
//!         }
//!         Ok(())
//!     }
//!     fn find_group(_: &str, _: &mut SnapshotPage) -> Result<()> {
//!         // A call without a request gets its secrets here.
//!         if provisioning::call_secret("key").is_none() {
//!             return Err(Error::permission_denied(format!("no key among {:?}", provisioning::call_secrets())));
//!         }
//!         Ok(())
//!     }
//! }
//!
//! use volhost_plugin_sdk::testing::{TestHost, TestVolumeRequest};
//! let host = TestHost::new();
//! host.grant_images("/srv/images");
//! let made = host.create_volume::<Images>(&TestVolumeRequest::new("a").required(64 << 20))?;
//! assert_eq!((made.id.as_str(), made.capacity), ("a", 64 << 20));
//! host.modify_volume::<Images>("a", &TestVolumeRequest::new("").mutable_parameter("allocation", "full"))?;
//! assert_eq!(host.disk("/srv/images/a").unwrap().reserved, 64 << 20);
//! let snapshots = host.create_group::<Images>("g", &["a"])?;
//! assert_eq!(snapshots[0].group.as_deref(), Some("g"));
//! assert!(host.find_group::<Images>("g").is_err());
//! host.call_secret("key", "open");
//! host.find_group::<Images>("g")?;
//! host.delete_group::<Images>("g")?;
//! assert_eq!(host.list_volumes::<Images>("", 10)?.0, [("a".to_owned(), 64 << 20)]);
//! # Ok::<(), Error>(())
//! ```

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
    /// A request for a volume.
    VolumeRequest
);
handle!(
    /// A provisioned volume, for the plugin to fill in.
    VolumeAnswer
);
handle!(
    /// A page of the provisioned volumes, for the plugin to fill in.
    VolumePage
);
handle!(
    /// A request for a snapshot.
    SnapshotRequest
);
handle!(
    /// A request for snapshots of several volumes at one moment.
    GroupRequest
);
handle!(
    /// A page of the snapshots, for the plugin to fill in.
    SnapshotPage
);

impl VolumeRequest<'_> {
    /// The requested name: the same name means the same volume. Empty where no volume is to be
    /// made.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// It must have at least this many bytes; none: the plugin's own choice.
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

    /// The file system of the volume, if the request names one.
    #[must_use]
    pub fn fs_type(&self) -> Option<String> {
        self.0.fs_type()
    }

    /// Whether the volume is used as a device (`volumeMode: Block`).
    #[must_use]
    pub fn as_device(&self) -> bool {
        self.0.as_device()
    }

    /// The access modes, in Kubernetes' spelling (`ReadWriteOnce`).
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

    /// One of the secrets that came with the request. They belong to this call alone: do not log or
    /// keep them.
    #[must_use]
    pub fn secret(&self, key: &str) -> Option<String> {
        self.0.secret(key)
    }

    /// The keys of those secrets, sorted.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        self.0.secrets()
    }

    /// One of the parameters that can be changed later ([`Modifier`](crate::Modifier)).
    #[must_use]
    pub fn mutable_parameter(&self, key: &str) -> Option<String> {
        self.0.mutable_parameter(key)
    }

    /// The keys of those, sorted.
    #[must_use]
    pub fn mutable_parameters(&self) -> Vec<String> {
        self.0.mutable_parameters()
    }
}

impl VolumeAnswer<'_> {
    /// Sets its handle: the name that every later call uses. 1 to 128 bytes without control
    /// characters.
    pub fn id(&mut self, id: &str) -> &mut Self {
        self.0.id(id);
        self
    }

    /// Sets its size in bytes.
    pub fn capacity(&mut self, bytes: u64) -> &mut Self {
        self.0.capacity(bytes);
        self
    }

    /// Sets a field of `volumeAttributes` that its mounting needs.
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

    /// Reports that there are more, which a call with this token begins with.
    pub fn next(&mut self, token: &str) {
        self.0.next(token);
    }
}

impl SnapshotRequest<'_> {
    /// The requested name: the same name means the same snapshot.
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

    /// One of the secrets that came with the request. They belong to this call alone: do not log or
    /// keep them.
    #[must_use]
    pub fn secret(&self, key: &str) -> Option<String> {
        self.0.secret(key)
    }

    /// The keys of those secrets, sorted.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        self.0.secrets()
    }
}

impl GroupRequest<'_> {
    /// The requested name: the same name means the same group.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// The volumes' handles, each once, sorted.
    #[must_use]
    pub fn volume_ids(&self) -> Vec<String> {
        self.0.volume_ids()
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

    /// One of the secrets that came with the request. They belong to this call alone: do not log or
    /// keep them.
    #[must_use]
    pub fn secret(&self, key: &str) -> Option<String> {
        self.0.secret(key)
    }

    /// The keys of those secrets, sorted.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        self.0.secrets()
    }
}

/// One of the secrets that came with the call, whatever call it is: the way for those that have no
/// request, such as [`Controller::delete`](crate::Controller::delete). The value belongs to this
/// call alone: do not log or keep it.
#[must_use]
pub fn call_secret(key: &str) -> Option<String> {
    backend::provisioning::call_secret(key)
}

/// The keys of those secrets, sorted.
#[must_use]
pub fn call_secrets() -> Vec<String> {
    backend::provisioning::call_secrets()
}

impl SnapshotPage<'_> {
    /// Adds a snapshot: its handle, its volume's, the bytes that a volume made of it needs, and
    /// when it was made, in seconds since 1970.
    pub fn add(&mut self, id: &str, volume_id: &str, bytes: u64, made: u64) {
        self.0.add(id, volume_id, bytes, made);
    }

    /// Reports that there are more, which a call with this token begins with.
    pub fn next(&mut self, token: &str) {
        self.0.next(token);
    }

    /// Declares the snapshot that was added last as one of this group.
    pub fn of_group(&mut self, group_id: &str) {
        self.0.of_group(group_id);
    }
}
