//! Events on pods, each once, in the words of Kubernetes' controller, which dashboards
//! and people look for.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::core::v1::ObjectReference;
use volhost_cluster_client::Events;

use super::source::Flex;
use super::state::{Planned, PodName};

/// The reason of the event on a pod whose volume cannot be attached now.
const FAILED: &str = "FailedAttachVolume";
/// The reason of the event on a pod whose volume is attached.
const SUCCEEDED: &str = "SuccessfulAttachVolume";

/// Publishes events, and knows which ones pods have already.
#[derive(Debug)]
pub(super) struct Reports {
    events: Events,
    /// By node and attachment: the message, and the UIDs of the pods that have it.
    reported: HashMap<String, HashMap<String, (String, BTreeSet<String>)>>,
}

impl Reports {
    /// Publishes by these.
    pub(super) fn new(events: Events) -> Self {
        Self { events, reported: HashMap::new() }
    }

    /// Reports what keeps volumes of a node from being attached.
    pub(super) fn plan(&mut self, node: &str, planned: &Planned) {
        let reported = self.reported.entry(node.to_owned()).or_default();
        let flex: HashMap<String, &Flex> = planned.flex.keys().map(|flex| (flex_key(flex), flex)).collect();
        reported.retain(|name, _| {
            let is_waiting = planned.attach_errors.contains_key(name) || planned.plan.blocked.contains(name);
            is_waiting || flex.contains_key(name)
        });
        let mut failures = Vec::new();
        for (name, wanted) in &planned.wanted {
            let volume = &wanted.source.name;
            for pod in planned.pods.get(name).into_iter().flatten() {
                let message = if planned.plan.blocked.contains(name) {
                    let users = planned.users.get(name).map(Vec::as_slice).unwrap_or_default();
                    multi_attach(volume, &pod.namespace, users, planned.detach_errors.get(name))
                } else if let Some(error) = planned.attach_errors.get(name) {
                    format!("AttachVolume.Attach failed for volume \"{volume}\" : {error}")
                } else {
                    continue;
                };
                failures.push((name.clone(), pod, message));
            }
        }
        for (name, flex) in flex {
            let pods = planned.flex.get(flex).into_iter().flatten();
            failures.extend(pods.map(|pod| (name.clone(), pod, by_flex_driver(flex))));
        }
        for (name, pod, message) in failures {
            let (before, pods) = reported.entry(name).or_default();
            if *before != message {
                pods.clear();
                before.clone_from(&message);
            }
            if pods.insert(pod.uid.clone()) {
                self.events.warning(&reference(pod), FAILED, &message);
            }
        }
        if reported.is_empty() {
            self.reported.remove(node);
        }
    }

    /// Reports that volumes of a node are attached.
    pub(super) fn attached(&self, planned: &Planned) {
        for name in &planned.plan.newly_listed {
            let Some(wanted) = planned.wanted.get(name) else { continue };
            let message = format!("AttachVolume.Attach succeeded for volume \"{}\" ", wanted.source.name);
            for pod in planned.pods.get(name).into_iter().flatten() {
                self.events.normal(&reference(pod), SUCCEEDED, &message);
            }
        }
    }
}

/// The key of a FlexVolume among attachments, whose names are others.
fn flex_key(flex: &Flex) -> String {
    format!("flexVolume {}/{}", flex.driver, flex.name)
}

/// Why a FlexVolume is not attached.
fn by_flex_driver(Flex { driver, name }: &Flex) -> String {
    format!(
        "AttachVolume.Attach failed for volume \"{name}\" : its FlexVolume driver {driver} attaches volumes, and this \
         controller runs no programs of FlexVolume drivers; use a CSI driver, or the attach/detach controller of \
         kube-controller-manager"
    )
}

/// Why a volume waits for another node. Pods of other namespaces are not named.
fn multi_attach(volume: &str, namespace: &str, users: &[PodName], detach_error: Option<&String>) -> String {
    let own: Vec<&str> = users.iter().filter(|pod| pod.namespace == namespace).map(|pod| pod.name.as_str()).collect();
    let others = users.len().saturating_sub(own.len());
    let used = match (own.as_slice(), others) {
        ([], 0) => "Volume is already exclusively attached to one node and can't be attached to another".to_owned(),
        ([], _) => format!("Volume is already used by {others} pod(s) in different namespaces"),
        (own, 0) => format!("Volume is already used by pod(s) {}", own.join(", ")),
        (own, _) => {
            format!("Volume is already used by pod(s) {} and {others} pod(s) in different namespaces", own.join(", "))
        }
    };
    let error = detach_error.map(|error| format!("; it cannot be detached: {error}")).unwrap_or_default();
    format!("Multi-Attach error for volume \"{volume}\" {used}{error}")
}

fn reference(pod: &PodName) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_other_namespaces_are_not_named() {
        let pod = |namespace: &str, name: &str| PodName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: String::new(),
        };
        let users = [pod("a", "web"), pod("b", "secret"), pod("a", "job")];
        assert_eq!(
            multi_attach("pv", "a", &users, None),
            "Multi-Attach error for volume \"pv\" Volume is already used by pod(s) web, job and 1 pod(s) in different \
             namespaces"
        );
        assert_eq!(
            multi_attach("pv", "c", &users, Some(&"busy".to_owned())),
            "Multi-Attach error for volume \"pv\" Volume is already used by 3 pod(s) in different namespaces; it \
             cannot be detached: busy"
        );
        assert_eq!(
            multi_attach("pv", "a", &[], None),
            "Multi-Attach error for volume \"pv\" Volume is already exclusively attached to one node and can't be \
             attached to another"
        );
    }
}
