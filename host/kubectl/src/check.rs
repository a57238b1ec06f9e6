//! `kubectl volhost check`: what is wrong with the volumes of a cluster, an object a row.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use serde::Serialize;
use volhost_model::duration::HumanDuration;
use volhost_table::Cell;

use crate::arguments::CheckArguments;
use crate::cluster::Cluster;
use crate::drivers::{self, driver_of};
use crate::error::PluginError;
use crate::explain::node_of;
use crate::output::{Output, Row};
use crate::state::{Leader, Warning, attachment_error, elapsed, has_ended, has_volumes, since};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    object: String,
    since: String,
    problem: String,
    way_out: String,
}

impl Row for Finding {
    const COLUMNS: (&'static [&'static str], &'static [&'static str]) =
        (&["OBJECT", "SINCE", "PROBLEM", "WAY OUT"], &[]);

    fn cells(&self) -> Vec<Cell> {
        [&self.object, &self.since, &self.problem, &self.way_out].into_iter().map(Cell::new).collect()
    }
}

/// Runs the command. Returns whether nothing was found.
///
/// # Errors
/// [`PluginError`].
pub(crate) async fn run(cluster: &Cluster, arguments: &CheckArguments, output: &Output) -> Result<bool, PluginError> {
    // Kubernetes and drivers need some time for everything.
    let HumanDuration(soon) = arguments.late;
    let known = Known {
        storage: drivers::Known::read(cluster).await?,
        pods: cluster.list_in(None, "").await?,
        claims: cluster.list_in(None, "").await?,
        nodes: cluster.list().await?,
        events: cluster.list_in(None, "type=Warning").await?,
        soon,
    };
    let findings = known.findings(Timestamp::now());
    output.list(&findings, &arguments.list, "Nothing is wrong with the volumes of this cluster.")?;
    Ok(findings.is_empty())
}

/// The objects that are looked at.
struct Known {
    storage: drivers::Known,
    pods: Vec<Pod>,
    claims: Vec<PersistentVolumeClaim>,
    nodes: Vec<Node>,
    events: Vec<Event>,
    /// What takes longer is reported.
    soon: Duration,
}

impl Known {
    fn findings(&self, now: Timestamp) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.controllers(now, &mut findings);
        self.storage.drivers.iter().for_each(|driver| {
            let name = driver.name_any();
            let registered = self.storage.nodes.iter().any(|node| node.spec.drivers.iter().any(|one| one.name == name));
            let is_used = self.storage.volumes.iter().any(|volume| {
                volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()).is_some_and(|csi| csi.driver == name)
            });
            if !registered && is_used {
                let way_out = "run the driver's pods on the nodes that need it".to_owned();
                let problem = "it has volumes, and is registered on no node".to_owned();
                findings.push(Finding { object: format!("csidriver/{name}"), since: String::new(), problem, way_out });
            }
        });
        self.storage.attachments.iter().for_each(|one| findings.extend(self.attachment(one, now)));
        self.storage.volumes.iter().for_each(|one| findings.extend(self.volume(one, now)));
        self.claims.iter().for_each(|one| findings.extend(self.claim(one, now)));
        self.pods.iter().for_each(|one| findings.extend(self.pod(one, now)));
        findings.sort();
        findings
    }

    /// Controllers of which no replica works.
    fn controllers(&self, now: Timestamp, findings: &mut Vec<Finding>) {
        let leases = self.storage.leases.iter();
        for lease in leases.filter(|lease| Leader::of(lease, now) == Leader::None) {
            let (driver, namespace) = (driver_of(lease).unwrap_or_default(), lease.namespace().unwrap_or_default());
            // A controller that was removed leaves its Lease.
            if !self.storage.drivers.iter().any(|one| one.name_any().to_ascii_lowercase() == driver) {
                continue;
            }
            let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
            findings.push(Finding {
                object: format!("lease/{namespace}/{}", lease.name_any()),
                since: renewed.map(|time| since(time.0, now)).unwrap_or_default(),
                problem: format!("no replica of the controller of {driver} works"),
                way_out: format!("kubectl -n {namespace} get pods; see why the controller does not run"),
            });
        }
    }

    fn attachment(&self, attachment: &VolumeAttachment, now: Timestamp) -> Option<Finding> {
        let object = format!("volumeattachment/{}", attachment.name_any());
        let (driver, node) = (&attachment.spec.attacher, &attachment.spec.node_name);
        let error = attachment_error(attachment).map(|error| format!(": {error}")).unwrap_or_default();
        if let Some(deleted) = self.late(attachment.metadata.deletion_timestamp.as_ref().map(|time| time.0), now) {
            let problem = format!("{driver} does not detach it from {node}{error}");
            let way_out = format!("see the log of the controller of {driver}");
            return Some(Finding { object, since: deleted, problem, way_out });
        }
        if !self.nodes.iter().any(|one| one.name_any() == *node) {
            let problem = format!("its node {node} does not exist any more");
            let way_out = "the attach/detach controller removes it once no pod is on that node".to_owned();
            return self.late(created(&attachment.metadata), now).map(|since| Finding {
                object,
                since,
                problem,
                way_out,
            });
        }
        if attachment.status.as_ref().is_some_and(|status| status.attached) {
            return None;
        }
        let since = self.late(created(&attachment.metadata), now)?;
        let problem = format!("{driver} does not attach it to {node}{error}");
        let way_out = format!("see the log of the controller of {driver}");
        Some(Finding { object, since, problem, way_out })
    }

    fn volume(&self, volume: &PersistentVolume, now: Timestamp) -> Option<Finding> {
        let object = format!("pv/{}", volume.name_any());
        let status = volume.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let changed = status.and_then(|status| status.last_phase_transition_time.as_ref()).map(|time| time.0);
        let words = status.and_then(|status| status.message.clone()).unwrap_or_default();
        if let Some(since) = self.late(volume.metadata.deletion_timestamp.as_ref().map(|time| time.0), now) {
            let finalizers = volume.finalizers().join(", ");
            let problem = format!("it is being deleted, and waits for {finalizers}");
            let way_out = format!("kubectl describe {object}");
            return Some(Finding { object, since, problem, way_out });
        }
        let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        match (phase, policy) {
            ("Failed", _) => {
                let problem = format!("it could not be reclaimed. {words}");
                let since = changed.map(|time| since(time, now)).unwrap_or_default();
                let way_out = format!("kubectl describe {object}");
                Some(Finding { object, since, problem: problem.trim().to_owned(), way_out })
            }
            ("Released", Some("Delete")) => {
                let since = self.late(changed.or(created(&volume.metadata)), now)?;
                let warning = self.warning("PersistentVolume", "", &volume.name_any(), now);
                let problem = format!("its claim is gone, and its driver has not deleted it.{warning}");
                let way_out = "see the log of the driver's controller".to_owned();
                Some(Finding { object, since, problem, way_out })
            }
            _ => None,
        }
    }

    fn claim(&self, claim: &PersistentVolumeClaim, now: Timestamp) -> Option<Finding> {
        let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
        let object = format!("pvc/{namespace}/{name}");
        let way_out = format!("kubectl volhost explain pvc {name} -n {namespace}");
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
        if phase == "Lost" {
            let problem = "its PersistentVolume is gone".to_owned();
            return Some(Finding { object, since: since_creation(&claim.metadata, now), problem, way_out });
        }
        let conditions = claim.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let failed = conditions.iter().find(|one| {
            one.status == "True"
                && matches!(one.type_.as_str(), "ControllerResizeError" | "NodeResizeError" | "ModifyVolumeError")
        });
        if let Some(failed) = failed {
            let problem = format!("{}: {}", failed.type_, failed.message.as_deref().unwrap_or_default());
            let since = failed.last_transition_time.as_ref().map(|time| since(time.0, now)).unwrap_or_default();
            return Some(Finding { object, since, problem, way_out });
        }
        if phase != "Pending" || self.waits_for_pod(claim) {
            return None;
        }
        let since = self.late(created(&claim.metadata), now)?;
        let problem = format!("it has no volume.{}", self.warning("PersistentVolumeClaim", &namespace, &name, now));
        Some(Finding { object, since, problem, way_out })
    }

    /// Whether a claim's class makes the volume where the first pod runs, and no node was chosen.
    fn waits_for_pod(&self, claim: &PersistentVolumeClaim) -> bool {
        let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        let is_late = |one: &&StorageClass| one.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
        let class = self.storage.classes.iter().find(|one| Some(one.name_any().as_str()) == class).filter(is_late);
        class.is_some() && !claim.annotations().contains_key("volume.kubernetes.io/selected-node")
    }

    fn pod(&self, pod: &Pod, now: Timestamp) -> Option<Finding> {
        let node = node_of(pod).filter(|_| !has_ended(pod) && !has_volumes(pod))?;
        let has_some = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref()).is_some_and(|all| !all.is_empty());
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let since = self.late(created(&pod.metadata), now).filter(|_| has_some)?;
        let warning = self.warning("Pod", &namespace, &name, now);
        Some(Finding {
            object: format!("pod/{namespace}/{name}"),
            since,
            problem: format!("it waits on {node}.{warning}"),
            way_out: format!("kubectl volhost explain pod {name} -n {namespace}"),
        })
    }

    /// The time since then, if it is longer than such things take.
    fn late(&self, then: Option<Timestamp>, now: Timestamp) -> Option<String> {
        then.filter(|then| elapsed(*then, now) >= self.soon).map(|then| since(then, now))
    }

    /// The last warning of an object, as the end of a sentence.
    fn warning(&self, kind: &str, namespace: &str, name: &str, now: Timestamp) -> String {
        let own: Vec<Event> = self
            .events
            .iter()
            .filter(|event| {
                let object = &event.involved_object;
                object.kind.as_deref() == Some(kind)
                    && object.name.as_deref() == Some(name)
                    && (namespace.is_empty() || object.namespace.as_deref() == Some(namespace))
            })
            .cloned()
            .collect();
        Warning::last(&own, &[]).map(|warning| format!(" {}", warning.words(now))).unwrap_or_default()
    }
}

fn created(meta: &ObjectMeta) -> Option<Timestamp> {
    meta.creation_timestamp.as_ref().map(|time| time.0)
}

fn since_creation(meta: &ObjectMeta, now: Timestamp) -> String {
    created(meta).map(|time| since(time, now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    fn objects(findings: &[Finding]) -> BTreeSet<&str> {
        findings.iter().map(|finding| finding.object.as_str()).collect()
    }

    fn object<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    const LONG_AGO: &str = "2026-01-01T00:00:00Z";
    const NOW: &str = "2026-01-01T00:10:00Z";

    fn known() -> Known {
        Known {
            storage: drivers::Known {
                drivers: Vec::new(),
                nodes: Vec::new(),
                classes: Vec::new(),
                volumes: Vec::new(),
                attachments: Vec::new(),
                leases: Vec::new(),
            },
            pods: Vec::new(),
            claims: Vec::new(),
            nodes: vec![object(json!({ "metadata": { "name": "n" } }))],
            events: Vec::new(),
            soon: Duration::from_secs(60),
        }
    }

    #[test]
    fn what_is_late_is_found_and_what_waits_for_a_pod_is_not() {
        let mut known = known();
        let claim = |name: &str, class: &str, created: &str| {
            object(json!({
                "metadata": { "namespace": "a", "name": name, "creationTimestamp": created },
                "spec": { "storageClassName": class }, "status": { "phase": "Pending" },
            }))
        };
        known.storage.classes = vec![object(json!({
            "metadata": { "name": "late" }, "provisioner": "d.test", "volumeBindingMode": "WaitForFirstConsumer",
        }))];
        known.claims =
            vec![claim("old", "none", LONG_AGO), claim("new", "none", NOW), claim("consumer", "late", LONG_AGO)];
        known.events = vec![object(json!({
            "metadata": {}, "type": "Warning", "reason": "ProvisioningFailed", "message": "no such class",
            "involvedObject": { "kind": "PersistentVolumeClaim", "namespace": "a", "name": "old" },
        }))];
        let findings = known.findings(NOW.parse().unwrap());
        assert_eq!(objects(&findings), BTreeSet::from(["pvc/a/old"]));
        assert!(findings[0].problem.contains("no such class"), "{findings:?}");
    }

    #[test]
    fn attachments_volumes_and_pods_that_do_not_go_on_are_found() {
        let mut known = known();
        let attachment = |name: &str, node: &str, more: Value| {
            let mut attachment = json!({
                "metadata": { "name": name, "creationTimestamp": LONG_AGO },
                "spec": { "attacher": "d.test", "nodeName": node, "source": { "persistentVolumeName": "v" } },
                "status": { "attached": false },
            });
            for (path, value) in more.as_object().unwrap() {
                *attachment.pointer_mut(path).unwrap() = value.clone();
            }
            object(attachment)
        };
        known.storage.attachments = vec![
            attachment("gone", "other", json!({})),
            attachment(
                "stuck",
                "n",
                json!({ "/status": { "attached": false, "attachError": { "message": "no slot" } } }),
            ),
            attachment("good", "n", json!({ "/status": { "attached": true } })),
        ];
        let volume = |name: &str, phase: &str| {
            object(json!({
                "metadata": { "name": name, "creationTimestamp": LONG_AGO },
                "spec": { "persistentVolumeReclaimPolicy": "Delete" }, "status": { "phase": phase },
            }))
        };
        known.storage.volumes = vec![volume("left", "Released"), volume("failed", "Failed"), volume("bound", "Bound")];
        known.pods = vec![object(json!({
            "metadata": { "namespace": "a", "name": "p", "creationTimestamp": LONG_AGO },
            "spec": { "containers": [], "nodeName": "n", "volumes": [{ "name": "x", "emptyDir": {} }] },
        }))];
        let findings = known.findings(NOW.parse().unwrap());
        let wanted = ["volumeattachment/gone", "volumeattachment/stuck", "pv/left", "pv/failed", "pod/a/p"];
        assert_eq!(objects(&findings), BTreeSet::from(wanted));
        assert!(findings.iter().any(|finding| finding.problem.ends_with("no slot")), "{findings:?}");
        assert!(findings.iter().all(|finding| !finding.way_out.is_empty()));
    }
}
