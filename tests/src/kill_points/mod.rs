//! A process that is killed at a chosen system call.
//!
//! A crash leaves behind only the effects of system calls. Between two calls that change something,
//! the instruction at which a process dies makes no difference. So a kill before each of them, and
//! one after the last, covers every possible crash. The daemon under test is the one that users
//! run: it is followed with `ptrace(2)` and has no code for this.

mod call;
mod counted;
mod memory;
mod tracer;

pub use call::Call;
pub use tracer::{KillPoint, KilledProcess, Trace, TracedExit};
