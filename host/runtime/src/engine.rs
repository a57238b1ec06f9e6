//! The engine: one configuration, shared by the host, which only runs code, and its compiler child,
//! which only makes it.

use std::hash::{DefaultHasher, Hash, Hasher};

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::limits::{Limits, MOST_MEMORY_BYTES};

/// Address space reserved for a plugin's memory, in bytes: the most that a grant can allow, so that
/// it never moves.
const MEMORY_RESERVATION: u64 = MOST_MEMORY_BYTES as u64;
/// Guard beyond it, in bytes. Small on purpose: plugins compute little, explicit bounds checks are
/// fine, and the host stays small.
const MEMORY_GUARD: u64 = 64 << 10;
/// A plugin's own stack, in bytes. It runs on the calling thread's, which has at least 2 MiB.
const WASM_STACK: usize = 512 << 10;

/// Memory that wasmtime itself keeps for one instance, in bytes: far more than any plugin's imports
/// and tables need.
const MAX_INSTANCE_BYTES: usize = 4 << 20;
/// Sandboxes that can exist at once, of all plugins together: sixteen plugins, each with as many
/// hung operations as may run by default. A call that finds no place left fails before it begins,
/// and is tried again. Address space, not memory.
const SANDBOXES: u32 = 1024;
/// Core instances and tables of a component: one of its own, two small ones that its canonical
/// functions need, and some more in languages with a runtime.
const PARTS: u32 = 8;
/// The pages of a memory that were written are put back to what they were at the start, up to this
/// many bytes, and stay in place for the next sandbox: it then starts without a page fault. Beyond
/// it they are given back to the kernel.
const KEPT_MEMORY: usize = 256 << 10;
/// Likewise for a table.
const KEPT_TABLE: usize = 16 << 10;
/// Unused places that keep their pages. They cost at most this many times [`KEPT_MEMORY`].
const KEPT_PLACES: u32 = 16;

/// Where sandboxes live: places made once and used again, each put back to its first state in
/// between. Making and discarding a mapping for each call costs more than the call.
fn places() -> InstanceAllocationStrategy {
    let limits = Limits::default();
    let mut places = PoolingAllocationConfig::new();
    places
        .total_component_instances(SANDBOXES)
        .total_core_instances(SANDBOXES * PARTS)
        .total_memories(SANDBOXES)
        .total_tables(SANDBOXES * PARTS)
        // wasmtime-wasi turns on wasmtime's `async`, whose stacks no call of ours uses: they would cost
        // 2 GiB of address space in 2,000 mappings.
        .total_stacks(0)
        .max_memory_size(MOST_MEMORY_BYTES)
        .table_elements(limits.table_elements)
        .max_component_instance_size(MAX_INSTANCE_BYTES)
        .max_core_instance_size(MAX_INSTANCE_BYTES)
        .max_unused_warm_slots(KEPT_PLACES)
        .linear_memory_keep_resident(KEPT_MEMORY)
        .table_keep_resident(KEPT_TABLE)
        // Only what was written is put back, where the kernel can find it (6.7 on).
        .pagemap_scan(Enabled::Auto);
    InstanceAllocationStrategy::Pooling(places)
}

/// The configuration that both sides must agree on. Everything that a volume plugin does not need
/// is off: each feature has had its advisories.
pub(crate) fn config() -> Config {
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
    Engine::new(config().enable_compiler(false).allocation_strategy(places()))
}

/// The engine of the compiler child.
pub(crate) fn compiling() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

/// Names the compiler of this host, its version and its settings: compiled code of another name is
/// not ours to run.
pub(crate) fn compatibility() -> wasmtime::Result<String> {
    Ok(name(&compiling()?))
}

/// Names an engine that compiles.
pub(crate) fn name(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
