//! One call in one sandbox: a fresh store, its limits, the call, and what its end means. Only the
//! place of a sandbox is used again, put back to its first state: nothing that a call wrote is
//! there for the next.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tracing::Span;
use volhost_kernel::Kernel;
use wasmtime::component::{Instance, ResourceTableError};
use wasmtime::{Engine, Store, Trap, UpdateDeadline};

use crate::abort::Abort;
use crate::call::Call;
use crate::call_error::{CallError, Function};
use crate::exports::Exports;
use crate::grants::Reach;
use crate::host::{State, handle_error};
use crate::limits::Limits;
use crate::redaction::Redact;
use crate::ticker::{TICK, Ticker};
use crate::trace;
use crate::wasi::is_exit;

/// The parts of a sandbox that all calls share.
#[derive(Debug)]
pub(crate) struct SandboxShared {
    pub(crate) engine: Engine,
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) limits: Limits,
    pub(crate) ticker: Ticker,
    /// What the WASI functions of a plugin that imports WASI run on: see [`crate::wasi::executor`].
    pub(crate) executor: Handle,
}

/// A plugin in a fresh sandbox, ready for one call.
pub(crate) struct Sandbox<'a> {
    shared: &'a SandboxShared,
    function: Function,
    /// The call in the operation's trace, its start included.
    span: Span,
    /// For a plugin that imports WASI: what its WASI functions run on.
    executor: Option<&'a Handle>,
    store: Store<State>,
    instance: Instance,
}

impl SandboxShared {
    /// A fresh sandbox for one call of `function`.
    pub(crate) fn sandbox(
        &self,
        plugin: &Exports,
        function: Function,
        call: &Call,
        reach: &Arc<Reach>,
    ) -> Result<Sandbox<'_>, CallError> {
        let mut call = call.clone();
        let asked = matches!(function, Function::Describe | Function::Identify).then_some(function);
        // What is asked while others wait for the answer keeps its own, short time.
        if let Some(time) = reach.call_time.filter(|_| asked.is_none()) {
            call = call.with_plugin_time(time);
        }
        let plugin_time = call.plugin_time();
        let mut state = State::new(Arc::clone(&self.kernel), &self.limits, call, Arc::clone(reach));
        state.asked = asked;
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.meter);
        store.set_hostcall_fuel(self.limits.transfer_bytes);
        store.set_epoch_deadline(ticks(plugin_time));
        store.epoch_deadline_callback(|store| {
            let state = store.data();
            if state.call.cancellation().is_cancelled() {
                return Err(Abort::Cancelled.into());
            }
            match state.call.plugin_time().checked_sub(state.plugin_time()) {
                // The rest of the time was spent in host calls, or the clock ticked early.
                Some(left) if !left.is_zero() => Ok(UpdateDeadline::Continue(ticks(left))),
                _ => Err(Abort::Deadline.into()),
            }
        });
        let span = trace::call(function);
        // A start function is the plugin's code already.
        let running = self.ticker.run();
        store.data_mut().begin();
        let executor = plugin.imports_wasi.then_some(&self.executor);
        let entered = executor.map(Handle::enter);
        let made = span.in_scope(|| plugin.pre.instantiate(&mut store));
        drop(entered);
        drop(running);
        match made {
            Ok(instance) => Ok(Sandbox { shared: self, function, span, executor, store, instance }),
            Err(error) if caused_by_plugin(&error) => {
                store.data_mut().log_output(true);
                Err(self.judge(function, &store, &error))
            }
            Err(error) => Err(CallError::Sandbox { reason: format!("{error:#}") }),
        }
    }

    /// Turns the end of a sandbox into what it means.
    fn judge(&self, function: Function, store: &Store<State>, error: &wasmtime::Error) -> CallError {
        let state = store.data();
        let changed = state.changed;
        if let Some(abort) = error.downcast_ref::<Abort>() {
            return match abort.clone() {
                Abort::Deadline => {
                    CallError::Deadline { function, seconds: state.call.plugin_time().as_secs_f64(), changed }
                }
                Abort::Cancelled => CallError::Cancelled { function, changed },
                ended @ Abort::Ended => CallError::Trap {
                    function,
                    reason: ended.to_string(),
                    last_words: state.last_words.clone(),
                    changed,
                },
                Abort::Limit { what } => CallError::LimitExceeded { function, what, changed },
                Abort::Contract { what } => CallError::BrokeContract { function, what, changed },
            };
        }
        if is_exit(error) {
            return CallError::BrokeContract { function, what: state.exit(), changed };
        }
        if let Some(error) = error.downcast_ref::<ResourceTableError>() {
            return self.judge(function, store, &handle_error(error).into());
        }
        if let Some(trap) = error.downcast_ref::<Trap>() {
            return CallError::Trap {
                function,
                reason: trap.to_string(),
                last_words: state.last_words.clone(),
                changed,
            };
        }
        let reason = format!("{error:#}");
        // wasmtime keeps the type of this error to itself.
        if reason.contains("fuel allocated for hostcalls") {
            return CallError::OversizedAnswer { function, limit: self.limits.transfer_bytes, changed };
        }
        CallError::BrokeContract { function, what: reason, changed }
    }
}

impl Sandbox<'_> {
    /// The state, to put the call's arguments into.
    pub(crate) fn state(&mut self) -> &mut State {
        self.store.data_mut()
    }

    /// Finds functions of the instance before the call.
    pub(crate) fn load<G>(
        &mut self,
        load: impl FnOnce(&mut Store<State>, &Instance) -> wasmtime::Result<G>,
    ) -> Result<G, CallError> {
        load(&mut self.store, &self.instance).map_err(|error| CallError::Sandbox { reason: format!("{error:#}") })
    }

    /// Makes the call. The sandbox is used up; its state, with what the plugin filled in, is
    /// returned. What an error says is free of the secrets that the call has used.
    pub(crate) fn call<T: Redact>(
        mut self,
        call: impl FnOnce(&mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<(T, State), CallError> {
        let running = self.shared.ticker.run();
        self.store.set_epoch_deadline(ticks(self.store.data().call.plugin_time()));
        self.store.data_mut().begin();
        let entered = self.executor.map(Handle::enter);
        let result = self.span.in_scope(|| call(&mut self.store));
        drop(entered);
        drop(running);
        self.store.data_mut().end();
        match result {
            Ok(value) => {
                let state = self.store.into_data();
                Ok((value.without(&state.secrets), state))
            }
            Err(error) => Err(self.shared.judge(self.function, &self.store, &error)),
        }
    }
}

/// Returns whether the plugin's own doing ended its start, and not the host's lack of something.
fn caused_by_plugin(error: &wasmtime::Error) -> bool {
    error.is::<Abort>() || error.is::<Trap>() || error.is::<ResourceTableError>() || is_exit(error)
}

/// Time in ticks of the clock until a running call is looked at: rounded up, so that a plugin gets
/// all of its time, and no longer than
/// [`LOOK`], so that a call that is cancelled meanwhile ends.
fn ticks(time: Duration) -> u64 {
    let ticks = time.min(LOOK).as_millis().div_ceil(TICK.as_millis()).saturating_add(1);
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// How long a plugin's own code runs at most before the host looks whether the call was cancelled.
const LOOK: Duration = Duration::from_millis(100);
