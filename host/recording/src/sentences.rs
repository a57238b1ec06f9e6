//! Events and commands in sentences, for people.

use volhost_core::{
    CoreCommand, DesiredPod, Event, Operation, OperationId, OperationKind, OperationReport, Time, WaitFailure,
};
use volhost_model::view::EventKind;

use crate::subjects::KnownNames;

/// Microseconds in a millisecond and in a second.
const MILLI: Time = 1_000;
const SECOND: Time = 1_000_000;

/// Returns what happened, in a sentence without its full stop. The names of the event are known.
pub fn event(event: &Event, names: &KnownNames) -> String {
    match event {
        Event::PodDesired(desired) => pod_desired(desired),
        Event::PodGone { uid } => format!("pod {} is gone", names.pod(uid)),
        Event::SourcesSynced => "every source of pods has been read".to_owned(),
        Event::Recovered(found) => {
            let how = if found.intact { "mounted completely" } else { "perhaps mounted, or in part" };
            format!("an earlier run left volume {} of pod {}: {how}", found.unique_name, names.pod(&found.pod))
        }
        Event::RecoveredDevice(found) => {
            let how = match (found.attachable, found.stageable) {
                (true, true) => "perhaps attached and staged",
                (true, false) => "perhaps attached",
                (false, _) => "perhaps staged",
            };
            format!("an earlier run left volume {}: {how}", found.unique_name)
        }
        Event::PluginChanged { plugin } => format!("plugin {plugin} was loaded or replaced, or its driver was"),
        Event::StorageAnswers(volumes) => format!("the storage of {} answers again", list(volumes)),
        Event::OperationDone { id, report } => format!("{} {}", operation(*id, names), end(report)),
        Event::OperationOverdue { id, message } => {
            format!("{} has passed its deadline: {message}", operation(*id, names))
        }
        Event::Timer => "the timer has run out".to_owned(),
        Event::WaitMounted { waiter, uid, .. } => {
            format!("caller {waiter} waits until pod {} is mounted", names.pod(uid))
        }
        Event::WaitUnmounted { waiter, uid, .. } => {
            format!("caller {waiter} waits until pod {} is unmounted", names.pod(uid))
        }
        Event::WaitCancelled { waiter } => format!("caller {waiter} has gone away"),
        Event::Vanished { pod, volume } => {
            format!("the mount of volume {volume} of pod {} is gone, and no operation unmounted it", names.pod(pod))
        }
        Event::DeviceVanished { volume } => {
            format!("the staging mount of volume {volume} is gone, and no operation unmounted it")
        }
        Event::SourceChanged { uid } => format!("a source of volumes of pod {} may have changed", names.pod(uid)),
        Event::Refresh => "it is time to refresh volumes".to_owned(),
        Event::ReportedInUse(volumes) => format!("the node's status reports as in use: {}", list(volumes)),
        Event::NodeAttachments(volumes) => format!("the controller has attached: {}", list(names_of(volumes))),
        Event::AttachmentsSoFar(volumes) => {
            format!("the controller has attached, as far as it could be read: {}", list(names_of(volumes)))
        }
        Event::AttachFailures(volumes) => format!("the controller cannot attach: {}", list(names_of(volumes))),
        Event::NotAttached(volumes) => format!("plugins do not find attached: {}", list(volumes)),
        Event::Drain => "the node is drained".to_owned(),
        Event::DrainEnded => "the drain was ended".to_owned(),
    }
}

/// Returns what the state machine decided at this time, in a sentence without its full stop.
pub fn command(command: &CoreCommand, at: Time, names: &KnownNames) -> String {
    match command {
        CoreCommand::Start(operation) => start(operation, names),
        CoreCommand::ArmTimer(due) => format!("wake in {}", duration(due.saturating_sub(at))),
        CoreCommand::Publish(notice) => {
            let kind = match notice.kind {
                EventKind::Normal => "event",
                EventKind::Warning => "warning",
            };
            format!("{kind} {}: {}", notice.reason, notice.message)
        }
        CoreCommand::Answer { waiter, result } => {
            let pod = names.waits_for(*waiter).map(|pod| format!(", which waits for pod {pod}")).unwrap_or_default();
            match result {
                Ok(()) => format!("answer caller {waiter}{pod}: done"),
                Err(failure) => format!("answer caller {waiter}{pod}: {}", wait_failure(failure)),
            }
        }
    }
}

/// Returns what an operation is to do.
pub fn start(operation: &Operation, names: &KnownNames) -> String {
    let Operation { id, kind, volume, plugin, pod_uid, .. } = operation;
    let details = match kind {
        OperationKind::Mount { remount: true, .. } => " again".to_owned(),
        OperationKind::Expand { from, to } => format!(" from {from} to {to} bytes"),
        _ => String::new(),
    };
    let pod = pod_uid.as_ref().map(|pod| format!(" for pod {}", names.pod(pod))).unwrap_or_default();
    format!("start {}{details} of volume {volume}{pod} by plugin {plugin} (operation {id})", kind.name())
}

fn pod_desired(desired: &DesiredPod) -> String {
    let volumes = desired.volumes.iter().map(|volume| match &volume.blocked {
        None => volume.outer_name.to_string(),
        Some(why) => format!("{} (blocked: {why})", volume.outer_name),
    });
    let unresolved = desired.unresolved.iter().map(|one| format!("{} (unresolved: {})", one.outer_name, one.reason));
    let all: Vec<String> = volumes.chain(unresolved).collect();
    let with = if all.is_empty() { "without volumes".to_owned() } else { format!("with volumes {}", all.join(", ")) };
    format!("pod {} exists, {with}", desired.pod.full_name())
}

fn operation(id: OperationId, names: &KnownNames) -> String {
    match names.operation(id) {
        None => format!("operation {id}, which is not known,"),
        Some(known) => {
            let pod = known.pod.as_ref().map(|pod| format!(" for pod {}", names.pod(pod))).unwrap_or_default();
            format!("{} of volume {}{pod} (operation {id})", known.name, known.volume)
        }
    }
}

fn end(report: &OperationReport) -> String {
    match &report.result {
        Ok(()) => "succeeded".to_owned(),
        Err(_) if report.cancelled => "was cancelled".to_owned(),
        Err(failure) => format!("failed: {failure}"),
    }
}

fn wait_failure(failure: &WaitFailure) -> String {
    if failure.unknown_pod {
        return "the pod is not known".to_owned();
    }
    let volumes: Vec<String> = failure.volumes.iter().map(|one| format!("{}: {}", one.name, one.step)).collect();
    let why = if failure.timed_out { "the time is over" } else { "it cannot succeed" };
    format!("{why} ({})", volumes.join("; "))
}

fn names_of<T>(volumes: &[(T, String)]) -> impl IntoIterator<Item = &T> {
    volumes.iter().map(|(volume, _)| volume)
}

fn list<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn duration(micros: Time) -> String {
    if micros < SECOND {
        format!("{} ms", micros / MILLI)
    } else {
        format!("{}.{} s", micros / SECOND, micros % SECOND / (SECOND / 10))
    }
}
