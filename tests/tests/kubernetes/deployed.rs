//! `deploy/csi`, `deploy/attach-detach` and `deploy/plugins` with the image, in a cluster whose volumes
//! no controller of Kubernetes attaches.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use volhost_tests::attach_detach::{self, AttachDetach};
use volhost_tests::cluster::{Cluster, IMAGE, NODE};
use volhost_tests::http::request;
use volhost_tests::wait::eventually;

use crate::controllers::assert_permitted;
use crate::image::image;
use crate::plugin_rollout::Fleet;
use crate::plugins::{NAMESPACE as PLUGINS, digest};

/// The controllers of `deploy/csi` and its driver are at this port and the next.
const CSI_PORT: u16 = 29811;

/// Applies a folder of `deploy`. Pods of this cluster have the host's network, so that each needs a
/// port of its own: `ports` says which ones they have instead.
fn apply(cluster: &Cluster, folder: &str, ports: &[(u16, u16)]) -> Vec<Value> {
    let moved = |object: Value| -> Value {
        let moved =
            ports.iter().fold(object.to_string(), |text, (from, to)| text.replace(&from.to_string(), &to.to_string()));
        serde_json::from_str(&moved).unwrap()
    };
    let objects: Vec<Value> = cluster.objects_of(folder).into_iter().map(moved).collect();
    cluster.apply_objects(&objects);
    objects
}

/// Two replicas of a controller on the cluster's one node.
struct Replicas<'a> {
    cluster: &'a Cluster,
    namespace: &'static str,
    name: &'static str,
    ports: [u16; 2],
}

impl<'a> Replicas<'a> {
    /// Applies its folder and waits until both run. `port` is that of the manifests.
    fn deploy(
        cluster: &'a Cluster,
        folder: &str,
        namespace: &'static str,
        name: &'static str,
        port: u16,
        ports: [u16; 2],
    ) -> Self {
        let mut objects = apply(cluster, folder, &[(port, ports[0])]);
        // The scheduler puts no two pods with the same port of the host on a node.
        let deployment = objects.iter_mut().find(|object| object["kind"] == "Deployment").unwrap();
        deployment["spec"]["replicas"] = json!(1);
        let mut second = deployment.clone();
        let label = format!("{name}-second");
        second["metadata"]["name"] = json!(label);
        second["spec"]["selector"]["matchLabels"]["app"] = json!(label);
        second["spec"]["template"]["metadata"]["labels"]["app"] = json!(label);
        let second = second.to_string().replace(&ports[0].to_string(), &ports[1].to_string());
        cluster.apply_objects(&[deployment.clone(), serde_json::from_str(&second).unwrap()]);
        let replicas = Self { cluster, namespace, name, ports };
        for index in 0..2 {
            let deployment = format!("deployment/{}", replicas.deployment(index));
            let status = ["-n", namespace, "rollout", "status", &deployment, "--timeout=180s"];
            cluster.try_kubectl(&status).unwrap_or_else(|error| panic!("{error}\n{}", replicas.known()));
        }
        replicas
    }

    fn deployment(&self, index: usize) -> String {
        if index == 0 { self.name.to_owned() } else { format!("{}-second", self.name) }
    }

    /// Waits until this replica, or any, holds the Lease. Returns which.
    fn wait_leader(&self, wanted: Option<usize>) -> usize {
        let leads = |index: &usize| {
            let address = SocketAddr::from(([127, 0, 0, 1], self.ports[*index]));
            let expected = format!("leader_election_master_status{{name=\"{}\"}} 1", self.name);
            std::net::TcpStream::connect(address).is_ok()
                && request(address, "GET", "/metrics").body.contains(&expected)
        };
        let mut leader = None;
        let is_led = eventually(|| {
            leader = [0, 1].into_iter().filter(|index| wanted.is_none_or(|wanted| wanted == *index)).find(leads);
            leader.is_some()
        });
        assert!(is_led, "{wanted:?}\n{}", self.known());
        leader.unwrap()
    }

    /// Ends the replica that leads, as a node that is drained does; the other one takes over.
    fn end_leader(&self) {
        let leader = self.wait_leader(None);
        self.cluster.kubectl(&["-n", self.namespace, "scale", "deployment", &self.deployment(leader), "--replicas=0"]);
        self.wait_leader(Some(1 - leader));
    }

    /// What a failed test shows.
    fn known(&self) -> String {
        let kubectl = |arguments: &[&str]| {
            let own = [&["-n", self.namespace], arguments].concat();
            self.cluster.try_kubectl(&own).unwrap_or_else(|error| error)
        };
        let pods = kubectl(&["describe", "pods"]);
        let logs = [0, 1].map(|index| kubectl(&["logs", &format!("deployment/{}", self.deployment(index))]));
        format!("{pods}\n{}", logs.join("\n"))
    }
}

#[test]
fn the_controllers_of_the_manifests_run_from_the_image_and_take_over_from_each_other() {
    let cluster = Arc::new(Cluster::start_without_attach_detach());
    cluster.load_image(&image());
    apply(&cluster, "csi", &[(9811, CSI_PORT), (9812, CSI_PORT + 1)]);
    cluster.kubectl(&["label", "node", NODE, "volhost.io/loop=true"]);

    // Attach and detach.
    let name = attach_detach::NAME;
    let attaching =
        Replicas::deploy(&cluster, "attach-detach", attach_detach::NAMESPACE, name, 9812, [CSI_PORT + 2, CSI_PORT + 3]);
    attaching.end_leader();
    cluster.apply(&format!(
        "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: attached }}
spec: {{ accessModes: [ReadWriteOnce], storageClassName: volhost-loop, resources: {{ requests: {{ storage: 16Mi }} }} }}
---
apiVersion: v1
kind: Pod
metadata: {{ name: attached }}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: {IMAGE}
      imagePullPolicy: Never
      command: [sh, -c, 'echo kept >/data/file && exec sleep inf']
      volumeMounts: [{{ name: data, mountPath: /data }}]
  volumes: [{{ name: data, persistentVolumeClaim: {{ claimName: attached }} }}]
"
    ));
    cluster.wait_running("attached");
    let attachments = || cluster.kubectl(&["get", "volumeattachments", "-o", "jsonpath={.items[*].status.attached}"]);
    assert_eq!(attachments(), "true");
    cluster.kubectl(&["delete", "pod/attached", "pvc/attached", "--timeout=180s"]);
    assert!(eventually(|| attachments().is_empty()), "{}\n{}", attachments(), attaching.known());
    let requests = AttachDetach::requests(&cluster);
    let created = ("create".to_owned(), "volumeattachments".to_owned());
    assert!(requests.contains(&created), "{requests:?}");

    // Plugins from the cluster.
    let name = "volhost-plugin-controller";
    let rolling = Replicas::deploy(&cluster, "plugins", PLUGINS, name, 9811, [CSI_PORT + 4, CSI_PORT + 5]);
    rolling.end_leader();
    let fleet = Fleet::start_in(Arc::clone(&cluster), "deployed", 3);
    fleet.apply(&digest('1'), &json!({ "maxUnavailable": 1 }));
    fleet.run(1, None, "Ready");
    assert_eq!(fleet.digests(), [digest('1')]);
    drop(fleet);
    assert_permitted(&cluster, &format!("{name}/{}", env!("CARGO_PKG_VERSION")));
}
