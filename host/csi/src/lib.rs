//! External CSI drivers: how they register, and how plugins' calls reach them.
//!
//! ```text
//!  registry folder --inotify--> watch --a task a socket--> registration --GetInfo, NodeGetInfo--> CsiDrivers
//!                                                                                                    ^
//!  plugin --grpc.send--> host side of the import --Drivers::call--> one connection a driver ---------'
//! ```
//!
//! The plugin (`plugins/csi`) knows what the calls mean; this crate knows names, sockets and bytes.
#![forbid(unsafe_code)]

mod call;
mod call_observer;
mod connection;
mod driver_stream;
mod health;
mod lasting_answers;
mod node_info;
mod probe;
mod refresh;
mod registration;
mod registry;
mod versions;
mod watch;

#[cfg(test)]
mod tests;

pub use call_observer::CallObserver;
pub use registry::{CsiDrivers, DriverNote, RegistrationSocket};
pub use watch::watch;
