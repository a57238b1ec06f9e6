//! Figures of passing tests: the test harness keeps the output of a test that passes to itself.

use std::io::Write;

/// Writes a line that is seen in the output of the test program, whether the test passes or not.
pub fn show(figure: &str) {
    // Not `eprintln!`, which the harness captures. A figure that is not seen fails no test.
    let _ = std::io::stderr().lock().write_all(format!("figure: {figure}\n").as_bytes());
}
