//! Turns plugin crates into `.wasm` components that volhost loads.
//!
//! Four steps, a module each (encoding also gives the module a reserve of memory, `reserve`):
//!
//! ```text
//!  workspace            toolchain              build                encode          publish
//!  which crates, where  a rustc that knows     cargo: core module   core module     component into
//!  cargo puts things    the wasm target        per crate            -> component    the plugin folder
//! ```
//!
//! [`build_plugins`] does them all; the modules are public for tools that need one step.
//!
//! The components of crates that a workspace ships with its host are listed by their digests:
//! [`shipped`].
//!
//! [`foreign`] makes components of the modules of other languages' compilers.
//!
//! A plugin is compiled for [`TARGET`], which has Rust's standard library but no WASI, so that the
//! component imports what the volhost contract offers and nothing else.
#![forbid(unsafe_code)]

pub mod build;
pub mod encode;
mod environment;
pub mod foreign;
mod plugins;
pub mod publish;
mod reserve;
pub mod shipped;
pub mod toolchain;
pub mod workspace;

pub use plugins::{Error, Plugin, Request, build_plugins};
pub use reserve::ReserveError;

/// The compilation target of every plugin: std without WASI.
pub const TARGET: &str = "wasm32-unknown-unknown";
