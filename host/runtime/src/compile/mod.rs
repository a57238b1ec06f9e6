//! Compilation, in a process of its own.
//!
//! Turning WebAssembly into machine code is the largest piece of work done on untrusted bytes, so
//! the host does not do it: its engine cannot compile. A child of the same program, without any
//! privilege, reads the plugin from its standard input and writes the compiled code to its standard
//! output. A crash, an endless loop or a flood of memory in the compiler ends the child and nothing
//! else.
//!
//! What it does not protect from: a plugin that takes the compiler over can choose the code that
//! comes out, and the host maps and runs that code. The operator's choice of plugin files stays the
//! line of trust; the child only keeps accidents away from the host.

mod child;
mod confine;
mod parallel;
mod parent;
mod syscalls;

pub use child::compile_stdin_to_stdout;
pub use parallel::compilers;
pub use parent::Compiler;
