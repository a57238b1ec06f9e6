//! What a benchmark measures, as data: the figures of one run, the machine they were taken on, what
//! has changed since the recorded run, the table of docs/benchmarks.md, and the summary of a profile.

mod comparison;
mod figure;
mod machine;
mod page;
mod run;
mod stacks;

pub use comparison::{Change, Comparison};
pub use figure::{Aim, Bare, Better, Figure, Measured, Unit, number};
pub use machine::Machine;
pub use page::{PageError, replace_table, table};
pub use run::{Run, RunError};
pub use stacks::Stacks;
