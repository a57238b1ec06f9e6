//! Units of Fibre Channel targets: looked for, and removed, through the node's host adapters.
//!
//! ```text
//!  plugin --host call--> HostAdapters --scan, delete--> kernel --fabric--> target
//!                            |                             |
//!                            '-- ports, units, devices <-- sysfs
//! ```
//!
//! The kernel's drivers log in to every port that the fabric shows, and most look for units by
//! themselves: there is no session to make or to end. What exists is read from sysfs alone: nothing
//! has to be remembered over a restart.
//!
//! | module | contents |
//! |---|---|
//! | `adapters` | [`HostAdapters`]: the steps |
//! | `fabric` | adapters and the ports that they see, as the kernel has them |
//! | `places` | where these are on this machine |
#![forbid(unsafe_code)]

mod adapters;
mod fabric;
mod places;
#[cfg(test)]
mod tests;

pub use adapters::HostAdapters;
pub use places::Places;
