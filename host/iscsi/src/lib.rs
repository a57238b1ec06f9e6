//! Sessions with iSCSI targets: made and ended by the node's own initiator (open-iscsi), and looked
//! up in sysfs.
//!
//! ```text
//!  plugin --host call--> OpenIscsi --iscsiadm--> iscsid --netlink--> kernel
//!                            |                                         |
//!                            '-- sessions, units, sizes <-- sysfs <----'
//! ```
//!
//! iscsid logs in again when a connection breaks, whether or not a daemon of volhost runs then; the
//! kernel needs a program for that. So volhost speaks no netlink itself. What exists is read from
//! sysfs alone: nothing has to be remembered over a restart.
//!
//! | module | contents |
//! |---|---|
//! | `sessions` | [`OpenIscsi`]: the steps |
//! | `login` | one session: probed, recorded, logged in, and how it ends |
//! | `sysfs` | sessions, as the kernel has them |
//! | `records` | open-iscsi's records of portals, where passwords go |
//! | `tool` | runs of `iscsiadm` |
//! | `places` | where these are on this machine |
//! | `error` | the failures of a portal, and which one counts |
#![forbid(unsafe_code)]

mod error;
mod login;
mod places;
mod records;
mod sessions;
mod sysfs;
#[cfg(test)]
mod tests;
mod tool;

pub use places::Places;
pub use sessions::OpenIscsi;
