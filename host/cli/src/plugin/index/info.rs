//! `volhost plugin info`.

use super::entry::IndexEntry;
use super::read;
use crate::arguments::{Format, InfoArguments};
use crate::error::CliError;
use crate::format::printable;
use crate::output::Output;
use crate::structured;

/// Prints all that the index says of a plugin, and how to get it.
pub(in super::super) fn run(arguments: &InfoArguments, output: &mut Output) -> Result<(), CliError> {
    let entries = read(&arguments.source, &arguments.registry, output)?;
    let entry = find(&entries, &arguments.name)?;
    match arguments.output {
        Some(Format::Json) => output.line(&structured::pretty_json(entry)?),
        Some(Format::Yaml) => output.line(&structured::yaml(entry)?),
        None | Some(Format::Wide) => print(entry, output),
    }
}

/// By the whole name, or by the part after the slash if one plugin alone has it.
fn find<'a>(entries: &'a [IndexEntry], name: &str) -> Result<&'a IndexEntry, CliError> {
    let short = |entry: &&IndexEntry| entry.name.rsplit('/').next() == Some(name);
    let mut found = entries.iter().filter(|entry| entry.name == name);
    if let Some(entry) = found.next() {
        return Ok(entry);
    }
    let found: Vec<&IndexEntry> = entries.iter().filter(short).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(CliError::Failed(format!("the index has no plugin {}", printable(name)))),
        several => {
            let names: Vec<&str> = several.iter().map(|entry| entry.name.as_str()).collect();
            Err(CliError::Failed(format!("several plugins are called so: {}", names.join(", "))))
        }
    }
}

fn print(entry: &IndexEntry, output: &mut Output) -> Result<(), CliError> {
    let fields = [
        ("Name", entry.name.clone()),
        ("Version", entry.version.clone()),
        ("Description", entry.description.clone()),
        ("Serves", entry.sources.join(", ")),
        ("Asks for", entry.interfaces.join(", ")),
        ("Contract", entry.contract.clone()),
        ("Reference", entry.reference.clone()),
    ];
    for (name, value) in fields {
        let value = printable(&value);
        output.line(&format!("{:<13}{}", format!("{name}:"), if value.is_empty() { "-" } else { &value }))?;
    }
    output.line("Get it:")?;
    output.line(&format!("  volhost plugin pull {} --out PLUGIN_DIR", printable(&entry.reference)))?;
    output.line(&format!("  volhost plugin grant {} --help", printable(&entry.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_that_two_plugins_have_is_refused_with_both() {
        let entry = |name: &str| IndexEntry {
            name: name.to_owned(),
            version: String::new(),
            description: String::new(),
            sources: Vec::new(),
            interfaces: Vec::new(),
            contract: String::new(),
            reference: String::new(),
        };
        let all = [entry("a.org/x"), entry("b.org/x"), entry("b.org/y")];
        assert_eq!(find(&all, "y").unwrap().name, "b.org/y");
        assert_eq!(find(&all, "a.org/x").unwrap().name, "a.org/x");
        assert!(find(&all, "x").unwrap_err().to_string().contains("a.org/x, b.org/x"));
        assert!(find(&all, "z").is_err());
    }
}
