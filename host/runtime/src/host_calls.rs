//! A caller may watch the host calls of a call and decide what becomes of each: that is how a
//! plugin is tested against failures that a healthy machine does not have.

use std::fmt::Debug;

use volhost_kernel::Errno;

/// The fate of a host call, decided before the host begins it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostCallVerdict {
    /// The host executes it.
    Proceed,
    /// The host does not execute it; it fails with this errno of the kernel.
    Fail(Errno),
    /// The host does not execute it, and the sandbox ends here, as by a crash of the plugin.
    End,
}

/// Watches the host calls of calls. Only host calls that do something are reported: a getter that
/// answers from memory is not.
pub trait HostCalls: Send + Sync + Debug {
    /// A host call is about to begin. `call` is its name in the contract (`mount-target.attach`),
    /// for some with a path after a blank; `changes` says whether it may change something on the
    /// node. Called on the thread that runs the call.
    fn begins(&self, call: &str, changes: bool) -> HostCallVerdict;
}
