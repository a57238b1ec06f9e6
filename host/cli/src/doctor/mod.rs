//! `volhost doctor`: what the machine lacks, and what to do about it. It changes nothing.
//!
//! | module | what it checks |
//! |---|---|
//! | [`machine`] | the kernel, its calls for mounts, devices |
//! | [`rights`] | user and capabilities |
//! | [`places`] | folders, mount propagation, space |
//! | [`tools`] | programs of file systems, FlexVolume drivers |
//! | [`programs`] | the iSCSI initiator, FUSE servers |
//! | [`daemon`] | the socket, and plugins that are refused or wait |
//! | [`clock`], [`limits`] | the clock, and control groups |
//! | [`needs`], [`subject`] | what plugins import; the process whose rights count |
//! | [`check`] | an outcome, with its reason and the way out |

mod check;
mod clock;
mod daemon;
mod limits;
mod machine;
mod needs;
mod places;
mod programs;
mod rights;
mod subject;
mod tools;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use volhost_config::{EnvironmentVariables, RunConfig, Settings};
use volhost_process::linux_kernel;

use super::error::CliError;
use super::format::printable;
use super::output::Output;
use super::structured;
use check::{Checks, Outcome};
use daemon::DaemonFacts;
use needs::Needs;
use subject::Subject;
use volhost_table::Colour;

/// The width of the first two columns.
const OUTCOME_WIDTH: usize = 9;
const NAME_WIDTH: usize = 22;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DoctorFormat {
    /// JSON
    Json,
}

/// `doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArguments {
    /// How to print
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<DoctorFormat>,
    /// The daemon's options.
    #[command(flatten)]
    daemon: DaemonOptions,
}

/// The options of the daemon, for commands that look at what it looks at.
#[derive(Debug, Args)]
pub(super) struct DaemonOptions {
    /// TOML file with the daemon's options
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The options.
    #[command(flatten)]
    settings: Settings,
}

impl DaemonOptions {
    /// The daemon's options, as it would read them.
    ///
    /// # Errors
    /// [`CliError::Config`].
    pub(super) fn load(self, socket: &Path, environment: &EnvironmentVariables) -> Result<RunConfig, CliError> {
        let settings = Settings { socket: Some(socket.to_path_buf()), ..self.settings };
        Ok(volhost_config::load(settings, self.config, environment)?)
    }
}

/// Checks the machine, and the daemon if it runs.
///
/// # Errors
/// [`CliError::Config`] for the daemon's options; [`CliError::Failed`] if there is a problem.
pub(super) async fn run(
    arguments: DoctorArguments,
    socket: &Path,
    environment: &EnvironmentVariables,
    output: &mut Output,
) -> Result<(), CliError> {
    let config = arguments.daemon.load(socket, environment)?;
    let checks = examine(&config).await;
    match arguments.output {
        Some(DoctorFormat::Json) => output.line(&structured::pretty_json(&document(&checks))?)?,
        None => output.write(&page(&checks, output.colour()))?,
    }
    match checks.count(Outcome::Problem) {
        0 => Ok(()),
        1 => Err(CliError::Failed("there is 1 problem".to_owned())),
        count => Err(CliError::Failed(format!("there are {count} problems"))),
    }
}

/// Makes every check, and returns them as JSON.
pub(super) async fn report(config: &RunConfig) -> Value {
    document(&examine(config).await)
}

/// Makes every check.
async fn examine(config: &RunConfig) -> Checks {
    let mut checks = Checks::default();
    let kernel = linux_kernel();
    let asked = DaemonFacts::ask(&config.socket).await;
    daemon::check(&mut checks, config, asked.as_ref());
    let facts = asked.ok();
    let subject = Subject::new(facts.as_ref().map(|facts| facts.status.pid));
    let needs = match &facts {
        Some(facts) => Needs::of_loaded(&facts.plugins),
        None => Needs::of_folder(&config.plugin_dir),
    };
    let root = facts.as_ref().map_or_else(|| config.root_dir.clone(), |facts| PathBuf::from(&facts.status.root));
    machine::check(&mut checks, &kernel, Subject::new(None), &root, &needs);
    rights::check(&mut checks, subject);
    places::check(&mut checks, &kernel, subject, config, &root);
    tools::check(&mut checks, &kernel, config, &needs);
    programs::check(&mut checks, config, &needs, facts.is_some());
    limits::check(&mut checks, subject, config.max_operations.get());
    let newest = facts.as_ref().and_then(|facts| facts.events.iter().map(|event| event.at).max());
    clock::check(&mut checks, &root, newest);
    checks
}

/// The checks as JSON.
fn document(checks: &Checks) -> Value {
    json!({
        "ok": checks.count(Outcome::Problem) == 0,
        "problems": checks.count(Outcome::Problem),
        "warnings": checks.count(Outcome::Warning),
        "checks": checks.all(),
    })
}

fn page(checks: &Checks, colour: bool) -> String {
    let mut text = String::new();
    for check in checks.all() {
        let shade = match check.outcome {
            Outcome::Ok => Colour::Green,
            Outcome::Warning => Colour::Yellow,
            Outcome::Problem => Colour::Red,
        };
        let outcome = shade.paint(&format!("{:OUTCOME_WIDTH$}", check.outcome.word()), colour);
        let name = printable(&check.name);
        text.push_str(&format!("{outcome}{name:NAME_WIDTH$} {}\n", printable(&check.found)));
        let indent = " ".repeat(OUTCOME_WIDTH);
        if !check.why.is_empty() {
            text.push_str(&format!("{indent}Why: {}\n", printable(&check.why)));
        }
        if !check.action.is_empty() {
            text.push_str(&format!("{indent}Do:  {}\n", printable(&check.action)));
        }
    }
    let (warnings, problems) = (checks.count(Outcome::Warning), checks.count(Outcome::Problem));
    text + &format!("ok: {}, warnings: {warnings}, problems: {problems}\n", checks.count(Outcome::Ok))
}
