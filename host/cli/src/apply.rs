//! `volhost apply`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use volhost_model::duration::HumanDuration;

use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::printable;
use super::manifest_file::{files_of, named, objects, read, shown};
use super::output::Output;
use super::wait::explain;
use volhost_api::pb;

/// What to do about fields that an object's kind lacks, by kubectl's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Validation {
    /// Refuse the file
    #[value(alias = "true")]
    Strict,
    /// Apply the file without them, and print a warning for each
    Warn,
    /// Apply the file without them
    #[value(alias = "false")]
    Ignore,
}

impl From<Validation> for pb::FieldValidation {
    fn from(validation: Validation) -> Self {
        match validation {
            Validation::Strict => Self::Strict,
            Validation::Warn => Self::Warn,
            Validation::Ignore => Self::Ignore,
        }
    }
}

/// Where files are only checked, by kubectl's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DryRun {
    /// Nowhere: the objects are added
    None,
    /// In this program
    Client,
    /// In the daemon
    Server,
}

/// `apply`.
#[derive(Debug, Args)]
pub(super) struct ApplyArguments {
    /// File with objects in YAML or JSON, or a folder of such files; `-` reads standard input; give
    /// it several times
    #[arg(short, long = "file", value_name = "FILE|FOLDER", required_unless_present = "complete")]
    files: Vec<PathBuf>,
    /// What to do about unknown and misspelt fields
    #[arg(long, value_name = "LEVEL", default_value = "strict")]
    validate: Validation,
    /// Only check: `client` reads the files and needs no daemon; `server` has the daemon check
    /// everything that it checks before it adds objects
    #[arg(long, value_name = "WHERE", default_value = "none", conflicts_with_all = ["wait", "complete"])]
    dry_run: DryRun,
    /// Afterwards, declare that there are no other pods: after a restart of the machine, leftovers
    /// of others are removed
    #[arg(long)]
    complete: bool,
    /// Wait until every volume of the files' pods is mounted; exit code 1 when one is not
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "2m3s", requires = "wait")]
    timeout: HumanDuration,
}

impl ApplyArguments {
    /// Applies a file, and waits at most this long for the volumes of its pods.
    pub(super) fn and_wait(file: PathBuf, timeout: Duration) -> Self {
        Self {
            files: vec![file],
            validate: Validation::Strict,
            dry_run: DryRun::None,
            complete: false,
            wait: true,
            timeout: HumanDuration(timeout),
        }
    }
}

/// Sends each file's objects. A file is applied wholly or not at all; files before a bad one stay
/// applied. With `--complete`, then declares that there are no other pods. With `--wait` it returns
/// once their pods are mounted.
pub(super) async fn run(arguments: &ApplyArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    if arguments.dry_run == DryRun::Client {
        return named_objects(&files_of(&arguments.files)?, output);
    }
    let mut client = Client::connect(socket).await?;
    let timeout = arguments.timeout.0;
    let mut unmounted = Vec::new();
    let dry_run = arguments.dry_run == DryRun::Server;
    let only_checked = if dry_run { " (server dry run)" } else { "" };
    for file in &files_of(&arguments.files)? {
        let manifest = read(file)?;
        // 0 would not wait; a user who types 0 wants the state at once.
        let wait_ms = if arguments.wait { u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1) } else { 0 };
        let limit = if arguments.wait { timeout.saturating_add(ANSWER_TIME) } else { ANSWER_TIME };
        let field_validation = pb::FieldValidation::from(arguments.validate).into();
        let request = pb::AddPodsRequest { manifest, wait_ms, field_validation, dry_run };
        let answer = within(limit, socket, client.manager.add_pods(request)).await;
        let added = answer.map_err(|error| match error {
            CliError::Refused(why) => CliError::Refused(named(&why, file)),
            other => other,
        })?;
        for warning in &added.warnings {
            output.note(&format!("Warning: {}", printable(&named(warning, file))));
        }
        if added.pods.is_empty() {
            output.line(&format!("{} applied{only_checked}; it has no pods", shown(file)))?;
        }
        let failed = |pod: &pb::AddedPod| added.failures.iter().any(|failure| failure.pod == pod.full_name);
        for pod in &added.pods {
            let mounted = if arguments.wait && !failed(pod) { " and mounted" } else { "" };
            output.line(&format!("pod {} applied{mounted}{only_checked}", printable(&pod.full_name)))?;
        }
        for failure in &added.failures {
            unmounted.push(explain(failure, "mounted", timeout)?);
        }
    }
    if arguments.complete {
        within(ANSWER_TIME, socket, client.manager.sources_ready(pb::SourcesReadyRequest {})).await?;
        output.line("every pod is added; pods that no source names count as gone")?;
    }
    if unmounted.is_empty() { Ok(()) } else { Err(CliError::Failed(unmounted.join("\n"))) }
}

/// Prints the objects that files name. Every file is read before the first is printed.
fn named_objects(files: &[PathBuf], output: &mut Output) -> Result<(), CliError> {
    let mut named = Vec::new();
    for file in files {
        named.extend(objects(file, &read(file)?)?);
    }
    for object in named {
        output.line(&printable(&format!("{} {} applied (client dry run)", object.kind, object.name)))?;
    }
    Ok(())
}
