//! What the runtime's tests share: guests written in WebAssembly text, and a host in memory to load
//! them.
#![allow(dead_code, unreachable_pub, reason = "the daemon's tests include `guest`, too, and use the rest")]

pub mod blake2b;
pub mod guest;
pub mod host;
