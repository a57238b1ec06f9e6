use serde_json::{Value, json};

use super::*;
use crate::known::News;

const NODE: &str = "node-1";

fn object(kind: Kind, name: &str, version: &str, rest: Value) -> ClusterObject {
    let mut value = json!({
        "apiVersion": kind.api_version(), "kind": kind.name(),
        "metadata": { "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": version },
    });
    if kind.is_namespaced() {
        value["metadata"]["namespace"] = json!("default");
    }
    for (field, content) in rest.as_object().unwrap() {
        value[field] = content.clone();
    }
    ClusterObject::read(kind, serde_json::from_value(value).unwrap(), NODE).unwrap()
}

fn pod(name: &str, volumes: Value) -> ClusterObject {
    let mounts: Vec<Value> =
        volumes.as_array().unwrap().iter().map(|one| json!({ "name": one["name"], "mountPath": "/a" })).collect();
    object(
        Kind::Pod,
        name,
        "1",
        json!({ "spec": { "nodeName": NODE, "volumes": volumes, "containers": [{ "name": "c", "image": "i", "volumeMounts": mounts }] } }),
    )
}

fn with_claim(name: &str) -> ClusterObject {
    pod(name, json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]))
}

fn claim() -> ClusterObject {
    object(
        Kind::PersistentVolumeClaim,
        "data",
        "1",
        json!({ "spec": { "volumeName": "pv", "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": { "requests": { "storage": "1Gi" } } },
                "status": { "phase": "Bound" } }),
    )
}

fn volume() -> ClusterObject {
    object(
        Kind::PersistentVolume,
        "pv",
        "1",
        json!({ "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "csi": {
            "driver": "disk.example", "volumeHandle": "one",
            "nodePublishSecretRef": { "name": "login", "namespace": "default" } } } }),
    )
}

fn attachment() -> ClusterObject {
    object(
        Kind::VolumeAttachment,
        &csi().attachment.name,
        "1",
        json!({ "spec": { "attacher": "disk.example", "nodeName": NODE, "source": { "persistentVolumeName": "pv" } },
                "status": { "attached": true } }),
    )
}

fn csi() -> CsiVolume {
    CsiVolume::new("disk.example", "one", NODE)
}

fn secret() -> ClusterObject {
    object(Kind::Secret, "login", "1", json!({ "data": { "password": "c2VjcmV0" } }))
}

/// The cluster, the daemon, and a plan between the two.
#[derive(Default)]
struct Scene {
    known: Known,
    held: HeldObjects,
    in_use: BTreeSet<String>,
    scope: PodScope,
}

impl Scene {
    fn with_pods(pods: Vec<ClusterObject>) -> Self {
        let mut scene = Self::default();
        scene.known.take(News::Listed(Kind::CsiDriver, Vec::new()));
        scene.known.take(News::Listed(Kind::Pod, pods));
        scene
    }

    fn read(&mut self, object: ClusterObject) {
        self.known.take(News::Object(object.key.clone(), Some(object)));
    }

    fn plan(&self) -> Plan {
        let Self { known, held, in_use, scope } = self;
        Planner { known, held, in_use, node: NODE, scope }.plan()
    }

    /// What the first pod that waits waits for.
    fn unread(&self) -> Vec<String> {
        self.plan().waiting[0].unread.iter().map(|key| self.known.unread(key)).collect()
    }

    /// Carries out the steps. Returns them in short.
    fn carry_out(&mut self) -> Vec<String> {
        let steps = self.plan().steps;
        steps
            .into_iter()
            .map(|step| match step {
                Step::Remove(key, _) => {
                    self.held.remove(&key);
                    format!("- {} {}", key.kind, key.name)
                }
                Step::Add(object) => {
                    let (uid, resource_version) = (object.uid.clone(), object.resource_version.clone());
                    self.held.insert(object.key.clone(), Held { uid, resource_version });
                    format!("+ {} {}", object.key.kind, object.key.name)
                }
            })
            .collect()
    }
}

fn key(kind: Kind, name: &str) -> ObjectKey {
    ObjectKey::new(kind, "default", name)
}

#[test]
fn a_pod_is_passed_on_when_all_that_it_names_has_been_read_and_after_it() {
    let mut scene = Scene::with_pods(vec![with_claim("web"), pod("plain", json!([]))]);
    assert_eq!(scene.carry_out(), ["+ Pod plain"]);
    assert!(scene.plan().watched.contains(&key(Kind::PersistentVolumeClaim, "data")));
    assert_eq!(scene.unread(), ["PersistentVolumeClaim default/data: the API server has not answered yet"]);
    assert!(!scene.plan().waiting[0].is_held);
    scene.read(claim());
    assert_eq!(scene.carry_out(), [""; 0], "a claim whose volume is not read would be an error");
    scene.read(volume());
    let plan = scene.plan();
    assert!(plan.watched.contains(&csi().attachment) && plan.watched.contains(&key(Kind::Secret, "login")));
    scene.known.take(News::Failed(key(Kind::Secret, "login"), "forbidden".into()));
    scene.read(attachment());
    assert_eq!(scene.unread(), ["Secret default/login: forbidden"]);
    assert!(!scene.carry_out().contains(&"+ Pod web".to_owned()));
    scene.read(secret());
    let steps = scene.carry_out();
    assert_eq!(steps, ["+ Secret login", "+ PersistentVolume pv", "+ PersistentVolumeClaim data", "+ Pod web"]);
    assert_eq!(scene.carry_out(), [""; 0], "nothing is said twice");
    // The agent is started again.
    scene.known = Known::default();
    scene.known.take(News::Listed(Kind::Pod, vec![with_claim("web")]));
    assert!(scene.plan().waiting[0].is_held, "its volumes are there");
}

#[test]
fn what_is_known_not_to_exist_does_not_hold_a_pod_back() {
    let mut scene = Scene::with_pods(vec![with_claim("web")]);
    scene.known.take(News::Object(key(Kind::PersistentVolumeClaim, "data"), None));
    assert_eq!(scene.carry_out(), ["+ Pod web"]);
}

#[test]
fn a_driver_without_attachments_has_none_to_wait_for() {
    let mut scene = Scene::with_pods(vec![with_claim("web")]);
    let driver = object(Kind::CsiDriver, "disk.example", "1", json!({ "spec": { "attachRequired": false } }));
    scene.read(driver);
    for object in [claim(), volume(), secret()] {
        scene.read(object);
    }
    assert_eq!(
        scene.carry_out(),
        [
            "+ CSIDriver disk.example",
            "+ Secret login",
            "+ PersistentVolume pv",
            "+ PersistentVolumeClaim data",
            "+ Pod web"
        ]
    );
}

/// The daemon has the pod and all that it names.
fn running() -> Scene {
    let mut scene = Scene::with_pods(vec![with_claim("web")]);
    for object in [claim(), volume(), secret(), attachment()] {
        scene.read(object);
    }
    assert_eq!(scene.carry_out().len(), 5);
    scene.in_use.insert(csi().unique_name);
    scene
}

#[test]
fn nothing_is_removed_before_the_pods_have_been_listed() {
    let mut scene = running();
    scene.known = Known::default();
    assert_eq!(scene.carry_out(), [""; 0]);
    // The agent was started again, and the pod is gone. It is not known yet what else is.
    scene.known.take(News::Listed(Kind::Pod, Vec::new()));
    assert_eq!(scene.carry_out(), ["- Pod web", "- PersistentVolumeClaim data", "- Secret login"]);
    assert!(scene.plan().watched.contains(&key(Kind::PersistentVolume, "pv")));
}

#[test]
fn a_volume_of_a_pod_that_is_gone_stays_attached_until_it_is_unmounted() {
    let mut scene = running();
    scene.known.take(News::Object(key(Kind::Pod, "web"), None));
    assert_eq!(scene.carry_out(), ["- Pod web", "- PersistentVolumeClaim data", "- Secret login"]);
    let watched = scene.plan().watched;
    assert!(watched.contains(&key(Kind::PersistentVolume, "pv")) && watched.contains(&csi().attachment));
    assert_eq!(scene.carry_out(), [""; 0]);
    scene.in_use.clear();
    assert_eq!(scene.carry_out().len(), 2, "the volume and its attachment");
    assert!(scene.held.is_empty() && scene.plan().watched.is_empty());
}

#[test]
fn an_object_that_is_made_again_is_another_one() {
    let mut scene = running();
    let mut other = claim();
    other.uid = "another".into();
    scene.read(other);
    assert_eq!(scene.carry_out(), ["- PersistentVolumeClaim data", "+ PersistentVolumeClaim data"]);
    // A pod of the same name takes the place of the one before in one step.
    let mut other = with_claim("web");
    other.uid = "another".into();
    scene.read(other);
    assert_eq!(scene.carry_out(), ["+ Pod web"]);
}

#[test]
fn an_object_that_cannot_be_read_is_reported_once_and_delays_no_other() {
    let mut scene = running();
    let twin = json!([{ "name": "a", "emptyDir": {} }, { "name": "a", "emptyDir": {} }]);
    scene.read(pod("twins", twin));
    scene.read(pod("plain", json!([])));
    let unusable: Vec<_> = scene.known.unusable().collect();
    assert!(unusable.len() == 1 && unusable[0].1.contains("is taken by"), "{unusable:?}");
    assert_eq!(scene.carry_out(), ["+ Pod plain"]);
    // What was good before and is not now stays as it was.
    scene.read(object(Kind::PersistentVolume, "pv", "2", json!({ "spec": { "capacity": { "storage": "much" } } })));
    assert_eq!(scene.carry_out(), [""; 0]);
}

#[test]
fn bundles_are_watched_for_a_pod_that_shows_some() {
    let sources = json!([{ "clusterTrustBundle": { "name": "root", "path": "ca.pem" } }]);
    let mut scene = Scene::with_pods(vec![pod("web", json!([{ "name": "ca", "projected": { "sources": sources } }]))]);
    assert!(scene.plan().wants_bundles && !scene.plan().waiting.is_empty());
    scene.known.take(News::Listed(Kind::ClusterTrustBundle, Vec::new()));
    assert_eq!(scene.carry_out(), ["+ Pod web"]);
}

/// A pod that names a disk itself, by a former in-tree source.
fn with_disk() -> ClusterObject {
    pod("own", json!([{ "name": "disk", "gcePersistentDisk": { "pdName": "d" } }]))
}

const HANDLE_OF_DISK: &str = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d";

fn disk() -> CsiVolume {
    CsiVolume::new("pd.csi.storage.gke.io", HANDLE_OF_DISK, NODE)
}

fn attachment_of_disk() -> ClusterObject {
    let source = json!({ "inlineVolumeSpec": { "accessModes": ["ReadWriteOnce"], "csi": {
        "driver": disk().driver, "volumeHandle": HANDLE_OF_DISK } } });
    object(
        Kind::VolumeAttachment,
        &disk().attachment.name,
        "1",
        json!({ "spec": { "attacher": disk().driver, "nodeName": NODE, "source": source }, "status": { "attached": true } }),
    )
}

#[test]
fn the_attachment_of_a_pods_own_disk_is_watched_and_kept_until_the_disk_is_unmounted() {
    let mut scene = Scene::with_pods(vec![with_disk()]);
    let attachment = disk().attachment;
    assert!(scene.plan().watched.contains(&attachment));
    scene.read(attachment_of_disk());
    let added = scene.carry_out();
    assert_eq!(added, [format!("+ VolumeAttachment {}", attachment.name), "+ Pod own".to_owned()]);
    scene.in_use = [disk().unique_name].into();
    scene.known.take(News::Listed(Kind::Pod, Vec::new()));
    assert_eq!(scene.carry_out(), ["- Pod own"]);
    scene.in_use.clear();
    assert_eq!(scene.carry_out(), [format!("- VolumeAttachment {}", attachment.name)]);
}

#[test]
fn a_pod_outside_of_the_scope_is_left_alone_and_one_that_leaves_it_stays_until_it_is_gone() {
    let labelled = |name: &str, uid: &str, version: &str, mark: Value| {
        let mut one = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": "default", "name": name, "uid": uid, "resourceVersion": version },
            "spec": { "nodeName": NODE, "containers": [{ "name": "c", "image": "i" }] },
        });
        one["metadata"]["labels"] = mark;
        ClusterObject::read(Kind::Pod, serde_json::from_value(one).unwrap(), NODE).unwrap()
    };
    let ours = json!({ "volumes": "volhost" });
    let mut scene = Scene::with_pods(vec![
        labelled("web", "1", "1", ours.clone()),
        labelled("other", "2", "1", json!({})),
        with_claim("named"),
    ]);
    scene.scope = "label:volumes=volhost".parse().unwrap();
    assert_eq!(scene.carry_out(), ["+ Pod web"]);
    assert!(scene.plan().watched.is_empty(), "what pods of others name is not read");
    scene.read(labelled("web", "1", "2", json!({})));
    assert_eq!(scene.carry_out(), ["+ Pod web"], "the daemon has it still, as it is now");
    assert_eq!(scene.carry_out(), [""; 0]);
    scene.read(labelled("other", "2", "2", ours));
    assert_eq!(scene.carry_out(), ["+ Pod other"], "it has come into the scope");
    scene.read(labelled("web", "3", "3", json!({})));
    assert_eq!(scene.carry_out(), ["- Pod web"], "another pod of the name is not in the scope");
}
