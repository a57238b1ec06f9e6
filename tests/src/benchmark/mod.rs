//! What a benchmark measures, as data: the figures of one run, the machine they were taken on, what
//! has changed since the recorded run, and the table of docs/benchmarks.md.

mod comparison;
mod figure;
mod machine;
mod page;
mod run;

pub use comparison::{Change, Comparison};
pub use figure::{Aim, Bare, Better, Figure, Measured, Unit};
pub use machine::Machine;
pub use page::{PageError, replace_table, table};
pub use run::{Run, RunError};
