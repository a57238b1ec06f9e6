//! FUSE servers: programs that serve file systems for plugins.
//!
//! ```text
//!  detached mount ──> record ──> launcher ──> record with its process ──> launch written ──> serves
//!                                   │ (volhost ends before that: the launcher ends, too)        │
//!                                   └── drops its privileges, becomes the server                ├─ unmounted everywhere: it ends, or is ended
//!                                                                                               └─ it ends by itself: reported
//! ```
//!
//! A server gets the connection to its mount as a descriptor, and no right to mount. It outlives
//! the process that started it, and the next one adopts it from its record. It is identified by a
//! process descriptor, never by a number alone, which another process may have by then.
//!
//! | module | contents |
//! |---|---|
//! | `servers` | [`FuseServerProcesses`]: the servers of a node, their adoption and their end |
//! | `start` | starting one, until it serves |
//! | `server` | one server that runs: its end, and the last of its output |
//! | `record` | the record of a server on disk |
//! | `secret` | files in memory |
#![forbid(unsafe_code)]

mod record;
mod secret;
mod server;
mod servers;
mod start;

pub use servers::{EndedServer, FuseServerProcesses};
