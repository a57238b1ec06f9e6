//! The pages that are made of the contract and of the program.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use volhost_wit::contract::Contract;
use volhost_wit::page;

use crate::book::BookError;

/// How wide help is printed, in columns: a page of the book shows so many without scrolling.
const COLUMNS: &str = "100";

/// Returns the reference of the contract in this checkout.
///
/// # Errors
/// [`BookError::Contract`] if `wit/` cannot be read.
pub fn contract(checkout: &Path) -> Result<String, BookError> {
    let contract = Contract::read(&checkout.join("wit"));
    Ok(page::render(&contract.map_err(|error| BookError::Contract(error.to_string()))?))
}

/// Returns the help of every command of this program. `scratch` is a folder that is made for its
/// manual pages, which list the commands, and removed.
///
/// # Errors
/// [`BookError::Io`] and [`BookError::Program`].
pub fn commands(volhost: &Path, scratch: &Path) -> Result<String, BookError> {
    let folder = scratch.to_str().ok_or_else(|| BookError::Program("the scratch folder is no text".to_owned()))?;
    run(volhost, &["man", "--dir", folder])?;
    let mut names = Vec::new();
    for entry in fs::read_dir(scratch).map_err(|source| BookError::at(scratch, source))? {
        let path = entry.map_err(|source| BookError::at(scratch, source))?.path();
        let text = fs::read_to_string(&path).map_err(|source| BookError::at(&path, source))?;
        names.push(command_of(&text).ok_or_else(|| BookError::Program(format!("{path:?} has no SYNOPSIS")))?);
    }
    fs::remove_dir_all(scratch).map_err(|source| BookError::at(scratch, source))?;
    names.sort();
    let mut page = "# Commands\n\nWhat `--help` prints for each command. [The command line](cli.md) explains the\n\
                    commands by task, [Configuration](configuration.md) the options of `volhost run`.\n"
        .to_owned();
    for name in names {
        let words: Vec<&str> = name.split(' ').skip(1).chain(["--help"]).collect();
        let help = run(volhost, &words)?;
        let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n"));
    }
    Ok(page)
}

/// The command that a manual page is about: the bold words of its synopsis.
fn command_of(manual: &str) -> Option<String> {
    let (_, synopsis) = manual.split_once(".SH SYNOPSIS\n\\fB")?;
    Some(synopsis.split_once("\\fR")?.0.replace("\\-", "-"))
}

fn run(volhost: &Path, arguments: &[&str]) -> Result<String, BookError> {
    let output = Command::new(volhost)
        .args(arguments)
        .env("NO_COLOR", "1")
        .env("COLUMNS", COLUMNS)
        .output()
        .map_err(|source| BookError::at(volhost, source))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(BookError::Program(format!("{volhost:?} {arguments:?}: {words}")));
    }
    String::from_utf8(output.stdout).map_err(|error| BookError::Program(error.to_string()))
}
