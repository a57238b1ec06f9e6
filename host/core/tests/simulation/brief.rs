//! Events as one line of the trace.

use volhost_core::Event;

pub fn brief(event: &Event) -> String {
    match event {
        Event::PodDesired(told) => {
            let volumes = told.volumes.iter().map(|volume| {
                let capacity = volume.spec.persistent_volume.as_ref().and_then(|pv| pv.capacity).unwrap_or(0);
                format!("{}/{}/{capacity}", volume.outer_name, crate::volumes::variant_of(&volume.spec))
            });
            let unresolved = told.unresolved.iter().map(|volume| format!("{}?", volume.outer_name));
            format!("desired {} [{}]", told.pod.uid, volumes.chain(unresolved).collect::<Vec<_>>().join(" "))
        }
        Event::OperationDone { id, report } => {
            let end =
                report.result.as_ref().map_or_else(|failure| format!("{:?}", failure.class), |()| "Done".to_owned());
            format!("end {id} {end} device={:?}", report.device)
        }
        Event::Recovered(found) => {
            format!(
                "recovered {} {} intact={} spec={}",
                found.pod,
                found.unique_name,
                found.intact,
                found.spec.is_some()
            )
        }
        Event::RecoveredDevice(found) => format!("recovered device {}", found.unique_name),
        Event::NodeAttachments(list) => format!("attachments {}", list.len()),
        Event::ReportedInUse(list) => format!("reported in use {}", list.len()),
        other => format!("{other:?}"),
    }
}
