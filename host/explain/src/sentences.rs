//! The chain of sentences: pod, claim, PersistentVolume, plugin, step, cause, next try, and who
//! must act.

use volhost_model::FailureClass;
use volhost_model::view::{
    ClaimView, OperationView, PersistentVolumeView, PluginView, PodPhase, PodView, VolumeState, VolumeView,
};

use crate::reason;
use crate::times::{age, until};

/// What is known of a volume.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The volume.
    pub volume: &'a VolumeView,
    /// The volume's claim; none when no source has it.
    pub claim: Option<&'a ClaimView>,
    /// The claim's PersistentVolume.
    pub persistent_volume: Option<&'a PersistentVolumeView>,
    /// All plugins.
    pub plugins: &'a [PluginView],
    /// The operation that runs on the volume.
    pub running: Option<&'a OperationView>,
    /// The node is drained.
    pub is_drained: bool,
    /// Microseconds since the Unix epoch.
    pub now_us: u64,
}

/// The pod in a sentence.
pub fn of_pod(pod: &PodView) -> String {
    let name = if pod.name.is_empty() { pod.uid.clone() } else { format!("{}/{}", pod.namespace, pod.name) };
    let ready = format!("{} of {} volumes ready", pod.ready, pod.total);
    match pod.phase {
        PodPhase::Mounted if pod.volumes.iter().all(|volume| volume.failure.is_none()) => {
            format!("Pod {name} is mounted: {ready}. You need not act.")
        }
        PodPhase::Mounted => format!("Pod {name} is mounted: {ready}."),
        PodPhase::Mounting => format!("Pod {name} is not mounted: {ready}."),
        PodPhase::Unmounting => format!("Pod {name} is gone, and its volumes are being unmounted."),
    }
}

/// The chain for a volume, a sentence each. The last one says who must act.
pub fn explanation(facts: &Facts<'_>) -> Vec<String> {
    let mut sentences = vec![state(facts.volume)];
    sentences.extend(claim(facts));
    sentences.extend(plugin(facts));
    sentences.extend(running(facts));
    sentences.extend(cause(facts));
    sentences.extend(next(facts));
    sentences.push(who_acts(facts));
    sentences
}

fn state(volume: &VolumeView) -> String {
    let name = if volume.name.is_empty() { &volume.spec_name } else { &volume.name };
    let of = match volume.pod.as_str() {
        "" => format!("Volume {}", volume.unique_name),
        pod => format!("Volume {name} of pod {pod}"),
    };
    let state = match volume.state {
        VolumeState::Unresolved => "cannot be resolved: volhost does not know what to mount",
        VolumeState::Pending => "is not mounted",
        VolumeState::Attaching => "waits for its attachment to this node",
        VolumeState::Mounting => "is being mounted",
        VolumeState::Mounted => "is mounted",
        VolumeState::Uncertain => "may be mounted: the last operation on it did not report",
        VolumeState::Unmounting => "is being unmounted",
        VolumeState::Unused => "is used by no pod, and is still attached or staged",
    };
    format!("{of} {state}.")
}

fn claim(facts: &Facts<'_>) -> Vec<String> {
    let name = &facts.volume.claim;
    if name.is_empty() {
        return Vec::new();
    }
    let Some(claim) = facts.claim else {
        return vec![format!("It comes by claim {name}, which no source has.")];
    };
    let mut sentences = vec![match claim.phase.as_str() {
        "Bound" => format!("It comes by claim {name}, which is bound to PersistentVolume {}.", claim.volume),
        phase => format!("It comes by claim {name}, which is {phase}{}.", after_colon(&claim.reason)),
    }];
    if let Some(volume) = facts.persistent_volume.filter(|volume| !volume.reason.is_empty()) {
        sentences.push(format!("PersistentVolume {} has a problem{}.", volume.name, after_colon(&volume.reason)));
    }
    sentences
}

/// The plugin that serves the volume, or that would.
fn concerned<'a>(facts: &Facts<'a>) -> Option<&'a PluginView> {
    let volume = facts.volume;
    if !volume.plugin.is_empty() {
        return facts.plugins.iter().find(|plugin| plugin.name == volume.plugin);
    }
    // Of an unresolved volume, only the failure's text has the source or the plugin.
    let message = volume.failure.as_ref().map(|failure| failure.message.as_str()).unwrap_or_default();
    let is_named = |plugin: &&PluginView| {
        let serves = plugin.sources.iter().any(|source| message.contains(&format!("{source:?}")));
        plugin.state != "Ready" && (serves || message.contains(&plugin.name))
    };
    facts.plugins.iter().find(is_named)
}

fn plugin(facts: &Facts<'_>) -> Option<String> {
    let volume = facts.volume;
    match (concerned(facts), volume.plugin.as_str()) {
        (Some(plugin), _) => {
            Some(format!("Plugin {} serves it, and is {}{}.", plugin.name, plugin.state, after_colon(&plugin.error)))
        }
        (None, "") => None,
        (None, name) => Some(format!("Plugin {name} serves it, and is not loaded.")),
    }
}

fn running(facts: &Facts<'_>) -> Option<String> {
    let operation = facts.running?;
    let step = if operation.step.is_empty() { "no step reported" } else { &operation.step };
    let overdue = if operation.overdue { ", past its deadline" } else { "" };
    Some(format!("{} runs for {}{overdue}, at: {step}.", operation.name, age(operation.since, facts.now_us)))
}

fn cause(facts: &Facts<'_>) -> Option<String> {
    let volume = facts.volume;
    let failure = volume.failure.as_ref()?;
    let message = failure.message.trim_end_matches('.');
    if volume.state == VolumeState::Unresolved {
        return Some(format!("The cause: {message}."));
    }
    let times = match volume.failures {
        0 | 1 => String::new(),
        times => format!(", {times} times in a row"),
    };
    let outcome = match failure.class {
        FailureClass::Final => "Nothing was left behind.",
        FailureClass::Uncertain => "It may have happened, and will be repeated or undone.",
        FailureClass::Transient => "It was not started: something that it needs is missing for now.",
    };
    Some(format!("Step {} failed{times}: {message}. {outcome}", failure.step))
}

fn next(facts: &Facts<'_>) -> Option<String> {
    let volume = facts.volume;
    if facts.running.is_some() {
        return None;
    }
    match until(volume.retry_at, facts.now_us).as_str() {
        "" if volume.state == VolumeState::Unresolved => {
            Some("volhost looks again when an object, a plugin or a driver changes.".to_owned())
        }
        "" => None,
        "now" => Some("The next try is due now.".to_owned()),
        next => Some(format!("The next try is in {next}.")),
    }
}

fn who_acts(facts: &Facts<'_>) -> String {
    let volume = facts.volume;
    if facts.is_drained && !matches!(volume.state, VolumeState::Unmounting | VolumeState::Unused) {
        return "You must act: the node is drained; `volhost uncordon` mounts volumes again.".to_owned();
    }
    if facts.running.is_some_and(|operation| operation.overdue) {
        return "The storage's operator must act: the storage has not answered at this step. The operation goes on once it does."
            .to_owned();
    }
    if let Some(sentence) = of_plugin(facts).or_else(|| of_claim(facts)) {
        return sentence;
    }
    let Some(failure) = &volume.failure else {
        return match volume.state {
            VolumeState::Mounted if !volume.pending_edit.is_empty() => format!(
                "You must act if the edit ({}) is to apply: delete the pod and create it again.",
                volume.pending_edit
            ),
            VolumeState::Unresolved => "You must act: see `volhost describe pod`.".to_owned(),
            _ => "You need not act.".to_owned(),
        };
    };
    if !volume.attached_elsewhere.is_empty() {
        return format!(
            "Node {} must act: the volume is attached there, or may be, and has to be detached.",
            volume.attached_elsewhere
        );
    }
    if volume.state == VolumeState::Unresolved {
        return "You must act: remove the cause.".to_owned();
    }
    if failure.class == FailureClass::Transient {
        return "You need not act yet: volhost goes on once what is missing is there.".to_owned();
    }
    match reason::of_step(&failure.step) {
        Some(reason) => format!(
            "You must act unless the cause passes by itself; the page \"When a step fails\" has the way out for {reason}."
        ),
        None => "You must act unless the cause passes by itself.".to_owned(),
    }
}

/// Who must act because of the claim.
fn of_claim(facts: &Facts<'_>) -> Option<String> {
    let volume = facts.volume;
    if volume.claim.is_empty() || volume.state != VolumeState::Unresolved {
        return None;
    }
    let name = &volume.claim;
    match facts.claim.map(|claim| claim.phase.as_str()) {
        None => Some(format!(
            "You must act: add claim {name}, in the manifest folder or by `volhost apply`, or correct its name in the pod."
        )),
        Some("Lost") => Some(format!("You must act: add the PersistentVolume that claim {name} names.")),
        Some("Pending") => Some(format!(
            "You must act: add a PersistentVolume that fits claim {name}, or give the claim a class that provisions one."
        )),
        Some(_) => None,
    }
}

/// Who must act because of the plugin.
fn of_plugin(facts: &Facts<'_>) -> Option<String> {
    let volume = facts.volume;
    let failure = volume.failure.as_ref()?;
    let Some(plugin) = concerned(facts) else {
        return match volume.plugin.as_str() {
            "" if failure.message.contains("no loaded plugin serves") => Some(
                "You must act: put a plugin that serves this source into the plugin folder, or correct the source in the pod."
                    .to_owned(),
            ),
            "" => None,
            name => Some(format!("You must act: put the file of plugin {name} back into the plugin folder.")),
        };
    };
    let name = &plugin.name;
    match plugin.state.as_str() {
        "Compiling" | "Waiting" => Some(format!("You need not act: volhost goes on once plugin {name} is loaded.")),
        "Failed" => Some(format!("You must act: replace the file of plugin {name}.")),
        "Quarantined" => Some(format!(
            "You must act: replace the file of plugin {name}, or send volhostd SIGHUP to try it once more."
        )),
        "Retired" => Some(format!("You must act: put the file of plugin {name} back, or give back its grant.")),
        _ => None,
    }
}

/// `: TEXT`, or nothing.
fn after_colon(text: &str) -> String {
    match text.trim_end_matches('.') {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

#[cfg(test)]
mod tests {
    use volhost_model::Failure;

    use super::*;

    const NOW: u64 = 100_000_000;

    fn volume(state: VolumeState) -> VolumeView {
        let empty = serde_json::json!({
            "name": "data", "spec_name": "data", "unique_name": "a.b/c/d", "plugin": "a.b/c", "pod": "shop/web",
            "pod_uid": "u", "state": "Mounted", "path": "", "claim": "", "read_only": false, "since": 1,
            "ready_at": null, "failure": null, "retry_at": null, "failures": 0,
        });
        VolumeView { state, ..serde_json::from_value(empty).unwrap() }
    }

    fn unresolved(message: &str) -> VolumeView {
        VolumeView {
            unique_name: String::new(),
            plugin: String::new(),
            failure: Some(Failure::new(FailureClass::Transient, "resolve", message)),
            ..volume(VolumeState::Unresolved)
        }
    }

    fn failed(class: FailureClass, step: &str, message: &str) -> VolumeView {
        VolumeView {
            failure: Some(Failure::new(class, step, message)),
            failures: 3,
            retry_at: Some(NOW + 4_000_000),
            ..volume(VolumeState::Pending)
        }
    }

    fn plugin(state: &str) -> PluginView {
        serde_json::from_value(serde_json::json!({
            "name": "a.b/c", "version": "", "state": state, "file": "", "digest": "", "abi": "", "sources": ["nfs"],
            "exports": [], "imports": [], "volumes": 0, "error": "",
        }))
        .unwrap()
    }

    fn claimed(phase: &str, reason: &str) -> ClaimView {
        ClaimView { phase: phase.into(), reason: reason.into(), volume: "disk".into(), ..ClaimView::default() }
    }

    fn facts<'a>(volume: &'a VolumeView, plugins: &'a [PluginView]) -> Facts<'a> {
        Facts { volume, claim: None, persistent_volume: None, plugins, running: None, is_drained: false, now_us: NOW }
    }

    fn last(facts: &Facts<'_>) -> String {
        explanation(facts).pop().unwrap()
    }

    #[test]
    fn a_volume_that_is_ready_or_on_its_way_needs_no_one_to_act() {
        let plugins = [plugin("Ready")];
        for state in [
            VolumeState::Mounted,
            VolumeState::Mounting,
            VolumeState::Attaching,
            VolumeState::Unmounting,
            VolumeState::Unused,
        ] {
            assert_eq!(last(&facts(&volume(state), &plugins)), "You need not act.", "{state:?}");
        }
        let edited = VolumeView { pending_edit: "mountOptions".into(), ..volume(VolumeState::Mounted) };
        assert!(last(&facts(&edited, &plugins)).contains("delete the pod and create it again"));
        assert_eq!(
            explanation(&facts(&volume(VolumeState::Mounted), &plugins)),
            ["Volume data of pod shop/web is mounted.", "Plugin a.b/c serves it, and is Ready.", "You need not act."]
        );
    }

    #[test]
    fn a_claim_is_followed_to_what_it_lacks() {
        let waits = VolumeView { claim: "shop/data".into(), ..unresolved("PVC is not bound.") };
        let missing = facts(&waits, &[]);
        assert_eq!(
            explanation(&missing),
            [
                "Volume data of pod shop/web cannot be resolved: volhost does not know what to mount.",
                "It comes by claim shop/data, which no source has.",
                "The cause: PVC is not bound.",
                "volhost looks again when an object, a plugin or a driver changes.",
                "You must act: add claim shop/data, in the manifest folder or by `volhost apply`, or correct its name in the pod.",
            ]
        );
        let pending = claimed("Pending", "no class");
        let pending = Facts { claim: Some(&pending), ..missing };
        assert!(explanation(&pending)[1].ends_with("which is Pending: no class."));
        assert!(last(&pending).contains("add a PersistentVolume that fits claim shop/data"));
        let lost = claimed("Lost", "");
        assert!(last(&Facts { claim: Some(&lost), ..missing }).contains("add the PersistentVolume"));
        let bound = claimed("Bound", "");
        let disk = PersistentVolumeView { name: "disk".into(), reason: "too slow".into(), ..Default::default() };
        let bound = explanation(&Facts { claim: Some(&bound), persistent_volume: Some(&disk), ..missing });
        assert!(bound[1].ends_with("which is bound to PersistentVolume disk."), "{bound:?}");
        assert_eq!(bound[2], "PersistentVolume disk has a problem: too slow.");
    }

    #[test]
    fn a_plugin_that_does_not_serve_is_named_with_the_way_out() {
        let source = unresolved("no loaded plugin serves the volume source \"nfs\"; served are emptyDir");
        assert!(last(&facts(&source, &[])).starts_with("You must act: put a plugin that serves this source"));
        for (state, way_out) in [
            ("Compiling", "You need not act: volhost goes on once plugin a.b/c is loaded."),
            ("Failed", "You must act: replace the file of plugin a.b/c."),
            ("Quarantined", "SIGHUP"),
            ("Retired", "put the file of plugin a.b/c back"),
        ] {
            let plugins = [plugin(state)];
            let sentences = explanation(&facts(&source, &plugins));
            assert_eq!(sentences[1], format!("Plugin a.b/c serves it, and is {state}."));
            assert!(sentences.last().unwrap().contains(way_out), "{state}: {sentences:?}");
        }
        let gone = failed(FailureClass::Transient, "UnmountVolume.TearDown", "the plugin is not loaded");
        assert_eq!(explanation(&facts(&gone, &[]))[1], "Plugin a.b/c serves it, and is not loaded.");
        assert!(last(&facts(&gone, &[])).contains("put the file of plugin a.b/c back"));
    }

    #[test]
    fn a_failed_step_has_its_cause_its_outcome_and_the_next_try() {
        let plugins = [plugin("Ready")];
        let volume = failed(FailureClass::Final, "MountVolume.SetUp", "No such device.");
        assert_eq!(
            explanation(&facts(&volume, &plugins))[2..],
            [
                "Step MountVolume.SetUp failed, 3 times in a row: No such device. Nothing was left behind.",
                "The next try is in 4s.",
                "You must act unless the cause passes by itself; the page \"When a step fails\" has the way out for FailedMount.",
            ]
        );
        let uncertain = failed(FailureClass::Uncertain, "MountVolume.SetUp", "no answer");
        assert!(explanation(&facts(&uncertain, &plugins))[2].ends_with("will be repeated or undone."));
        let transient = failed(FailureClass::Transient, "MountVolume.SetUp", "no driver");
        assert!(last(&facts(&transient, &plugins)).starts_with("You need not act yet"));
        let elsewhere = VolumeView {
            attached_elsewhere: "node-2".into(),
            ..failed(FailureClass::Final, "AttachVolume.Attach", "Multi-Attach")
        };
        assert!(last(&facts(&elsewhere, &plugins)).starts_with("Node node-2 must act"));
    }

    #[test]
    fn an_operation_that_hangs_and_a_drain_come_before_the_last_failure() {
        let plugins = [plugin("Ready")];
        let volume = failed(FailureClass::Uncertain, "MountVolume.SetUp", "no answer");
        let operation = OperationView {
            id: 1,
            name: "volume_mount".into(),
            volume: "a.b/c/d".into(),
            pod: "shop/web".into(),
            plugin: "a.b/c".into(),
            running: true,
            step: "mount-target.attach".into(),
            since: NOW - 90_000_000,
            overdue: true,
            failures: 0,
            retry_at: None,
            failure: None,
        };
        let hangs = Facts { running: Some(&operation), ..facts(&volume, &plugins) };
        let sentences = explanation(&hangs);
        assert_eq!(sentences[2], "volume_mount runs for 90s, past its deadline, at: mount-target.attach.");
        assert!(!sentences.iter().any(|sentence| sentence.contains("next try")), "{sentences:?}");
        assert!(sentences.last().unwrap().starts_with("The storage's operator must act"), "{sentences:?}");
        let drained = Facts { is_drained: true, ..hangs };
        assert!(last(&drained).contains("volhost uncordon"));
    }

    #[test]
    fn a_pod_is_told_in_a_sentence() {
        let pod = |phase, ready| {
            let empty = serde_json::json!({
                "uid": "u", "namespace": "shop", "name": "web", "phase": "Mounted", "ready": ready, "total": 2,
                "since": 1, "ready_at": null, "volumes": [], "errors": [],
            });
            of_pod(&PodView { phase, ..serde_json::from_value(empty).unwrap() })
        };
        assert_eq!(pod(PodPhase::Mounted, 2), "Pod shop/web is mounted: 2 of 2 volumes ready. You need not act.");
        assert_eq!(pod(PodPhase::Mounting, 1), "Pod shop/web is not mounted: 1 of 2 volumes ready.");
        assert!(pod(PodPhase::Unmounting, 0).contains("is gone"));
    }
}
