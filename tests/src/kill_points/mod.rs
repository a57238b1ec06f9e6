//! A process that is killed at a chosen system call.
//!
//! All that a crash can leave behind is what system calls have made: between two of them that change something, a process may die
//! at any instruction and nobody could tell at which. So a death before each of them, and one after the last, is every death
//! there is. The daemon under test is the one that users run: it is followed with `ptrace(2)` and holds no code for this.

mod call;
mod memory;
mod tracer;

pub use call::Call;
pub use tracer::{Death, Followed, Following, Who};
