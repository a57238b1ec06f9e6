//! CSI drivers that run beside volhost: how they register, and how plugins' calls reach them.
//!
//! ```text
//!  registry folder --inotify--> watch --a task a socket--> registration --GetInfo, NodeGetInfo--> CsiDrivers
//!                                                                                                    ^
//!  plugin --grpc.send--> host side of the import --Drivers::call--> one connection a driver ---------'
//! ```
//!
//! What the calls mean is the plugin's knowledge (`plugins/csi`): here are names, sockets and bytes.
#![forbid(unsafe_code)]

mod about_node;
mod connection;
mod health;
mod refresh;
mod registration;
mod registry;
mod versions;
mod watch;

#[cfg(test)]
mod tests;

pub use registry::{CsiDrivers, DriverNote};
pub use watch::watch;
