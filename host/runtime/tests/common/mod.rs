//! What the runtime's tests share: guests written in WebAssembly text, and a host in memory to load them.
#![allow(dead_code, unreachable_pub, reason = "a module of several test files, each of which uses its own part")]

pub mod blake2b;
pub mod guest;
pub mod host;
