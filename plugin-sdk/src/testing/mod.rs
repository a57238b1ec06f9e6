//! A double of the host, for a plugin's native tests.
//!
//! [`TestHost`] is a node in memory: the plugin's calls change it as the real host would change the
//! machine. A test then asserts what a user would notice: mounts, their options, log lines and
//! events. It needs no privilege, no file and no clock.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::testing::TestHost;
//!
//! let host = TestHost::new();
//! host.grant("/srv").directory("/srv/data");
//!
//! let mount = host_paths::open("/srv/data")?.bind(false)?;
//! mount.set_options(&["ro"], true)?;
//! host.target("data").handle().attach(mount)?;
//!
//! let mount = host.target("data").mount().expect("attached");
//! assert_eq!(mount.source.as_deref(), Some("/srv/data"));
//! assert!(mount.is_read_only());
//! assert_eq!(host.detached_mounts(), 0, "nothing was leaked");
//! # Ok::<(), Error>(())
//! ```
//!
//! The calls that can be made to fail, and that [`TestHost::calls`] lists, have the contract's
//! names: see [`CALLS`].
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::testing::{CALLS, TestHost};
//!
//! // Faults: the next call fails, or every one. `calls` lists the plugin's calls by the contract's names.
//! let host = TestHost::new();
//! assert!(CALLS.contains(&"tmpfs.create"));
//! host.fail("tmpfs.create", Error::other("ENOMEM", "no memory"));
//! assert!(Tmpfs::new().create().is_err());
//! assert!(Tmpfs::new().create().is_ok());
//! host.fail_always("attach", Error::busy("in use"));
//! assert!(host.target("data").handle().attach(Tmpfs::new().create()?).is_err());
//! assert_eq!(host.calls(), ["tmpfs.create", "tmpfs.create", "tmpfs.create", "attach"]);
//! assert!(host.target("data").is_absent() && host.detached_mounts() == 0);
//! # Ok::<(), Error>(())
//! ```

mod clients;
mod devices;
pub(crate) mod double;
mod drivers;
mod fabric;
pub(crate) mod files;
mod flex;
pub(crate) mod grpc;
mod host;
mod host_devices;
mod identity;
mod images;
mod layers;
mod mount;
mod objects;
mod pod;
pub(crate) mod provisioning;
pub(crate) mod provisioning_calls;
mod servers;
mod share_files;
mod shares;
mod target;
mod targets;
mod tree;
mod volume;
mod world;

pub use clients::{TestEvent, TestLine};
pub use devices::{TestAttachment, TestDisk};
pub use drivers::TestDriver;
pub use files::{TestFile, TestPayload};
pub use flex::{TestReply, TestRun};
pub use grpc::TestCall;
pub use host::TestHost;
pub use identity::{TestDescription, TestIdentity, TestMeasurement};
pub use mount::TestMount;
pub use pod::TestPod;
pub use provisioning::{TestMadeVolume, TestPage, TestSnapshot, TestVolumeRequest};
pub use target::{TestFolder, TestTarget};
pub use volume::TestVolume;
pub use world::CALLS;
