//! Copies the source of `volhost-core` to the output folder and makes each place that a mutant
//! breaks a choice: `if broken(Mutation::X) { what the mutant does } else { what the source says
//! }`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use mutants::{ADDITIONS, MUTANTS, Mutant};

mod mutants;

/// The source that is copied, from this folder.
const SOURCE: &str = "../../core/src";
/// Modules that are not copied but taken from the crate: the copy and the original speak the same
/// language, so that the simulation can compare them.
const SHARED: [&str; 3] = ["command", "config", "event"];

/// A place in a file, in bytes, and the mutants that break it.
type Places = BTreeMap<(usize, usize), Vec<&'static Mutant>>;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=mutants.rs");
    println!("cargo::rerun-if-changed=additions");
    let out = std::env::var("OUT_DIR")?;
    let folder = Path::new(&out).join("core");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let mut sources = BTreeMap::new();
    read(Path::new(SOURCE), "", &mut sources)?;
    sources.retain(|name, _| !SHARED.contains(&name.trim_end_matches(".rs")));
    let mut not_applied = Vec::new();
    for (name, source) in &sources {
        let mutants = MUTANTS.iter().filter(|mutant| mutant.file == name);
        let mut text = mutate(source, mutants, &mut not_applied);
        for (_, addition) in ADDITIONS.iter().filter(|(file, _)| file == name) {
            text.push_str(addition);
        }
        let text = if name == "lib.rs" { root(&text) } else { text };
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&folder))?;
        fs::write(path, text)?;
    }
    not_applied.extend(MUTANTS.iter().filter(|mutant| !sources.contains_key(mutant.file)).map(|mutant| mutant.name));
    fs::write(Path::new(&out).join("mutation.rs"), mutation(&not_applied)?)?;
    Ok(())
}

/// Reads every file of the folder and those below it, by its path from there.
fn read(folder: &Path, prefix: &str, sources: &mut BTreeMap<String, String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| format!("{} is not UTF-8", name.display()))?;
        let name = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            read(&entry.path(), &format!("{name}/"), sources)?;
        } else {
            sources.insert(name, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

/// Returns the source with a choice at each place that a mutant breaks.
fn mutate(source: &str, mutants: impl Iterator<Item = &'static Mutant>, not_applied: &mut Vec<&'static str>) -> String {
    let mut places = Places::new();
    for mutant in mutants {
        let taken =
            |start, end| places.keys().any(|(from, to)| (*from, *to) != (start, end) && *from < end && start < *to);
        match find(source, mutant.place).filter(|(start, end)| !taken(*start, *end)) {
            Some(place) => places.entry(place).or_default().push(mutant),
            None => not_applied.push(mutant.name),
        }
    }
    let mut text = String::new();
    let mut copied = 0;
    for ((start, end), mutants) in places {
        let original = source.get(start..end).unwrap_or_default();
        text.push_str(source.get(copied..start).unwrap_or_default());
        text.push_str(&choice(original, &mutants));
        copied = end;
    }
    text.push_str(source.get(copied..).unwrap_or_default());
    text
}

/// Returns the code that does what the chosen mutant does, or what the original does.
fn choice(original: &str, mutants: &[&Mutant]) -> String {
    let branches: String = mutants
        .iter()
        .map(|Mutant { name, broken, .. }| format!("if crate::is_broken(crate::Mutation::{name}) {{ {broken} }} else "))
        .collect();
    let choice = format!("{branches}{{ {original} }}");
    // A statement stays one; an expression keeps its place in a larger one.
    if original.ends_with([';', '}']) { choice } else { format!("({choice})") }
}

/// Finds the place, in bytes, by its characters other than white space, so that it may be wrapped
/// differently. None unless it is there exactly once.
fn find(source: &str, place: &str) -> Option<(usize, usize)> {
    let (before, rest) = place.split_once("[[").unwrap_or(("", place));
    let (chosen, _) = rest.split_once("]]").unwrap_or((rest, ""));
    let solid = |text: &str| text.chars().filter(|char| !char.is_whitespace()).collect::<Vec<char>>();
    let wanted = solid(&place.replace("[[", "").replace("]]", ""));
    let (skipped, length) = (solid(before).len(), solid(chosen).len());
    let there: Vec<(usize, char)> = source.char_indices().filter(|(_, char)| !char.is_whitespace()).collect();
    let mut found =
        there.windows(wanted.len()).filter(|window| window.iter().map(|(_, char)| *char).eq(wanted.iter().copied()));
    let only = found.next().filter(|_| found.next().is_none())?;
    let (start, _) = only.get(skipped)?;
    let (end, last) = only.get(skipped + length - 1)?;
    Some((*start, end + last.len_utf8()))
}

/// Returns the crate's root without what only the first lines of a crate may have, and with the
/// shared modules of the original.
fn root(text: &str) -> String {
    let is_of_crate = |line: &str| line.starts_with("//!") || line.starts_with("#![");
    let is_shared = |line: &str| SHARED.iter().any(|name| line == format!("pub mod {name};"));
    let lines = text.lines().filter(|line| !is_of_crate(line) && !is_shared(line));
    let shared = format!("pub use volhost_core::{{{}}};\n", SHARED.join(", "));
    shared + &lines.map(|line| format!("{line}\n")).collect::<String>()
}

/// Returns the code of the list of mutants.
fn mutation(not_applied: &[&str]) -> Result<String, std::fmt::Error> {
    let mut text =
        "/// One broken rule.\n#[derive(Debug, Clone, Copy, PartialEq, Eq)]\npub enum Mutation {\n".to_owned();
    for Mutant { name, what, .. } in MUTANTS {
        writeln!(text, "    /// {what}\n    {name},")?;
    }
    let all: String = MUTANTS.iter().map(|mutant| format!("Self::{}, ", mutant.name)).collect();
    let count = MUTANTS.len();
    writeln!(text, "}}\n\nimpl Mutation {{\n    /// Every one.\n    pub const ALL: [Self; {count}] = [{all}];\n}}\n")?;
    writeln!(
        text,
        "/// The mutants whose place in the source was not found, or not once.\npub const NOT_APPLIED: &[&str] = &{not_applied:?};"
    )?;
    Ok(text)
}
