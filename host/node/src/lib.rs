//! A node volume host: the event loop around [`volhost_core`], with all parts.
//!
//! | module | its job |
//! |---|---|
//! | [`event_loop`] | the event loop: inputs in, operations out, views and waiters |
//! | `provision` | volumes for claims: from the provisioner's commands to plugins' calls |
//! | [`node`] | the whole node, for a program that embeds volhost |
#![forbid(unsafe_code)]

pub mod event_loop;
pub mod node;
mod provision;
mod root_place;
