//! What becomes of a run: the table, the file, the comparison with the record, or the new record.

use std::path::PathBuf;
use std::process::ExitCode;

use volhost_tests::artifacts::workspace;
use volhost_tests::benchmark::{Comparison, Run, replace_table, table};

use crate::options::Options;

/// Prints the run, writes its file, and compares or records it. `failed` are the sections that
/// could not be measured.
pub(crate) fn report(run: &Run, options: &Options, failed: &[&str]) -> ExitCode {
    println!("\n{}; {} s, noise {:.0} %\n\n{}", run.machine, run.seconds, 100.0 * run.noise, table(run));
    let missed: Vec<&str> = run.figures.iter().filter(|figure| figure.misses_aim()).map(|figure| figure.id()).collect();
    if !missed.is_empty() {
        println!("Aims missed: {}.", missed.join(", "));
    }
    if !failed.is_empty() {
        println!("NOT MEASURED, see above: {}.", failed.join(", "));
    }
    let file = target().join("bench.json");
    if let Err(error) = run.write(&file) {
        eprintln!("benchmark: {error}");
        return ExitCode::FAILURE;
    }
    println!("Written to {}.", file.display());
    let is_good = if options.record { failed.is_empty() && record(run) } else { compare(run, options) };
    if is_good && failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The folder of what is built.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// Replaces the record and the page's table.
fn record(run: &Run) -> bool {
    let page = workspace().join("docs/benchmarks.md");
    let written = std::fs::read_to_string(&page)
        .map_err(|error| error.to_string())
        .and_then(|text| replace_table(&text, run).map_err(|error| error.to_string()))
        .and_then(|text| std::fs::write(&page, text).map_err(|error| error.to_string()));
    if let Err(error) = written {
        eprintln!("benchmark: {}: {error}", page.display());
        return false;
    }
    if let Err(error) = run.write(&Run::recorded_file()) {
        eprintln!("benchmark: {error}");
        return false;
    }
    println!("Recorded in {} and {}.", Run::recorded_file().display(), page.display());
    true
}

/// Compares with the record. A figure that got worse counts only if that is asked for.
fn compare(run: &Run, options: &Options) -> bool {
    let file = Run::recorded_file();
    if !file.exists() {
        println!("There is no recorded run to compare with; make bench RECORD=yes records one.");
        return true;
    }
    let recorded = match Run::read(&file) {
        Ok(recorded) => recorded,
        Err(error) => {
            eprintln!("benchmark: {error}");
            return false;
        }
    };
    if recorded.release != run.release {
        println!("Not compared: one of this and the recorded run is not a release build.");
        return true;
    }
    let mut comparison = Comparison::new(run, &recorded);
    if options.only.is_some() {
        comparison.unmeasured.clear();
    }
    println!("\nAgainst the run of {} ({}, {}):", recorded.commit, recorded.date, recorded.machine);
    print!("{comparison}");
    !options.check || comparison.worse.is_empty()
}
