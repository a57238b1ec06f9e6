//! Brings the volumes of one node up and down: attach, stage, publish, map, expand, and their
//! reverse, with the folder layout, the records and the recovery that belong to them.
//!
//! Everything here may block on storage, and runs on worker threads.
//!
//! | module | its job |
//! |---|---|
//! | [`volume_ops`] | one operation, from the folder handle to the plugin and back |
//! | `attaching`, `devices`, `mounting`, `sub_paths`, `block`, `expansion` | what each operation does |
//! | `elsewhere`, `sharers` | which other node, and which other pods, use a volume |
//! | [`layout`], [`layout_version`] | where everything lies below the root folder |
//! | [`records`], [`device_records`], `record_sweep`, [`volume_sizes`] | what is on disk besides the volumes |
//! | [`recovery`], `recovery_devices`, [`orphans`] | what a restart finds |
//! | [`standing`], [`vanished`], [`forced`] | mounts that should exist, that vanished, that were forced away |
//! | [`attachment_metadata`] | what controllers report about attached volumes |
//! | [`sizes`], [`stats`] | how much volumes contain |
//! | [`plugins`], [`events`] | the interfaces to the loaded plugins, and for events |
//! | [`worker_pool`] | threads of one plugin |
#![forbid(unsafe_code)]

mod attaching;
pub mod attachment_metadata;
mod block;
pub mod device_records;
mod devices;
mod elsewhere;
pub mod events;
mod expansion;
pub mod forced;
pub mod layout;
pub mod layout_version;
mod mounting;
pub mod orphans;
pub mod plugins;
mod record_sweep;
pub mod records;
pub mod recovery;
mod recovery_devices;
mod sharers;
pub mod sizes;
pub mod standing;
pub mod stats;
mod sub_paths;
pub mod vanished;
pub mod volume_ops;
pub mod volume_sizes;
pub mod worker_pool;
