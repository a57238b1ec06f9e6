//! A volume host: the event loop around [`volhost_core`], and all of its parts put together.
//!
//! | module | its job |
//! |---|---|
//! | [`engine`] | the loop: events in, operations out, views and waiters |
//! | [`provision`] | volumes for claims: from the provisioner's commands to plugins' calls |
//! | [`node`] | all of it put together; what a program that embeds volhost starts |
#![forbid(unsafe_code)]

pub mod engine;
pub mod node;
pub mod provision;
mod root_place;
