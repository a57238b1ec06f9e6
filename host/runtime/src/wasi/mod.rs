//! WASI 0.2 on an empty machine, for plugins whose language imports it.
//!
//! A language's runtime imports WASI whether or not the plugin uses it. `wasmtime_wasi` serves
//! these imports from a context that has nothing. They are linked only for a component that imports
//! WASI, and the context is made at the first WASI call of a sandbox.
//!
//! | what | what the plugin finds |
//! |---|---|
//! | arguments, environment, open folders, terminals | none |
//! | sockets | access denied |
//! | name lookups | a failure of the resolver |
//! | HTTP | the call ends: [`link`] |
//! | standard input | at its end |
//! | standard output, standard error | lines in the call's log, within its bounds: [`output`] |
//! | `exit` | the call ends |
//! | clocks | a clock of the call's own, in which sleeping takes no time: [`clock`] |
//! | `random` | a generator that the kernel seeds for each call; at most 64 KiB at once |
//! | `insecure`, `insecure-seed` | the same numbers in every call |
//! | a handle | an entry of the call's table of handles, and so bounded |
//!
//! The time of a WASI call counts as the plugin's own, which bounds it: none of them waits.

mod clock;
mod link;
mod output;

pub(crate) use link::{is_served, link};
pub(crate) use output::Source;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::runtime::{Builder, Handle};
use wasmtime_wasi::{I32Exit, WasiCtx, WasiCtxView, WasiView};

use crate::host::State;
use clock::CallClock;
use output::Stream;

/// Random bytes that a plugin gets at once, at most: more than a language's runtime asks for.
const MAX_RANDOM_BYTES: u64 = 64 << 10;
/// The seed of the random numbers that are the same in every call.
const INSECURE_SEED: u64 = 0;

/// The WASI state of one call.
pub(crate) struct Wasi {
    context: WasiCtx,
    clock: CallClock,
    output: Stream,
    errors: Stream,
}

impl Default for Wasi {
    fn default() -> Self {
        let (clock, output, errors) = (CallClock::default(), Stream::default(), Stream::default());
        let context = WasiCtx::builder()
            .stdout(output.clone())
            .stderr(errors.clone())
            .wall_clock(clock.clone())
            .insecure_random(StdRng::seed_from_u64(INSECURE_SEED))
            .insecure_random_seed(u128::from(INSECURE_SEED))
            .max_random_size(MAX_RANDOM_BYTES)
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .build();
        Self { context, clock, output, errors }
    }
}

impl std::fmt::Debug for Wasi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wasi").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Wasi {
    /// Takes the lines that the plugin has completed, and with `at_end` the unfinished ones too.
    pub(crate) fn take_lines(&self, at_end: bool) -> impl Iterator<Item = (Source, String)> {
        [(Source::Output, &self.output), (Source::Errors, &self.errors)]
            .into_iter()
            .flat_map(move |(source, stream)| stream.take_lines(at_end).into_iter().map(move |line| (source, line)))
    }
}

impl WasiView for State {
    /// Called at the beginning of each WASI call.
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.log_output(false);
        WasiCtxView { ctx: &mut self.wasi.get_or_insert_default().context, table: &mut self.table }
    }
}

/// Returns whether the plugin ended itself through WASI.
pub(crate) fn is_exit(error: &wasmtime::Error) -> bool {
    error.is::<I32Exit>()
}

/// Creates the tokio handle that WASI functions run on: without a thread, a timer or a driver.
///
/// `wasmtime_wasi` writes its blocking functions as futures, and runs them on the tokio runtime
/// that the thread has entered. Without one it starts a runtime with a thread for each processor.
/// The futures of an empty machine need no runtime, so this one is shut down: nothing can be
/// spawned on it.
///
/// # Errors
/// tokio's, which has none to report for a runtime without drivers.
pub(crate) fn executor() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().build()?;
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    Ok(handle)
}
