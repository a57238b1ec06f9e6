//! Whoever runs a call may watch its host calls, and decide what becomes of each: that is how a plugin is tested against failures that
//! a healthy machine does not have.

use std::fmt::Debug;

use volhost_kernel::Errno;

/// What becomes of a host call, decided before the host begins it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostCallVerdict {
    /// It is carried out.
    Proceed,
    /// It is not carried out, and fails as if the kernel had said this.
    Fail(Errno),
    /// It is not carried out, and the sandbox ends here, as by a crash of the plugin.
    End,
}

/// Watches the host calls of calls. Only host calls that do something are told: a getter that answers from memory is none.
pub trait HostCalls: Send + Sync + Debug {
    /// A host call is about to begin. `call` is its name in the contract (`mount-target.attach`), for some with a path after a blank;
    /// `changes` says whether it may change something on the node. Called on the thread that runs the call.
    fn begins(&self, call: &str, changes: bool) -> HostCallVerdict;
}
