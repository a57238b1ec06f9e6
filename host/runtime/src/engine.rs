//! The engine: one configuration, shared by the host, which only runs code, and its compiler child, which only makes it.

use std::hash::{DefaultHasher, Hash, Hasher};

use wasmtime::{Config, Engine};

/// Address space reserved for a plugin's memory, in bytes: the whole of what it may use, so that it never moves.
const MEMORY_RESERVATION: u64 = 64 << 20;
/// Guard beyond it, in bytes. Small on purpose: plugins compute little, explicit bounds checks are fine, and the host stays small.
const MEMORY_GUARD: u64 = 64 << 10;
/// A plugin's own stack, in bytes. It runs on the calling thread's, which has at least 2 MiB.
const WASM_STACK: usize = 512 << 10;

/// What both sides must agree on. Everything that a volume plugin does not need is off: each feature has had its advisories.
fn config() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .concurrency_support(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false)
        .wasm_tail_call(false)
        .memory_reservation(MEMORY_RESERVATION)
        .memory_guard_size(MEMORY_GUARD)
        .memory_reservation_for_growth(0)
        .max_wasm_stack(WASM_STACK);
    config
}

/// The engine of the host: it cannot compile.
pub(crate) fn running() -> wasmtime::Result<Engine> {
    Engine::new(config().enable_compiler(false))
}

/// The engine of the compiler child.
pub(crate) fn compiling() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

/// Names the compiler, its version and its settings: compiled code of another name is not ours to run.
pub(crate) fn compatibility() -> wasmtime::Result<String> {
    let engine = compiling()?;
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
