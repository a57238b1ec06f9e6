//! A volume plugin as a CSI driver: the services Identity, Controller, GroupController and Node of CSI v1.12 over one plugin, on a unix socket.
//!
//! ```text
//!  kubelet, sidecars --gRPC--> node, controller ──check──► in flight ──► record ──► plugin in its sandbox ──► kernel
//!                                                             │ one call a volume, else ABORTED
//! ```
//!
//! What the plugin exports decides what the driver can do; the calls are made as the daemon makes them, with handles for the places that
//! the CO names. Of each volume a record says what was staged and published where. It is written before anything is done and again
//! afterwards, so that a driver that was killed repeats or takes back what it had begun; whether a mount stands, the kernel says.
//!
//! | module | holds |
//! |---|---|
//! | `driver` | [`Driver`]: the plugin, the kernel, and what the calls share |
//! | `identity`, `node`, `controller`, `group_controller` | the services: checks, and a thread for each call |
//! | `staging`, `publishing`, `figures`, `growth` | what a node does |
//! | `volumes`, `snapshots`, `groups`, `publications` | what a controller does |
//! | `secrets` | what a request keeps secret, for its own calls |
//! | `ledger` | the volumes of a plugin that makes none itself |
//! | `usage`, `source` | a request's capability and context, as the plugin sees them |
//! | `places` | paths of requests as handles (rule R6) |
//! | `records` | what is remembered on disk |
//! | `in_flight` | one call a volume |
//! | `check`, `refusal` | what is wrong with a request, and the code that says so |
//! | `registration` | the kubelet's registration, without a sidecar |
//! | `serve` | sockets |
#![forbid(unsafe_code)]

mod check;
mod controller;
mod dead;
mod driver;
mod figures;
mod group_controller;
mod groups;
mod growth;
mod identity;
mod in_flight;
mod ledger;
mod node;
mod places;
mod publications;
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

pub use driver::{Driver, Options, StartError};
pub use serve::{Endpoint, EndpointError, ServeError, Sockets, serve};
