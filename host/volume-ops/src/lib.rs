//! Brings the volumes of one node up and down: attach, stage, publish, map, expand, and their
//! reverse, with the folder layout, the records and the recovery that belong to them.
//!
//! Two levels. The [`steps`] are what every host of a plugin does with one volume: the daemon, the
//! CSI driver and the conformance suite run the same code, at the [`places`] that each names. The
//! [`volume_ops`] are the daemon's operations: steps, with records, recovery and users' messages.
//!
//! All of it may block on storage, and runs on worker threads.
//!
//! | module | its job |
//! |---|---|
//! | [`steps`] | one step of one volume: call the plugin, check the target |
//! | [`places`], [`other_users`] | where a volume is staged and published, and who else uses it |
//! | [`layout`], [`layout_version`], [`node_folders`] | the paths below the root folder, and their handles |
//! | [`device_folders`], `device_names` | where volumes that are devices are |
//! | [`volume_ops`] | executes one operation |
//! | `attaching`, `other_node`, `staging`, `publishing`, `sub_paths`, `block_mapping`, `expansion` | the parts of operations |
//! | `plugin_calls`, [`plugins`] | which plugin runs them |
//! | `records`, `mount_records`, `pod_records`, `volume_records`, `device_record`, `device_records`, `record_cleanup`, `volume_sizes` | what is on disk besides the volumes |
//! | [`recovery`], `recovered`, `recovery_devices`, `kubelet_devices`, [`orphans`] | what a restart finds |
//! | [`volume_data`] | which volume a CSI driver's mount is, by the file beside it |
//! | `found_modes` | whether a volume without a record is a file system or a device |
//! | [`expected_mounts`], [`forced`] | mounts that should exist, that vanished, that are unmounted by force |
//! | `attachment_metadata` | what controllers report about attached volumes |
//! | [`sizes`], `size_watch`, [`stats`] | how full volumes are |
//! | [`parallel`] | the same work on many items at the start |
//! | `findings`, `failures` | what operations find out, and why they fail |
//! | [`events`] | the interface for events |
//! | [`worker_pool`] | threads of one plugin |
#![forbid(unsafe_code)]

mod attaching;
mod attachment_metadata;
mod block_mapping;
pub mod device_folders;
mod device_names;
mod device_record;
mod device_records;
pub mod events;
mod expansion;
pub mod expected_mounts;
mod failures;
mod findings;
pub mod forced;
mod found_modes;
mod kept_open;
mod kubelet_devices;
pub mod layout;
pub mod layout_version;
mod mount_records;
pub mod node_folders;
pub mod orphans;
mod other_node;
pub mod other_users;
pub mod parallel;
pub mod places;
mod plugin_calls;
pub mod plugins;
mod pod_folders;
mod pod_records;
mod publishing;
mod record_cleanup;
mod records;
mod recovered;
pub mod recovery;
mod recovery_devices;
mod size_watch;
pub mod sizes;
mod staging;
pub mod stats;
pub mod steps;
mod sub_paths;
pub mod volume_data;
pub mod volume_ops;
mod volume_records;
mod volume_sizes;
pub mod worker_pool;
