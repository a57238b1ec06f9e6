//! The steps that are shown, and the state after the last of them.

use serde_json::{Value, json};
use volhost_core::{Core, CoreImage};
use volhost_model::names::{PodUid, UniqueVolumeName};
use volhost_model::view::{PodView, VolumeView};
use volhost_recording::subjects::{KnownNames, Subjects};
use volhost_recording::{ReplayedStep, sentences};

use crate::error::CliError;
use crate::format::{printable, rfc3339, until};

/// The width of a step's number and its time.
const MARGIN: usize = 37;

/// The steps of a pod, of a volume, or all.
#[derive(Debug)]
pub(super) struct Story {
    names: KnownNames,
    pod: Option<String>,
    volume: Option<String>,
    /// The steps are printed as data, too.
    as_data: bool,
    steps: Vec<Told>,
}

/// A step that is shown.
#[derive(Debug)]
struct Told {
    number: u64,
    at: u64,
    event: String,
    decisions: Vec<String>,
    /// As data; null if that is not printed.
    document: Value,
}

/// The pods and volumes that were asked for, after the last step.
#[derive(Debug)]
pub(super) struct State {
    pods: Vec<PodView>,
    unused: Vec<VolumeView>,
    at: u64,
}

impl Story {
    /// Begins with the names of a state.
    pub(super) fn new(state: &CoreImage, pod: Option<String>, volume: Option<String>, as_data: bool) -> Self {
        Self { names: KnownNames::of(state), pod, volume, as_data, steps: Vec::new() }
    }

    /// Adds a step, if it is one of those that are shown. One that differs is shown in any case.
    pub(super) fn tell(&mut self, step: ReplayedStep) -> Result<(), CliError> {
        let ReplayedStep { number, at, event, commands, difference } = step;
        self.names.learn_event(&event);
        let subjects = self.names.subjects(&event, &commands);
        let told = sentences::event(&event, &self.names);
        self.names.learn_commands(&commands);
        if difference.is_none() && !self.is_shown(&subjects) {
            return Ok(());
        }
        let decisions: Vec<String> =
            commands.iter().map(|command| sentences::command(command, at, &self.names)).collect();
        let failed = |error: serde_json::Error| CliError::Encode(error.to_string());
        let document = match self.as_data {
            false => Value::Null,
            true => json!({
                "step": number,
                "time": rfc3339(at),
                "event": told,
                "decisions": decisions,
                "eventData": serde_json::to_value(&event).map_err(failed)?,
                "commands": serde_json::to_value(&commands).map_err(failed)?,
            }),
        };
        self.steps.push(Told { number, at, event: told, decisions, document });
        Ok(())
    }

    fn is_shown(&self, subjects: &Subjects) -> bool {
        let of_pod =
            self.pod.as_ref().is_none_or(|named| subjects.pods.iter().any(|pod| self.names.is_pod(pod, named)));
        let of_volume = self
            .volume
            .as_ref()
            .is_none_or(|named| subjects.volumes.iter().any(|volume| self.names.is_volume(volume, named)));
        of_pod && of_volume
    }

    /// Whether no step is shown.
    pub(super) const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps as text.
    pub(super) fn lines(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let time = rfc3339(step.at).unwrap_or_default();
            text.push_str(&format!("{:>8}  {time}  {}\n", step.number, printable(&step.event)));
            for decision in &step.decisions {
                text.push_str(&format!("{:MARGIN$}-> {}\n", "", printable(decision)));
            }
        }
        text
    }

    /// The steps as data.
    pub(super) fn documents(&self) -> Vec<&Value> {
        self.steps.iter().map(|step| &step.document).collect()
    }

    /// What is known of the pods and volumes that were asked for.
    pub(super) fn state(&self, machine: &Core, at: u64) -> State {
        let is_volume = |view: &VolumeView| {
            self.volume.as_ref().is_none_or(|named| {
                view.name == *named
                    || UniqueVolumeName::new(view.unique_name.as_str())
                        .is_ok_and(|volume| self.names.is_volume(&volume, named))
            })
        };
        let is_pod = |view: &PodView| {
            let named = |named: &String| PodUid::new(view.uid.as_str()).is_ok_and(|pod| self.names.is_pod(&pod, named));
            self.pod.as_ref().is_none_or(named)
        };
        let mut pods: Vec<PodView> = machine.pods().into_iter().filter(is_pod).collect();
        for pod in &mut pods {
            pod.volumes.retain(is_volume);
        }
        if self.volume.is_some() {
            pods.retain(|pod| !pod.volumes.is_empty());
        }
        let unused =
            machine.unused_volumes().into_iter().filter(|view| self.pod.is_none() && is_volume(view)).collect();
        State { pods, unused, at }
    }
}

impl State {
    /// The state as text.
    pub(super) fn lines(&self) -> String {
        let mut text = String::new();
        for pod in &self.pods {
            let name = if pod.name.is_empty() { pod.uid.clone() } else { format!("{}/{}", pod.namespace, pod.name) };
            text.push_str(&format!(
                "  pod {}: {}, {} of {} volumes ready\n",
                printable(&name),
                pod.phase.as_str(),
                pod.ready,
                pod.total
            ));
            text.extend(pod.volumes.iter().map(|volume| format!("    {}\n", self.volume(volume))));
        }
        text.extend(self.unused.iter().map(|volume| format!("  {}\n", self.volume(volume))));
        if text.is_empty() { "  nothing that was asked for is known\n".to_owned() } else { text }
    }

    fn volume(&self, volume: &VolumeView) -> String {
        let names = [&volume.name, &volume.spec_name, &volume.unique_name];
        let name = names.into_iter().find(|name| !name.is_empty()).map_or("", String::as_str);
        let mut text = format!("volume {name}: {}", volume.state.as_str());
        if let Some(failure) = &volume.failure {
            text.push_str(&format!("; {failure}"));
        }
        if volume.retry_at.is_some() {
            text.push_str(&format!("; next try: {}", until(volume.retry_at, self.at)));
        }
        printable(&text)
    }

    /// The state as data.
    pub(super) fn documents(&self) -> Value {
        json!({"pods": self.pods, "unusedVolumes": self.unused})
    }
}
