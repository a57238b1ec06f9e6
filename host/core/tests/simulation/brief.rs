//! Events as one line of the trace.

use volhost_core::Event;

use crate::sim::Sim;

pub fn event(sim: &Sim<'_>, event: &Event) -> String {
    match event {
        Event::PodDesired(pod_report) => {
            let volumes = pod_report.volumes.iter().map(|volume| {
                let (variant, capacity) =
                    (crate::kinds::variant_of(&volume.spec), crate::kinds::capacity_of(&volume.spec));
                format!("{}/{variant}/{capacity}", volume.outer_name)
            });
            let unresolved = pod_report.unresolved.iter().map(|volume| format!("{}?", volume.outer_name));
            format!(
                "{} is wanted with [{}]",
                pod_report.pod.uid,
                volumes.chain(unresolved).collect::<Vec<_>>().join(" ")
            )
        }
        Event::Vanished { pod, volume } => format!("the mount of {volume} for {pod} has vanished"),
        Event::DeviceVanished { volume } => format!("the node's mount of {volume} has vanished"),
        Event::PodGone { uid } => format!("{uid} is gone"),
        Event::OperationDone { id, report } => {
            let end = report
                .result
                .as_ref()
                .map_or_else(|failure| format!("fails, {:?}", failure.class).to_lowercase(), |()| "is done".to_owned());
            let device = report.device.map(|device| format!(", device {device:?}").to_lowercase()).unwrap_or_default();
            format!("operation {id} {end}{device}")
        }
        Event::OperationOverdue { id, .. } => format!("operation {id} is overdue"),
        Event::Recovered(found) => format!(
            "found {} of {}, {}, {}",
            found.unique_name,
            found.pod,
            if found.intact { "complete" } else { "not known to be complete" },
            if found.spec.is_some() { "recorded" } else { "without a record" }
        ),
        Event::RecoveredDevice(found) => format!("found {} staged or attached", found.unique_name),
        Event::AttachFailures(list) => format!("the controller could not attach {} volumes", list.len()),
        Event::AttachmentsSoFar(list) => format!("the controller reports attached, among others: {list:?}"),
        Event::NodeAttachments(list) => {
            let names: Vec<_> = list.iter().map(|(name, _)| name.as_str()).collect();
            format!("the controller reports attached: [{}]", names.join(" "))
        }
        Event::ReportedInUse(list) => {
            let names: Vec<_> = list.iter().map(ToString::to_string).collect();
            format!("the node's status says in use: [{}]", names.join(" "))
        }
        Event::WaitMounted { waiter, uid, deadline } => {
            format!("waiter {waiter} waits {} s for {uid} to be mounted", deadline.saturating_sub(sim.now) / 1_000_000)
        }
        Event::WaitUnmounted { waiter, uid, deadline } => {
            format!(
                "waiter {waiter} waits {} s for {uid} to be unmounted",
                deadline.saturating_sub(sim.now) / 1_000_000
            )
        }
        Event::WaitCancelled { waiter: 0 } => "nothing".to_owned(),
        Event::WaitCancelled { waiter } => format!("waiter {waiter} leaves"),
        Event::Refresh => "volumes are due to be refreshed".to_owned(),
        Event::Timer => "the timer goes off".to_owned(),
        Event::SourcesSynced => "every source has spoken".to_owned(),
        Event::SourceChanged { uid } => format!("the source of {uid} has changed"),
        Event::PluginChanged { plugin } => format!("{plugin} is there anew"),
        Event::StorageAnswers(volumes) => format!("the storage answers again: {volumes:?}"),
        Event::NotAttached(volumes) => format!("not attached any more: {volumes:?}"),
        Event::Drain => "drain".to_owned(),
        Event::DrainEnded => "drain ended".to_owned(),
    }
}
