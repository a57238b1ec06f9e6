//! Copies the types that threads share to the output folder, with shuttle's locks, atomics and
//! threads in place of the standard library's, and once more for each mutant.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use mutants::MUTANTS;

mod mutants;

/// The sources, from this folder, by the module that each becomes.
const SOURCES: &[(&str, &str)] = &[
    ("work_queue", "../../kernel/src/linux/work_queue.rs"),
    ("walk_progress", "../../kernel/src/linux/walk_progress.rs"),
    ("worker_pool", "../../volume-ops/src/worker_pool.rs"),
];
/// What is replaced in each of them.
const REPLACED: &[(&str, &str)] = &[
    ("use std::sync::", "use shuttle::sync::"),
    ("use std::thread;", "use shuttle::thread;"),
    ("thread::available_parallelism", "std::thread::available_parallelism"),
    ("crate::ownership::", "volhost_kernel::"),
    ("pub(super)", "pub(crate)"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=mutants.rs");
    let mut modules = String::new();
    for (name, path) in SOURCES {
        println!("cargo::rerun-if-changed={path}");
        let source = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let source = with_shuttle(&source);
        writeln!(modules, "pub(crate) mod {name} {{\n{source}\n}}")?;
        for mutant in MUTANTS.iter().filter(|mutant| mutant.module == *name) {
            let places = source.matches(mutant.place).count();
            if places != 1 {
                return Err(
                    format!("{path} has the place of the mutant {} {places} times, not once", mutant.name).into()
                );
            }
            let broken = source.replace(mutant.place, mutant.broken);
            writeln!(modules, "pub(crate) mod {} {{\n{broken}\n}}", mutant.name)?;
        }
    }
    fs::write(Path::new(&std::env::var("OUT_DIR")?).join("modules.rs"), modules)?;
    Ok(())
}

/// Returns the source without its tests and its module comment, and with shuttle's types.
fn with_shuttle(source: &str) -> String {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.starts_with("//!")).map(|line| format!("{line}\n"));
    let code: String = lines.collect();
    REPLACED.iter().fold(code, |code, (old, new)| code.replace(old, new))
}
