//! The node volume host: sources of pods, the engine that carries out what the state machine decides, the API and the command line.
//!
//! | module | its job |
//! |---|---|
//! | [`engine`] | the loop around [`volhost_core`]: events in, operations out, views and waiters |
//! | [`plugins`] | the plugin folder: load, replace, retire; which plugin serves which source |
//! | [`hardening`] | what the daemon gives up before it begins |
//! | [`manifest`] | the manifest folder as a source of pods and the objects they refer to |
//! | [`populate`] | pods and objects to resolved volumes |
//! | [`api`] | the gRPC API on the unix socket |
//! | `cli`, in the binary | the command line |
//! | [`csi`] | CSI drivers: registration, connections |
//! | [`drivers`] | the table of drivers outside that plugins drive |
//! | [`config`] | options from flags, environment and file |
//! | [`metrics`] | figures for Prometheus |
//! | [`node`] | all of it put together; what a program that embeds volhost starts |
//! | [`run`] | `volhost run`: the daemon from its options to its end |
//! | [`stats`] | how full volumes are, asked on threads that may hang |
//! | [`telemetry`] | the log, and traces |
#![forbid(unsafe_code)]

pub mod api;
pub mod config;
pub mod csi;
pub mod drivers;
pub mod engine;
pub mod hardening;
pub mod manifest;
pub mod metrics;
pub mod node;
pub mod objects;
pub mod plugins;
pub mod populate;
pub mod provision;
mod root_place;
pub mod run;
pub mod stats;
pub mod telemetry;
