//! Plugins that the machine compiles for the guest, which takes a hundred times longer for it.
//!
//! The guest's processor has nothing beyond x86-64, which is what the compiler generates code for when
//! it is told a target and no features. The code then has the same name in the cache of a daemon in
//! the guest as if the guest had compiled it. A daemon takes what it finds there and checks its digest;
//! what it does not find, it compiles.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wasmtime::Engine;

/// The settings that volhost compiles with.
#[expect(dead_code, reason = "the tests run no code with it")]
#[path = "../../../host/runtime/src/engine.rs"]
mod engine;
/// What the engine's settings refer to.
mod limits {
    pub(super) use volhost_runtime::{Limits, MOST_MEMORY_BYTES};
}

/// The processor that code is made for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Compiles these plugins, and writes them to a new folder as a daemon's cache has them.
///
/// # Panics
/// When a plugin cannot be compiled, or the folder not be written.
pub(super) fn write(folder: &Path, plugins: &[PathBuf]) {
    fs::create_dir_all(folder).expect("a folder");
    let mut config = engine::config();
    config.target(TARGET).expect("a target of the compiler");
    let compiler = Engine::new(&config).expect("a compiler");
    let name = engine::name(&compiler);
    for plugin in plugins {
        let wasm = fs::read(plugin).expect("the plugin can be read");
        let code = compiler.precompile_component(&wasm).expect("the plugin can be compiled");
        let stem = folder.join(format!("{}-{name}", digest(&wasm)));
        let note = serde_json::json!({ "code": digest(&code), "file": plugin, "sdk": null });
        fs::write(stem.with_extension("json"), note.to_string()).expect("the note is written");
        fs::write(stem.with_extension("cwasm"), code).expect("the code is written");
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
