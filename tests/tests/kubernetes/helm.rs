//! The charts of `deploy/helm`, by the real helm.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use volhost_tests::artifacts::workspace;
use volhost_tests::cluster::{Cluster, IMAGE, NODE};
use volhost_tests::wait::eventually;

use crate::image::image;

const RELEASE: &str = "disks";
const DRIVER: &str = "disks.test";

/// helm as an administrator of the cluster, or without one.
fn helm(cluster: Option<&Cluster>, arguments: &[&str]) -> Result<String, String> {
    let cache = std::env::var_os("VOLHOST_CI_CACHE").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/volhost-ci"));
    let program = cache.join("bin/helm-v3.18.6");
    assert!(program.exists(), "helm is not built; run `deploy/setup.sh --tests`");
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.args(arguments).env("HOME", home.path()).stdin(Stdio::null());
    if let Some(cluster) = cluster {
        command.env("KUBECONFIG", cluster.kubeconfig());
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(String::from_utf8_lossy(&output.stdout).into_owned()) } else { Err(said) }
}

fn chart() -> String {
    chart_of("volhost-csi")
}

fn chart_of(name: &str) -> String {
    workspace().join("deploy/helm").join(name).display().to_string()
}

/// The objects of a folder of `deploy`.
fn folder(cluster: &Cluster, name: &str) -> BTreeMap<(String, String), Value> {
    let folder = workspace().join("deploy").join(name).display().to_string();
    objects(&cluster.kubectl(&["kustomize", &folder]))
}

/// The alerts, as an object of the Prometheus operator.
fn rules(name: &str) -> ((String, String), Value) {
    let rules = std::fs::read_to_string(workspace().join("deploy/prometheus/volhost.rules.yml")).unwrap();
    let rules: Value = serde_saphyr::from_str(&rules).unwrap();
    let object = json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
        "metadata": { "name": name, "namespace": name }, "spec": rules,
    });
    (("PrometheusRule".to_owned(), name.to_owned()), object)
}

/// The objects of a manifest, by kind and name.
fn objects(manifest: &str) -> BTreeMap<(String, String), Value> {
    let documents = manifest.split("\n---").filter(|one| !one.trim().is_empty());
    let objects = documents.filter_map(|one| {
        let one: Value = serde_saphyr::from_str(one.trim_start_matches("---")).unwrap();
        let text = |field: &Value| field.as_str().unwrap().to_owned();
        one.is_object().then(|| ((text(&one["kind"]), text(&one["metadata"]["name"])), one))
    });
    objects.collect()
}

#[test]
fn the_chart_makes_what_the_manifests_have() {
    let (chart, cluster) = (chart(), Cluster::shared());
    helm(None, &["lint", "--strict", &chart]).unwrap();
    let template = |more: &[&str]| {
        helm(None, &[&["template", "volhost-csi", &chart, "--namespace", "volhost-csi"], more].concat()).unwrap()
    };
    let mut manifests = folder(&cluster, "csi");
    // helm is given the namespace.
    manifests.remove(&("Namespace".to_owned(), "volhost-csi".to_owned())).unwrap();
    assert_eq!(objects(&template(&[])), manifests);

    let monitored = objects(&template(&["--set", "podMonitor=true,prometheusRule=true"]));
    let mut more = folder(&cluster, "csi-monitoring");
    more.extend([rules("volhost-csi")]);
    for (name, object) in more {
        assert_eq!(monitored[&name], object);
    }
}

#[test]
fn the_chart_of_the_controllers_makes_what_the_manifests_have() {
    let (chart, cluster) = (chart_of("volhost-controllers"), Cluster::shared());
    helm(None, &["lint", "--strict", &chart]).unwrap();
    assert_eq!(objects(&helm(None, &["template", "a", &chart]).unwrap()), BTreeMap::new(), "nothing is enabled");
    for (value, name, namespace) in
        [("attachDetach", "attach-detach", "volhost-attach-detach"), ("plugins", "plugins", "volhost-plugins")]
    {
        let set = format!("{value}.enabled=true,podMonitor=true,prometheusRule=true");
        // A release has any name; the objects of the cluster have one each.
        let made = helm(None, &["template", namespace, &chart, "--namespace", namespace, "--set", &set]).unwrap();
        let mut manifests = folder(&cluster, name);
        manifests.remove(&("Namespace".to_owned(), namespace.to_owned())).unwrap();
        manifests.extend(folder(&cluster, &format!("{name}-monitoring")));
        manifests.extend([rules(namespace)]);
        for ((kind, _), object) in &mut manifests {
            // They outlive the release, and with them the objects of users.
            if kind == "CustomResourceDefinition" {
                object["metadata"]["annotations"] = json!({ "helm.sh/resource-policy": "keep" });
            }
        }
        assert_eq!(objects(&made), manifests);
    }
    let both = ["--set", "attachDetach.enabled=true,plugins.enabled=true,plugins.definitions=false"];
    let both = objects(&helm(None, &[&["template", "a", &chart, "--namespace", "here"], &both[..]].concat()).unwrap());
    assert!(!both.keys().any(|(kind, _)| kind == "CustomResourceDefinition"));
    let namespaces = both.values().filter_map(|object| object["metadata"]["namespace"].as_str());
    assert!(namespaces.into_iter().all(|namespace| namespace == "here"), "{both:#?}");
    for binding in both.values().filter(|object| object["subjects"].is_array()) {
        assert_eq!(binding["subjects"][0]["namespace"], "here");
    }
    // In the namespaces of the manifests, and with the controllers of this release in its own.
    let shares = |namespace: &str, more: &str| {
        let set = format!("flowSchemas.enabled=true{more}");
        objects(&helm(None, &["template", "a", &chart, "--namespace", namespace, "--set", &set]).unwrap())
    };
    let manifests = folder(&cluster, "flow-schemas");
    let listed = "volhost-csi/volhost-csi-controller,volhost-attach-detach/volhost-attach-detach-controller,\
                  volhost-plugins/volhost-plugin-controller";
    assert_eq!(shares("a", &format!(",flowSchemas.controllers={{{listed}}}")), manifests);
    let mut own = shares("here", ",attachDetach.enabled=true,plugins.enabled=true");
    own.retain(|(kind, _), _| kind == "FlowSchema" || kind == "PriorityLevelConfiguration");
    let text = serde_json::to_string(&manifests.into_values().collect::<Vec<_>>()).unwrap();
    let moved = ["attach-detach", "plugins"]
        .iter()
        .fold(text, |text, name| text.replace(&format!("\"namespace\":\"volhost-{name}\""), "\"namespace\":\"here\""));
    assert_eq!(Value::from(own.into_values().collect::<Vec<_>>()), serde_json::from_str::<Value>(&moved).unwrap());
    // The API server refuses a schema without an account.
    let agents = shares("a", ",flowSchemas.controllers=null");
    let named = agents.keys().map(|(_, name)| name.as_str());
    assert_eq!(named.collect::<Vec<_>>(), ["volhost-node-agents", "volhost-node-agents"]);
    for (set, words) in [
        ("flowSchemas.nodeAgent=nameless", "at '/flowSchemas/nodeAgent'"),
        ("attachDetach.replica=3", "additional properties 'replica' not allowed"),
        ("plugins.metricsPort=0", "at '/plugins/metricsPort'"),
        ("attach-detach.enabled=true", "additional properties 'attach-detach' not allowed"),
    ] {
        let refused = helm(None, &["template", "a", &chart, "--set", set]).unwrap_err();
        assert!(refused.contains(words), "{set}: {refused}");
    }
}

#[test]
fn values_that_the_chart_does_not_know_are_refused_by_name() {
    for (set, words) in [
        ("driver.plugn=x", "additional properties 'plugn' not allowed"),
        ("driver.plugin=loop.wasm", "at '/driver/plugin'"),
        ("node.metricsPort=70000", "at '/node/metricsPort'"),
        ("controller.secrets={nameless}", "at '/controller/secrets/0'"),
        ("driver.folders[0].name=state,driver.folders[0].path=/x", "at '/driver/folders/0/name'"),
        ("storageClasses[0].name=a,storageClasses[0].reclaimPolicy=Recycle", "at '/storageClasses/0/reclaimPolicy'"),
    ] {
        let refused = helm(None, &["template", "a", &chart(), "--set", set]).unwrap_err();
        assert!(refused.contains(words), "{set}: {refused}");
    }
}

#[test]
fn a_release_is_installed_upgraded_under_a_pod_and_removed() {
    let cluster = Cluster::shared();
    cluster.load_image(&image());
    cluster.kubectl(&["create", "namespace", RELEASE]);
    cluster.kubectl(&["label", "node", NODE, "volhost.io/disks=true"]);
    let folder = cluster.node().folder().join("helm");
    let below = |name: &str| folder.join(name).display().to_string();
    let apiserver = cluster.kubectl(&["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    let port = apiserver.rsplit(':').next().unwrap().to_owned();
    // This cluster has no network for pods, and other drivers.
    let values = json!({
        "driver": {
            "name": DRIVER,
            "topologyKey": "volhost.io/disks-node",
            "folders": [{ "name": "images", "path": below("images"), "mountPath": "/var/lib/volhost-loop" }],
        },
        "node": {
            "selector": { "volhost.io/loop": null, "volhost.io/disks": "true" },
            "kubeletFolder": cluster.kubelet(),
            "stateFolder": below("node"),
            "metricsPort": 19812,
        },
        "controller": { "stateFolder": below("controller"), "metricsPort": 19811 },
        "hostNetwork": true,
        "env": [
            { "name": "KUBERNETES_SERVICE_HOST", "value": NODE },
            { "name": "KUBERNETES_SERVICE_PORT", "value": port },
        ],
        "storageClasses": [{ "name": RELEASE, "fsType": "ext4" }],
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values.to_string()).unwrap();
    let file = file.path().display().to_string();
    let release = |verb: &[&str], more: &[&str]| {
        let own = [RELEASE, &chart(), "--namespace", RELEASE, "--values", &file, "--wait", "--timeout", "180s"];
        helm(Some(&cluster), &[verb, &own, more].concat())
            .unwrap_or_else(|error| panic!("{error}\n{}", cluster.kubectl(&["-n", RELEASE, "describe", "pods"])))
    };

    let notes = release(&["install"], &[]);
    assert!(notes.contains("kubectl label node NODE volhost.io/disks=true"), "{notes}");
    cluster.apply(&format!(
        "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: disks-claim }}
spec: {{ accessModes: [ReadWriteOnce], storageClassName: {RELEASE}, resources: {{ requests: {{ storage: 16Mi }} }} }}
---
apiVersion: v1
kind: Pod
metadata: {{ name: disks-pod }}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: {IMAGE}
      imagePullPolicy: Never
      command: [sh, -c, 'echo kept >/data/file && exec sleep inf']
      volumeMounts: [{{ name: data, mountPath: /data }}]
  volumes: [{{ name: data, persistentVolumeClaim: {{ claimName: disks-claim }} }}]
"
    ));
    cluster.wait_running("disks-pod");

    release(&["upgrade"], &["--set", "driver.maxVolumesPerNode=5"]);
    // There is none while the driver registers anew.
    let limit = || {
        let node: Value = serde_json::from_str(&cluster.kubectl(&["get", "csinode", NODE, "-o", "json"])).unwrap();
        let drivers = node["spec"]["drivers"].as_array().cloned().unwrap_or_default();
        drivers.iter().find(|driver| driver["name"] == DRIVER).map(|driver| driver["allocatable"]["count"].clone())
    };
    assert!(eventually(|| limit() == Some(json!(5))), "{:?}", limit());
    assert_eq!(cluster.kubectl(&["exec", "disks-pod", "--", "cat", "/data/file"]).trim(), "kept");

    cluster.kubectl(&["delete", "pod/disks-pod", "pvc/disks-claim", "--timeout=180s"]);
    let volumes = || cluster.kubectl(&["get", "pv", "-o", "jsonpath={.items[*].spec.csi.driver}"]);
    assert!(eventually(|| !volumes().contains(DRIVER)), "{}", volumes());
    helm(Some(&cluster), &["uninstall", RELEASE, "--namespace", RELEASE, "--wait", "--timeout", "180s"]).unwrap();
    cluster.kubectl(&["delete", "csidriver", DRIVER]);
    cluster.kubectl(&["delete", "namespace", RELEASE, "--timeout=180s"]);
    let left = cluster.kubectl(&["get", "clusterroles,clusterrolebindings,storageclasses", "-o", "name"]);
    assert!(!left.contains(RELEASE), "{left}");
    assert_eq!(std::fs::read_dir(folder.join("images")).unwrap().count(), 0);
}
