//! `volhost conformance`: the conformance suite, on the real kernel, without a daemon.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use volhost_conformance::{CaseOutcome, HostServices, Report, Subject, SubjectError, Suite, SuiteError, case_names};
use volhost_model::visible::visible_json;
use volhost_runtime::Compiler;

use super::compiled::CompiledPlugins;
use super::error::CliError;
use super::format::printable;
use super::output::Output;
use volhost_model::text::error_chain;

/// `conformance`.
#[derive(Debug, Args)]
pub(super) struct ConformanceArguments {
    /// The plugin's .wasm file
    #[arg(required_unless_present = "list")]
    plugin: Option<PathBuf>,
    /// The case file: the volume to work on, and what it needs
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only this case, or this group of cases; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Keep compiled plugins in this folder for the next command [default: volhost/plugins
    /// in your cache folder]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: ReportFormat,
    /// Print the names of the cases, and end
    #[arg(long)]
    list: bool,
}

impl ConformanceArguments {
    /// Every case for this plugin, as text.
    pub(super) fn of(plugin: PathBuf, config: Option<PathBuf>) -> Self {
        Self {
            plugin: Some(plugin),
            config,
            only: Vec::new(),
            cache_dir: None,
            output: ReportFormat::Text,
            list: false,
        }
    }
}

/// How a run is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// A line a case, as it ends.
    Text,
    /// One JSON object, at the end.
    Json,
    /// JUnit XML, at the end.
    Junit,
}

/// Runs the command.
pub(super) fn run(arguments: &ConformanceArguments, output: &mut Output) -> Result<(), CliError> {
    let Some(plugin) = arguments.plugin.as_ref().filter(|_| !arguments.list) else {
        return case_names().try_for_each(|name| output.line(name));
    };
    let compiled = CompiledPlugins::open(arguments.cache_dir.as_deref())?;
    let suite = suite(plugin, arguments.config.as_deref(), compiled.path(), &arguments.only)?;
    let report = tested(&suite, arguments.output, output)?;
    match arguments.output {
        ReportFormat::Text => output.line(&format!("\n{}", printable(&report.summary())))?,
        ReportFormat::Json => {
            let json = report.to_json().map_err(|error| CliError::Encode(error.to_string()))?;
            output.line(&visible_json(&json))?;
        }
        ReportFormat::Junit => output.write(&report.to_junit())?,
    }
    output.flush()?;
    match report.counts() {
        _ if report.is_good() => Ok(()),
        (_, 0, _) => Err(CliError::Untested("no case applies to this plugin and this volume".to_owned())),
        (_, failed, _) => {
            Err(CliError::Failed(format!("the plugin does not conform to the contract: {failed} cases failed")))
        }
    }
}

/// The suite for a plugin, with its case file, if there is one. Compiled plugins are kept in the folder
/// `compiled`.
///
/// # Errors
/// [`CliError::Usage`] for a wrong case file or name of a case.
pub(super) fn suite(
    plugin: &Path,
    case_file: Option<&Path>,
    compiled: &Path,
    only: &[String],
) -> Result<Suite, CliError> {
    let subject = match case_file {
        Some(file) => Subject::read(plugin, file),
        None => Subject::bare(plugin),
    };
    let program = std::env::current_exe().map_err(|error| CliError::Untested(error.to_string()))?;
    let compiler = Compiler { program, args: vec!["internal".into(), "compile-plugin".into()] };
    let subject = subject.map_err(|error| wrong_case_file(&error))?;
    let services = HostServices { cache: Some(compiled.to_owned()), ..HostServices::new(compiler) };
    Suite::new(subject, services, only).map_err(|error| untested(&error))
}

/// Runs the suite, and prints each case as it ends: text on standard output, else progress on
/// standard error.
fn tested(suite: &Suite, format: ReportFormat, output: &mut Output) -> Result<Report, CliError> {
    let (all, mut ended, mut printed) = (suite.len(), 0_usize, Ok(()));
    let run = suite.run(|case| {
        ended += 1;
        if format == ReportFormat::Text {
            let lines = case.to_text();
            let mut lines = lines.lines().map(printable);
            printed = lines.try_for_each(|line| output.line(&line)).and_then(|()| output.flush());
        } else {
            let word = match case.outcome {
                CaseOutcome::Passed => "passed",
                CaseOutcome::Failed { .. } => "FAILED",
                CaseOutcome::NotApplicable { .. } => "not applicable",
            };
            output.note(&format!("{ended} of {all}: {} {word}", case.name));
        }
    });
    printed?;
    run.map_err(|error| untested(&error))
}

fn wrong_case_file(error: &SubjectError) -> CliError {
    CliError::Usage(error_chain(error))
}

/// A wrong argument or case file is wrong usage; a precondition that this machine lacks is not.
fn untested(error: &SuiteError) -> CliError {
    match error {
        SuiteError::NoSuchCase { .. } | SuiteError::Subject(_) | SuiteError::CaseFile(_) => {
            CliError::Usage(error_chain(error))
        }
        error => CliError::Untested(error_chain(error)),
    }
}
