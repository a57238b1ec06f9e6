//! A volume plugin as a CSI driver: the services Identity, Controller, GroupController and Node of
//! CSI v1.12 over one plugin, on a unix socket.
//!
//! ```text
//!  kubelet, sidecars ──gRPC──> node, controller ──check──> in flight ──> record ──> steps ──> plugin, kernel
//!                                                             │ one call a volume, else ABORTED
//! ```
//!
//! The plugin's exports decide what the driver can do. The steps are those of the daemon
//! ([`volhost_volume_ops::steps`]), at the places that the CO names. A record of each volume says
//! what is staged and published where. It is written before the first step, so that a driver that
//! was killed repeats or undoes what it had begun. Which mounts exist, the kernel knows.
//!
//! | module | its job |
//! |---|---|
//! | `driver` | [`ServedPlugin`]: the plugin, the kernel, and what the calls share |
//! | `identity`, `node`, `controller`, `group_controller` | the services: checks, and a thread for each call |
//! | `staging`, `publishing`, `dead`, `figures`, `growth` | the calls to a node |
//! | `volumes`, `snapshots`, `groups`, `node_publishing` | the calls to a controller |
//! | `secrets` | what a request keeps secret, for its own calls |
//! | `catalog` | the volume catalog of a plugin that makes no volumes itself |
//! | `usage`, `source` | a request's capability and context, as the plugin sees them |
//! | `places` | paths of requests as handles (rule R6) |
//! | `records`, `node_records`, `publish_records` | the records on disk |
//! | `in_flight` | one call a volume |
//! | `check`, `refusal` | checks of requests, and the gRPC codes of errors |
//! | `driver_object` | what the CSIDriver object of a cluster has to say |
//! | `registration` | the kubelet's registration, without a sidecar |
//! | `serve` | sockets |
#![forbid(unsafe_code)]

mod catalog;
mod check;
mod controller;
mod dead;
mod driver;
mod driver_object;
mod figures;
mod group_controller;
mod groups;
mod growth;
mod identity;
mod in_flight;
mod node;
mod node_publishing;
mod node_records;
mod places;
mod publish_records;
mod publishing;
mod records;
mod refusal;
mod registration;
mod secrets;
mod serve;
mod snapshots;
mod source;
mod staging;
mod usage;
mod volumes;

pub use driver::{DriverOptions, DriverStartError, ServedPlugin};
pub use serve::{DriverServeError, Sockets, serve};
