//! `volhost plugin`: plugin files, without a daemon.

mod approval;
mod build;
mod dev;
mod encode;
mod file;
mod grant;
mod identity;
mod index;
mod key;
mod new;
mod password;
mod publish;
mod pull;
mod registry;
mod run;
mod scratch_daemon;
mod setting;
mod shell;
mod sign;
pub(super) mod surface;
mod test;

use std::path::Path;

use serde::Serialize;
use sha2::{Digest, Sha256};

use volhost_model::text::lower_hex;

use super::arguments::{Format, PluginCommand};
use super::error::CliError;
use super::format::printable;
use super::output::Output;
use super::structured;
pub(super) use file::{digest, read_plugin};
use identity::PluginDescription;
use setting::SettingView;

/// The inspection of a plugin file.
#[derive(Debug, Serialize)]
struct FileInspection {
    /// The file.
    file: String,
    /// Bytes.
    size: usize,
    /// SHA-256 in hex, as `sha256sum` prints it.
    digest: String,
    /// `vendor/name`; none when the plugin could not be asked.
    name: Option<String>,
    /// Its own version; likewise.
    version: Option<String>,
    /// The volume sources it serves; likewise.
    sources: Vec<String>,
    /// The contract's version it was built for; none when it names none.
    contract: Option<String>,
    /// What built it.
    sdk: Option<String>,
    /// The contract's interfaces that it exports: its capabilities.
    exports: Vec<String>,
    /// The interfaces that it imports.
    imports: Vec<String>,
    /// The interfaces that its name is granted.
    granted: Vec<String>,
    /// The interfaces that it imports and is not granted.
    missing: Vec<String>,
    /// The values that the operator may give it, and gives.
    settings: Vec<SettingView>,
    /// Why volhost would not load it, or would not without a grant.
    problem: Option<String>,
}

/// Runs the command. Must be called before any thread exists: `plugin run` and `plugin dev`
/// enter a mount namespace.
pub(super) fn run(command: &PluginCommand, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    match command {
        PluginCommand::New(arguments) => new::run(arguments, output),
        PluginCommand::Build(arguments) => build::run(arguments, output),
        PluginCommand::Encode(arguments) => encode::run(arguments, output),
        PluginCommand::Test(arguments) => test::run(arguments, output),
        PluginCommand::Run(arguments) => run::run(arguments, output),
        PluginCommand::Dev(arguments) => dev::run(arguments, output),
        PluginCommand::Inspect { file, config, cache_dir, output: format } => {
            show(&inspect(file, config.as_deref(), cache_dir.as_deref())?, *format, output)
        }
        PluginCommand::Grant(arguments) => grant::run(&approval::added(arguments, socket, output)?, output),
        PluginCommand::Key(command) => key::run(command, output),
        PluginCommand::Sign(arguments) => sign::run(arguments, output),
        PluginCommand::Publish(arguments) => publish::run(arguments, output),
        PluginCommand::Pull(arguments) => pull::run(arguments, output),
        PluginCommand::Search(arguments) => index::search(arguments, output),
        PluginCommand::Info(arguments) => index::info(arguments, output),
        PluginCommand::Index(command) => index::run(command, output),
    }
}

fn show(inspection: &FileInspection, format: Option<Format>, output: &mut Output) -> Result<(), CliError> {
    match format {
        None | Some(Format::Wide) => print(inspection, output),
        Some(Format::Json) => output.line(&structured::pretty_json(inspection)?),
        Some(Format::Yaml) => output.line(&structured::yaml(inspection)?),
    }
}

fn inspect(file: &Path, config: Option<&Path>, cache_dir: Option<&Path>) -> Result<FileInspection, CliError> {
    let grants = volhost_config::grants(config)?;
    let wasm = file::read_plugin(file)?;
    let surface = surface::read(&wasm).map_err(|why| CliError::Failed(format!("{}: {why}", file.display())))?;
    let PluginDescription { name, version, sources, sdk, granted, missing, settings, problem } =
        identity::ask(file, grants, cache_dir);
    Ok(FileInspection {
        file: file.display().to_string(),
        size: wasm.len(),
        digest: lower_hex(&Sha256::digest(&wasm)),
        name,
        version,
        sources,
        contract: surface.contract,
        sdk,
        exports: surface.exports,
        imports: surface.imports,
        granted,
        missing,
        settings,
        problem,
    })
}

fn print(inspection: &FileInspection, output: &mut Output) -> Result<(), CliError> {
    let one = |text: &Option<String>| text.clone().unwrap_or_default();
    let fields = [
        ("Name", one(&inspection.name)),
        ("Version", one(&inspection.version)),
        ("Serves", inspection.sources.join(", ")),
        ("Contract", one(&inspection.contract)),
        ("Built by", one(&inspection.sdk)),
        ("Exports", inspection.exports.join(", ")),
        ("Imports", inspection.imports.join(", ")),
        ("Granted", inspection.granted.join(", ")),
        ("Not granted", inspection.missing.join(", ")),
        ("Digest", format!("sha256:{}", inspection.digest)),
        ("Size", format!("{} bytes", inspection.size)),
    ];
    for (name, value) in fields {
        let value = printable(&value);
        output.line(&format!("{:<13}{}", format!("{name}:"), if value.is_empty() { "-" } else { &value }))?;
    }
    if !inspection.settings.is_empty() {
        output.line("Settings:")?;
        for line in setting::table(&inspection.settings) {
            output.line(&format!("  {line}"))?;
        }
    }
    if let Some(problem) = &inspection.problem {
        output.line("Problem:")?;
        for line in problem.lines() {
            output.line(&format!("  {}", printable(line)))?;
        }
    }
    Ok(())
}
