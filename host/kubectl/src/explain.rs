//! `kubectl volhost explain`: a pod's volumes as sentences.
//!
//! Each volume is a list of steps in the order in which Kubernetes makes them, up to the first that
//! is not done; what comes after it has not begun.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use volhost_table::Colour;

use crate::arguments::ExplainArguments;
use crate::chain::{self, ClaimChain, DriverChain, Source};
use crate::cluster::{Cluster, Read};
use crate::error::PluginError;
use crate::output::Output;
use crate::state::{Leader, Warning, attachment_error, has_ended, has_volumes, is_used, since};

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Done.
    Done,
    /// Not yet, and it may come by itself.
    Waits,
    /// It does not come by itself.
    Stuck,
    /// It could not be read.
    Unknown,
}

/// One step of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    progress: Progress,
    text: String,
}

/// A volume as steps, and who has to act.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Story {
    steps: Vec<Step>,
    acts: Option<String>,
}

impl Story {
    fn done(&mut self, text: impl Into<String>) {
        self.steps.push(Step { progress: Progress::Done, text: text.into() });
    }

    /// The last step: nothing comes after it.
    fn ends(mut self, progress: Progress, text: impl Into<String>, acts: impl Into<String>) -> Self {
        self.steps.push(Step { progress, text: text.into() });
        self.acts = Some(acts.into());
        self
    }

    fn unread(self, what: &str, reason: &str) -> Self {
        self.ends(
            Progress::Unknown,
            format!("{what} cannot be read: {reason}"),
            "you, with an account that may read it".to_owned(),
        )
    }

    fn text(&self, colour: bool) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let (mark, paint) = match step.progress {
                Progress::Done => ("done ", Colour::Green),
                Progress::Waits => ("waits", Colour::Yellow),
                Progress::Stuck => ("stuck", Colour::Red),
                Progress::Unknown => ("?    ", Colour::Yellow),
            };
            text.push_str(&format!("    {}  {}\n", paint.paint(mark, colour), step.text.trim()));
        }
        if let Some(acts) = &self.acts {
            text.push_str(&format!("    who acts: {acts}\n"));
        }
        text
    }
}

/// Runs the command.
///
/// # Errors
/// [`PluginError`].
pub(crate) async fn run(cluster: &Cluster, arguments: &ExplainArguments, output: &Output) -> Result<(), PluginError> {
    let (is_pod, name) = target(&arguments.what)?;
    let (namespace, now) = (cluster.namespace(), Timestamp::now());
    let text = if is_pod {
        explain_pod(cluster, namespace, &name, now, output.colour()).await?
    } else {
        let chain = chain::claim(cluster, namespace, &name, None).await;
        if chain.claim == Read::Missing {
            return Err(PluginError::Missing { kind: "pvc", namespace: namespace.to_owned(), name });
        }
        format!("claim {namespace}/{name}\n{}", claim_story(&chain, None, now).text(output.colour()))
    };
    output.write(&text)
}

/// Whether the words mean a pod, and the name.
fn target(words: &[String]) -> Result<(bool, String), PluginError> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (kind, name) = match words[..] {
        [kind, name] => (kind, name),
        [word] => word.split_once('/').unwrap_or(("pod", word)),
        _ => ("", ""),
    };
    let refused = || PluginError::Target(words.join(" "));
    if name.is_empty() || name.contains('/') {
        return Err(refused());
    }
    match kind {
        "pod" | "pods" | "po" => Ok((true, name.to_owned())),
        "pvc" | "persistentvolumeclaim" | "persistentvolumeclaims" | "claim" => Ok((false, name.to_owned())),
        _ => Err(refused()),
    }
}

async fn explain_pod(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    now: Timestamp,
    colour: bool,
) -> Result<String, PluginError> {
    let pod = chain::pod(cluster, namespace, name).await?;
    let events = chain::events(cluster, namespace, "Pod", name).await;
    let node = node_of(&pod);
    let mut text = format!("pod {namespace}/{name} {}\n", headline(&pod, &events, now));
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    for volume in volumes {
        let (title, story) = match chain::source(name, volume) {
            _ if !is_used(&pod, &volume.name) => {
                let mut story = Story::default();
                story.done("no container of the pod uses it, and so the node leaves it alone");
                ("not used".to_owned(), story)
            }
            Source::OfNode(kind) => (kind, of_node(&pod, &events, &volume.name, now)),
            Source::Csi { driver } => {
                let driver = chain::driver_of(cluster, driver, None, node).await;
                (
                    format!("csi {}", driver.name),
                    driver_story(Story::default(), &pod, &driver, &events, &volume.name, now),
                )
            }
            Source::Claim(claim) => {
                let chain = chain::claim(cluster, namespace, &claim, node).await;
                (format!("claim {claim}"), claim_story(&chain, Some((&pod, &events, &volume.name)), now))
            }
        };
        text.push_str(&format!("  {}: {title}\n{}", volume.name, story.text(colour)));
    }
    if volumes.is_empty() {
        text.push_str("  it has no volumes\n");
    }
    Ok(text)
}

/// The pod's node, once it has one.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn headline(pod: &Pod, events: &[Event], now: Timestamp) -> String {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    let deleting = pod.metadata.deletion_timestamp.as_ref();
    let deleting = deleting.map(|time| format!(", being deleted since {}", since(time.0, now))).unwrap_or_default();
    match node_of(pod) {
        Some(node) => format!("on {node}: {phase}{deleting}"),
        None => {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
            let refused = conditions.iter().find(|one| one.type_ == "PodScheduled" && one.status == "False");
            let reason = refused.and_then(|condition| condition.message.clone());
            let reason = reason.or_else(|| Warning::last(events, &["FailedScheduling"]).map(|warning| warning.message));
            let reason = reason.map(|reason| format!(": the scheduler says: {reason}")).unwrap_or_default();
            format!("has no node yet{deleting}{reason}")
        }
    }
}

/// The steps of a claim, and for a pod with it those on the node.
pub(crate) fn claim_story(chain: &ClaimChain, pod: Option<(&Pod, &[Event], &str)>, now: Timestamp) -> Story {
    let mut story = Story::default();
    let claim = match &chain.claim {
        Read::Found(claim) => claim,
        Read::Missing => {
            let text = format!("the claim {} does not exist", chain.name);
            return story.ends(Progress::Stuck, text, "you, or the program that creates the claim");
        }
        Read::Refused(reason) => return story.unread(&format!("the claim {}", chain.name), reason),
    };
    let Some((volume_name, volume)) = &chain.volume else { return unbound(story, chain, claim, pod, now) };
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    if phase == "Lost" {
        let text = format!("the claim has lost its PersistentVolume {volume_name}");
        return story.ends(
            Progress::Stuck,
            text,
            "you: its data is gone with the volume, or the volume has to be made again by hand",
        );
    }
    let volume = match volume {
        Read::Found(volume) => volume,
        Read::Missing => {
            let text = format!("the PersistentVolume {volume_name} that the claim names does not exist");
            return story.ends(
                Progress::Stuck,
                text,
                "you, or the program that creates the volume; or make a claim without volumeName",
            );
        }
        Read::Refused(reason) => return story.unread(&format!("the PersistentVolume {volume_name}"), reason),
    };
    if phase != "Bound" {
        let status = volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
        let text = format!("the claim waits to be bound to {volume_name}, which is {status}");
        return story.ends(Progress::Waits, text, "Kubernetes' controller manager");
    }
    story.done(format!("bound to {volume_name}"));
    grows(&mut story, claim);
    let Some(driver) = &chain.driver else {
        let text = format!("no CSI driver serves {volume_name}: the node does");
        story.done(text);
        return match pod {
            Some((pod, events, name)) => on_node(story, pod, events, name, now),
            None => story,
        };
    };
    match pod {
        Some((pod, events, name)) => driver_story(story, pod, driver, events, name, now),
        None => {
            story.done(format!("served by {}", driver.name));
            story
        }
    }
}

/// A claim whose volume is being made larger.
fn grows(story: &mut Story, claim: &PersistentVolumeClaim) {
    let conditions = claim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    for condition in conditions.iter().filter(|one| one.status == "True") {
        let what = match condition.type_.as_str() {
            "Resizing" => "the driver makes it larger",
            "FileSystemResizePending" => "its file system is made larger when a pod uses it",
            "ControllerResizeError" | "NodeResizeError" => "it could not be made larger",
            "ModifyVolumeError" => "its attributes could not be changed",
            _ => continue,
        };
        let message = condition.message.as_deref().filter(|text| !text.is_empty());
        story.steps.push(Step {
            progress: Progress::Waits,
            text: message.map_or_else(|| what.to_owned(), |message| format!("{what}: {message}")),
        });
    }
}

/// A claim without a volume.
fn unbound(
    story: Story,
    chain: &ClaimChain,
    claim: &PersistentVolumeClaim,
    pod: Option<(&Pod, &[Event], &str)>,
    now: Timestamp,
) -> Story {
    let warning = Warning::last(&chain.events, &[]).map(|warning| format!(" {}", warning.words(now)));
    let warning = warning.unwrap_or_default();
    let Some((class_name, class)) = &chain.class else {
        let text = format!("the claim names no class, and no PersistentVolume fits it.{warning}");
        return story.ends(Progress::Stuck, text, "you: make such a volume, or a claim with storageClassName");
    };
    let class = match class {
        Read::Found(class) => class,
        Read::Missing => {
            let text = format!(
                "the StorageClass {class_name} does not exist, and no PersistentVolume of that class fits.{warning}"
            );
            return story.ends(Progress::Stuck, text, "you: make the class or the volume");
        }
        Read::Refused(reason) => return story.unread(&format!("the StorageClass {class_name}"), reason),
    };
    let provisioner = &class.provisioner;
    if provisioner == "kubernetes.io/no-provisioner" {
        let text = format!("the class {class_name} makes no volumes, and no PersistentVolume of it fits.{warning}");
        return story.ends(Progress::Stuck, text, "you: make the volume");
    }
    let selected = claim.metadata.annotations.as_ref().and_then(|all| all.get("volume.kubernetes.io/selected-node"));
    if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") && selected.is_none() {
        let text = format!("the class {class_name} makes the volume where the first pod runs.{warning}");
        let acts = match pod {
            Some(_) => "the scheduler, which has to choose the pod's node",
            None => "the first pod that uses the claim",
        };
        return story.ends(Progress::Waits, text, acts);
    }
    let text = format!("{provisioner} has to make the volume, by class {class_name}.{warning}");
    let leaders: Vec<Leader> = chain.leases.iter().map(|lease| Leader::of(lease, now)).collect();
    let acts = match leaders.iter().find(|leader| **leader != Leader::None) {
        Some(Leader::Works(holder)) => format!("the driver's controller, which runs as {holder}"),
        _ if leaders.is_empty() => {
            format!("the controller of {provisioner}; no volhost controller has ever worked for it")
        }
        _ => {
            let text = format!("{text} No replica of its controller works now");
            let acts = format!(
                "the operator of {provisioner}, whose controller does not run: kubectl get pods -A | grep controller"
            );
            return story.ends(Progress::Stuck, text, acts);
        }
    };
    story.ends(Progress::Waits, text, acts)
}

/// A driver's volume on the pod's node.
fn driver_story(
    mut story: Story,
    pod: &Pod,
    driver: &DriverChain,
    events: &[Event],
    volume: &str,
    now: Timestamp,
) -> Story {
    let name = &driver.name;
    let Some(node) = node_of(pod) else {
        return story.ends(Progress::Waits, "the pod has no node yet", "the scheduler");
    };
    match &driver.node {
        Some(Read::Found(csi_node)) if !csi_node.spec.drivers.iter().any(|one| one.name == *name) => {
            let text = format!("the driver {name} is not registered on {node}");
            let acts = format!(
                "the operator of {name}, whose pod must run on {node}: kubectl get csinode {node} lists the drivers there"
            );
            return story.ends(Progress::Stuck, text, acts);
        }
        Some(Read::Missing) => {
            let text = format!("{node} has no CSINode, and so no driver");
            return story.ends(Progress::Stuck, text, format!("the operator of {node}, whose kubelet makes it"));
        }
        Some(Read::Refused(reason)) => return story.unread(&format!("the CSINode {node}"), reason),
        _ => story.done(format!("{name} is registered on {node}")),
    }
    match &driver.attachment {
        None => {}
        Some(Read::Found(attachment)) if attachment.status.as_ref().is_some_and(|status| status.attached) => {
            story.done(format!("attached to {node}"));
        }
        Some(Read::Found(attachment)) => {
            let error = attachment_error(attachment).map(|error| format!(": {error}")).unwrap_or_default();
            let asked = attachment.metadata.creation_timestamp.as_ref();
            let asked = asked.map(|time| format!(", asked for {} ago", since(time.0, now))).unwrap_or_default();
            let text = format!("not attached to {node}{asked}{error}");
            return story.ends(Progress::Waits, text, format!("the controller of {name}, which tries again"));
        }
        Some(Read::Missing) => {
            let text = match driver.elsewhere.first() {
                Some(other) => format!("not attached to {node}: it is attached to {}", other.spec.node_name),
                None => format!("not attached to {node}, and nothing has asked for it yet"),
            };
            let warning = Warning::last(events, &["FailedAttachVolume"]).map(|one| format!(". {}", one.words(now)));
            let acts = match driver.elsewhere.first() {
                Some(other) => {
                    format!("the pods on {} that use it: it is detached there once they are gone", other.spec.node_name)
                }
                None => "the attach/detach controller".to_owned(),
            };
            return story.ends(Progress::Waits, format!("{text}{}", warning.unwrap_or_default()), acts);
        }
        Some(Read::Refused(reason)) => return story.unread("the VolumeAttachment", reason),
    }
    on_node(story, pod, events, volume, now)
}

fn of_node(pod: &Pod, events: &[Event], volume: &str, now: Timestamp) -> Story {
    match node_of(pod) {
        Some(_) => on_node(Story::default(), pod, events, volume, now),
        None => Story::default().ends(Progress::Waits, "the pod has no node yet", "the scheduler"),
    }
}

/// What the kubelet, or another volume manager on the node, does last.
fn on_node(mut story: Story, pod: &Pod, events: &[Event], volume: &str, now: Timestamp) -> Story {
    if has_ended(pod) {
        story.done("the pod has ended");
        return story;
    }
    if has_volumes(pod) {
        story.done("mounted");
        return story;
    }
    // Events of a pod are of all its volumes: one that names this volume is this one's.
    let reasons = ["FailedMount", "FailedMapVolume", "VolumeResizeFailed", "FileSystemResizeFailed"];
    let own: Vec<Event> = events
        .iter()
        .filter(|event| event.message.as_deref().is_some_and(|text| text.contains(&format!("\"{volume}\""))))
        .cloned()
        .collect();
    let node = node_of(pod).unwrap_or_default();
    match Warning::last(&own, &reasons).or_else(|| Warning::last(events, &reasons)) {
        Some(warning) => {
            let acts = format!("the volume manager of {node}, which tries again; the cause is in the words above");
            story.ends(Progress::Waits, format!("not mounted. {}", warning.words(now)), acts)
        }
        None => story.ends(Progress::Waits, "not mounted yet", format!("the volume manager of {node}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn object<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn pod(node: Value, ready: &str) -> Pod {
        object(json!({
            "metadata": { "namespace": "a", "name": "p" },
            "spec": { "containers": [], "nodeName": node, "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "c" } }] },
            "status": { "conditions": [{ "type": "PodReadyToStartContainers", "status": ready }] },
        }))
    }

    fn claim(volume: &str, phase: &str) -> Read<PersistentVolumeClaim> {
        Read::Found(object(json!({
            "metadata": { "namespace": "a", "name": "c" },
            "spec": { "storageClassName": "fast", "volumeName": volume }, "status": { "phase": phase },
        })))
    }

    fn class(mode: &str) -> Option<(String, Read<k8s_openapi::api::storage::v1::StorageClass>)> {
        let class = json!({ "metadata": { "name": "fast" }, "provisioner": "d.test", "volumeBindingMode": mode });
        Some(("fast".to_owned(), Read::Found(object(class))))
    }

    /// A claim that is bound to a volume of a driver, which is registered on the node `n`.
    fn bound(attachment: Option<Read<Value>>) -> ClaimChain {
        let volume =
            json!({ "metadata": { "name": "v" }, "spec": { "csi": { "driver": "d.test", "volumeHandle": "v" } } });
        let node = json!({ "metadata": { "name": "n" }, "spec": { "drivers": [{ "name": "d.test", "nodeID": "n" }] } });
        let attachment = attachment.map(|read| match read {
            Read::Found(value) => Read::Found(object(value)),
            Read::Missing => Read::Missing,
            Read::Refused(reason) => Read::Refused(reason),
        });
        ClaimChain {
            name: "c".to_owned(),
            claim: claim("v", "Bound"),
            events: Vec::new(),
            class: class("Immediate"),
            leases: Vec::new(),
            volume: Some(("v".to_owned(), Read::Found(object(volume)))),
            driver: Some(DriverChain {
                name: "d.test".to_owned(),
                node: Some(Read::Found(object(node))),
                attachment,
                elsewhere: Vec::new(),
            }),
        }
    }

    fn unbound_claim(mode: &str) -> ClaimChain {
        ClaimChain { claim: claim("", "Pending"), class: class(mode), volume: None, driver: None, ..bound(None) }
    }

    /// The progress and the text of the last step, and who acts.
    fn end(chain: &ClaimChain, pod: &Pod) -> (Progress, String, String) {
        let story = claim_story(chain, Some((pod, &[], "data")), NOW.parse().unwrap());
        let last = story.steps.last().unwrap().clone();
        (last.progress, last.text, story.acts.unwrap_or_default())
    }

    fn attachment(attached: bool, error: &str) -> Value {
        json!({
            "metadata": { "name": "x", "creationTimestamp": "2026-01-01T00:09:00Z" },
            "spec": { "attacher": "d.test", "nodeName": "n", "source": { "persistentVolumeName": "v" } },
            "status": { "attached": attached, "attachError": { "message": error } },
        })
    }

    #[test]
    fn a_story_ends_at_the_first_step_that_is_not_done_and_names_who_acts() {
        let here = pod(json!("n"), "False");
        let cases: Vec<(ClaimChain, &Pod, Progress, &str, &str)> = vec![
            (
                ClaimChain { claim: Read::Missing, ..bound(None) },
                &here,
                Progress::Stuck,
                "does not exist",
                "creates the claim",
            ),
            (
                ClaimChain { claim: Read::Refused("no right".to_owned()), ..bound(None) },
                &here,
                Progress::Unknown,
                "cannot be read: no right",
                "an account that may read it",
            ),
            (
                unbound_claim("WaitForFirstConsumer"),
                &here,
                Progress::Waits,
                "where the first pod runs",
                "the scheduler",
            ),
            (
                unbound_claim("Immediate"),
                &here,
                Progress::Waits,
                "d.test has to make the volume",
                "no volhost controller",
            ),
            (
                ClaimChain { class: None, ..unbound_claim("Immediate") },
                &here,
                Progress::Stuck,
                "names no class",
                "storageClassName",
            ),
            (ClaimChain { claim: claim("v", "Lost"), ..bound(None) }, &here, Progress::Stuck, "lost its", "by hand"),
            (
                ClaimChain { volume: Some(("v".to_owned(), Read::Missing)), ..bound(None) },
                &here,
                Progress::Stuck,
                "v that the claim names does not exist",
                "creates the volume",
            ),
            (
                bound(Some(Read::Missing)),
                &here,
                Progress::Waits,
                "nothing has asked for it",
                "attach/detach controller",
            ),
            (
                bound(Some(Read::Found(attachment(false, "no slot")))),
                &here,
                Progress::Waits,
                "asked for 60s ago: no slot",
                "the controller of d.test",
            ),
            (
                bound(Some(Read::Found(attachment(true, "")))),
                &here,
                Progress::Waits,
                "not mounted yet",
                "volume manager of n",
            ),
        ];
        for (chain, pod, progress, text, acts) in cases {
            let (found, last, who) = end(&chain, pod);
            assert_eq!(found, progress, "{last}");
            assert!(last.contains(text), "{text}: {last}");
            assert!(who.contains(acts), "{acts}: {who}");
        }
        assert_eq!(end(&bound(None), &pod(json!("n"), "True")).1, "mounted");
        assert!(end(&bound(None), &pod(json!(null), "False")).1.contains("no node yet"));
    }

    #[test]
    fn a_driver_that_is_not_on_the_node_and_a_volume_on_another_one_are_named() {
        let here = pod(json!("n"), "False");
        let mut chain = bound(None);
        let driver = chain.driver.as_mut().unwrap();
        driver.node = Some(Read::Found(object(json!({ "metadata": { "name": "n" }, "spec": { "drivers": [] } }))));
        let (progress, text, _) = end(&chain, &here);
        assert_eq!((progress, text.as_str()), (Progress::Stuck, "the driver d.test is not registered on n"));

        let mut chain = bound(Some(Read::Missing));
        let mut other = attachment(true, "");
        other["spec"]["nodeName"] = json!("m");
        chain.driver.as_mut().unwrap().elsewhere = vec![object(other)];
        let (_, text, acts) = end(&chain, &here);
        assert!(text.contains("it is attached to m"), "{text}");
        assert!(acts.contains("the pods on m"), "{acts}");
    }

    #[test]
    fn words_for_objects_are_those_of_kubectl() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, is_pod, name) in [
            ("web", true, "web"),
            ("pod web", true, "web"),
            ("po/web", true, "web"),
            ("pvc/data", false, "data"),
            ("claim data", false, "data"),
        ] {
            assert_eq!(target(&words(text)).unwrap(), (is_pod, name.to_owned()), "{text}");
        }
        for text in ["node/n", "pod/", "pod a/b", "service web"] {
            assert!(target(&words(text)).is_err(), "{text}");
        }
    }
}
