//! `volhost man`.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use super::arguments;
use super::error::CliError;
use super::output::Output;

/// Prints volhost(1), or writes all pages into a folder, which is made if it is missing.
pub(super) fn write(folder: Option<&Path>, output: &mut Output) -> Result<(), CliError> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        Man::new(arguments::command()).render(&mut page)?;
        return output.write_bytes(&page);
    };
    let failed = |source| CliError::File { path: folder.to_path_buf(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    // As clap_mangen writes them: `volhost-get.1` has its whole name, and no page is about `help`.
    let mut command = arguments::command().disable_help_subcommand(true);
    command.build();
    write_pages(command, folder)
}

fn write_pages(command: Command, folder: &Path) -> Result<(), CliError> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_pages(inner.clone(), folder)?;
    }
    let page = Man::new(command);
    let name = page.get_filename();
    let mut text = Vec::new();
    page.render(&mut text)?;
    put(folder, &name, &text).map_err(|source| CliError::File { path: folder.join(name), source })
}

/// Puts a file in place of what has its name. A symbolic link of that name is replaced, not
/// followed: root writes these pages, perhaps into a folder where other users can put links to
/// files of root's.
fn put(folder: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let mut aside = OsString::from(".");
    aside.push(format!("{name}.{}", std::process::id()));
    let aside = folder.join(aside);
    // A new file: whatever has the name already, a link among it, is an error.
    let mut file = OpenOptions::new().write(true).create_new(true).open(&aside)?;
    let put = file.write_all(text).and_then(|()| fs::rename(&aside, folder.join(name)));
    if put.is_err() {
        // The first error says why.
        let _ = fs::remove_file(&aside);
    }
    put
}
