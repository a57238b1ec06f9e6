//! The steps of `volhost plugin dev`, and what the author reads of each.

use std::path::{Path, PathBuf};
use std::time::Instant;

use volhost_api::pb;
use volhost_model::text::error_chain;
use volhost_model::visible::visible_lines;

use super::builder::{Builder, Component};
use super::checks;
use super::sources::{SourceState, Sources};
use super::swap::{Swapped, swap};
use crate::arguments::DevArguments;
use crate::client::{ANSWER_TIME, Client, within};
use crate::conformance;
use crate::error::CliError;
use crate::manifest_file::{self, NamedObject};
use crate::output::Output;
use crate::plugin::scratch_daemon::ScratchDaemon;
use crate::plugin::test::CASES;
use crate::wait::explain;

/// How much of a digest is printed, in hexadecimal digits.
const DIGEST_SHOWN: usize = 12;

/// The plugin's state in the daemon.
#[derive(Debug, Default)]
struct Served {
    /// The digest of the component that serves.
    digest: Option<String>,
    /// Where the volume is mounted, and the text of the objects that it was mounted for.
    mounted: Option<(PathBuf, String)>,
}

/// A session of work on one plugin.
pub(super) struct Session<'a> {
    arguments: &'a DevArguments,
    daemon: &'a ScratchDaemon,
    output: &'a mut Output,
    sources: Sources,
    builder: Builder,
    /// The sources that were built last.
    built: Option<SourceState>,
    served: Served,
    /// The component and the text of the case file that were checked last.
    checked: Option<(String, String)>,
    /// The component to check when everything else is done.
    unchecked: Option<Component>,
}

impl<'a> Session<'a> {
    /// Begins a session. Needs a tokio runtime.
    ///
    /// # Errors
    /// The sources cannot be watched.
    pub(super) fn new(
        arguments: &'a DevArguments,
        daemon: &'a ScratchDaemon,
        output: &'a mut Output,
    ) -> Result<Self, CliError> {
        let mut roots = vec![PathBuf::from(".")];
        roots.extend(arguments.watch.iter().cloned());
        Ok(Self {
            arguments,
            daemon,
            output,
            sources: Sources::new(&roots, arguments.out.as_deref())?,
            builder: Builder::new(arguments, daemon.path("built"))?,
            built: None,
            served: Served::default(),
            checked: None,
            unchecked: None,
        })
    }

    /// Takes the next step: waits for a change, builds and swaps; or runs the conformance suite on
    /// what was swapped. Returns where the volume is mounted, if it was mounted.
    ///
    /// # Errors
    /// The session cannot go on: the daemon or standard output is gone. What is wrong with the
    /// plugin is printed.
    pub(super) async fn step(&mut self) -> Result<Option<PathBuf>, CliError> {
        if let Some(component) = self.unchecked.take() {
            self.check(&component).await?;
            return Ok(None);
        }
        let state = self.sources.differ_from(self.built.as_ref()).await?;
        self.built = Some(state);
        let component = match self.builder.build().await {
            Ok(component) => component,
            Err(failure) => {
                let rest = match self.served.digest {
                    Some(_) => "; the plugin built before keeps serving",
                    None => "; it is built again after the next change",
                };
                self.say(&format!("{}{rest}", error_chain(&failure)))?;
                return Ok(None);
            }
        };
        let mounted = self.serve(&component).await?;
        self.unchecked = (!self.arguments.no_conformance).then_some(component);
        Ok(mounted)
    }

    /// Has the daemon load the component, and mounts the volume if that is due.
    async fn serve(&mut self, component: &Component) -> Result<Option<PathBuf>, CliError> {
        let built = format!("built in {:.1} s", component.time.as_secs_f64());
        let is_new = self.served.digest.as_deref() != Some(component.digest.as_str());
        let begun = Instant::now();
        let swapped = swap(component, self.daemon).await?;
        if let Swapped::Refused(why) = swapped {
            let rest = match self.served.digest {
                Some(_) => "; the plugin before it keeps serving",
                None => "",
            };
            self.say(&format!("{built}, and refused by the daemon{rest}: {why}"))?;
            return Ok(None);
        }
        self.served.digest = Some(component.digest.clone());
        let digest: String = component.digest.chars().take(DIGEST_SHOWN).collect();
        let swapped = match is_new {
            true => format!("{built}, swapped to sha256:{digest} in {:.1} s", begun.elapsed().as_secs_f64()),
            false => format!("{built}, unchanged"),
        };
        let objects = std::fs::read_to_string(&self.arguments.volume).unwrap_or_default();
        match &self.served.mounted {
            Some((_, of)) if *of == objects && !(self.arguments.remount && is_new) => {
                self.say(&format!("{swapped}; the volume stays mounted"))?;
                Ok(None)
            }
            _ => {
                self.say(&swapped)?;
                self.mount(objects).await
            }
        }
    }

    /// Mounts the volume; unmounts it before, if it is mounted. A failure is the author's to read.
    async fn mount(&mut self, objects: String) -> Result<Option<PathBuf>, CliError> {
        let begun = Instant::now();
        let was_mounted = self.served.mounted.take().is_some();
        let mounted = async {
            if was_mounted {
                unmount(&self.daemon.objects(&self.arguments.volume)?, self.daemon, self.arguments).await?;
            }
            self.daemon.mount(&self.arguments.volume, self.arguments.timeout.0, &mut Output::silent()).await
        };
        match mounted.await {
            Ok(place) => {
                let again = if was_mounted { " again" } else { "" };
                let seconds = begun.elapsed().as_secs_f64();
                self.say(&format!("the volume is mounted{again}, in {seconds:.1} s, at {}", place.display()))?;
                self.served.mounted = Some((place.clone(), objects));
                Ok(Some(place))
            }
            Err(error) if is_fatal(&error) => Err(error),
            Err(error) => {
                self.say(&format!("the volume is not mounted: {error}"))?;
                Ok(None)
            }
        }
    }

    /// Runs the conformance suite, unless the same component was checked with the same case file.
    async fn check(&mut self, component: &Component) -> Result<(), CliError> {
        let default = Some(PathBuf::from(CASES)).filter(|file| file.exists());
        let file = self.arguments.cases.clone().or(default);
        let text = file.as_deref().map(std::fs::read_to_string).transpose().unwrap_or_default().unwrap_or_default();
        let subject = (component.digest.clone(), text);
        let Some(state) = self.built.clone().filter(|_| self.checked.as_ref() != Some(&subject)) else {
            return Ok(());
        };
        let begun = Instant::now();
        // The daemon has compiled it already.
        let plugin = self.daemon.path("checked.wasm");
        std::fs::write(&plugin, &component.wasm).map_err(|source| CliError::File { path: plugin.clone(), source })?;
        let report = match conformance::suite(&plugin, file.as_deref(), &self.daemon.cache(), &[]) {
            Ok(suite) => checks::run(suite, &mut self.sources, &state, self.output).await?,
            Err(error) => return self.say(&format!("conformance: {error}")),
        };
        match report {
            Some(Ok(report)) => {
                let (passed, failed, _) = report.counts();
                let seconds = begun.elapsed().as_secs_f64();
                self.say(&format!("conformance: {passed} passed, {failed} failed, in {seconds:.1} s"))?;
                self.checked = Some(subject);
                Ok(())
            }
            Some(Err(error)) => self.say(&format!("conformance: {}", error_chain(&error))),
            None => self.say("conformance: ended early, for the next change"),
        }
    }

    fn say(&mut self, text: &str) -> Result<(), CliError> {
        self.output.line(&visible_lines(text))?;
        self.output.flush()
    }
}

/// Removes the pods of a file, and waits until their volumes are unmounted.
async fn unmount(objects: &Path, daemon: &ScratchDaemon, arguments: &DevArguments) -> Result<(), CliError> {
    let socket = daemon.socket();
    let mut client = Client::connect(&socket).await?;
    let timeout = arguments.timeout.0;
    let named = manifest_file::objects(objects, &manifest_file::read(objects)?)?;
    for NamedObject { namespace, name, .. } in named.into_iter().filter(|object| object.kind == "Pod") {
        let pod = pb::PodSelector { uid: String::new(), namespace, name };
        let request = pb::RemovePodRequest { pod: Some(pod.clone()) };
        within(ANSWER_TIME, &socket, client.manager.remove_pod(request)).await?;
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
        let request = pb::WaitRequest { pod: Some(pod), timeout_ms };
        let waiting = client.manager.wait_for_unmount(request);
        let result = within(timeout.saturating_add(ANSWER_TIME), &socket, waiting).await?;
        if let Some(failure) = result.failure {
            return Err(CliError::Failed(explain(&failure, "unmounted", timeout)?));
        }
    }
    Ok(())
}

/// Whether nothing more can be done with the daemon.
fn is_fatal(error: &CliError) -> bool {
    matches!(error, CliError::Unreachable { .. } | CliError::Lost { .. } | CliError::Output(_))
}
