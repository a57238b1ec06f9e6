//! `make bench-scale`: `volhost controller` in a cluster of many nodes, on a real API server and
//! beside `volhost attach-detach-controller` or Kubernetes' own. Volumes are made, attached, moved to
//! other nodes and deleted, and leaders are killed meanwhile.
//!
//! The nodes are objects alone: no pod runs, and no kubelet reports volumes in use. The driver is a
//! part of this program, has no storage, and notes whatever would lose data.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "it shows what it does"
)]

mod attaching;
mod controllers;
mod driver;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Value, json};
use volhost_tests::cluster::{Api, Attaching, Cluster};
use volhost_tests::wait::eventually;

use attaching::{AttachDetachReplicas, requests_to_attach};
use controllers::{Controllers, Replica};
use driver::{DRIVER, ScaleDriver};

const USAGE: &str =
    "usage: cluster-scale --attach-detach stock|volhost NODES PODS-PER-NODE VOLUMES-PER-POD REPORT.json";
/// How many pods are made one after another, and timed each.
const TIMED: usize = 20;
/// How many requests of this program are made at once.
const CLIENTS: usize = 8;
const POD_LIST: &str = "/api/v1/namespaces/default/pods";
const CLAIM_LIST: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// How much there is of everything.
#[derive(Debug, Clone, Copy)]
struct Size {
    nodes: usize,
    pods: usize,
    volumes: usize,
}

impl Size {
    fn all_pods(self) -> usize {
        self.nodes * self.pods
    }

    fn all_volumes(self) -> usize {
        self.all_pods() * self.volumes
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [option, attaching, nodes, pods, volumes, report] = &arguments[..] else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let attaching = match (option.as_str(), attaching.as_str()) {
        ("--attach-detach", "stock") => Attaching::ByKubernetes,
        ("--attach-detach", "volhost") => Attaching::ByAnother,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let number = |text: &String| text.parse::<usize>().unwrap_or_else(|_| panic!("{text}: {USAGE}"));
    let size = Size { nodes: number(nodes), pods: number(pods), volumes: number(volumes) };
    let cluster = Cluster::start_control_plane_with(attaching);
    let figures = Run::new(&cluster, size, attaching).run();
    println!("{figures:#}");
    std::fs::write(report, format!("{figures:#}\n")).expect("the report is written");
    ExitCode::SUCCESS
}

struct Run<'a> {
    cluster: &'a Cluster,
    api: Api,
    driver: ScaleDriver,
    size: Size,
    attaching: Attaching,
}

impl<'a> Run<'a> {
    fn new(cluster: &'a Cluster, size: Size, attaching: Attaching) -> Self {
        Self { cluster, api: cluster.api(), driver: ScaleDriver::default(), size, attaching }
    }

    fn run(&self) -> Value {
        let (cluster, size) = (self.cluster, self.size);
        let socket = cluster.node().folder().join("scale.sock");
        self.driver.serve(&socket);
        self.make_nodes();
        let mut controllers = Controllers::new(cluster, &socket);
        let mut leader = controllers.start();
        leader.wait_leads();
        let mut follower = controllers.start();
        let mut attaching = AttachDetachReplicas::start(cluster, self.attaching);

        say(&format!("{} claims ...", size.all_volumes()));
        let bound = self.time("volumes", || {
            let claims: Vec<usize> = (0..size.all_volumes()).collect();
            self.each(&claims, |claim| drop(self.api.create(CLAIM_LIST, &claim_of(claim))));
            self.wait("volumes are made", &leader, || self.driver.account().volumes() == size.all_volumes());
            self.wait("claims are bound", &leader, || {
                self.count("pvc", "{.status.phase}", "Bound") == size.all_volumes()
            });
        });

        let timed = TIMED.min(size.all_pods() / 2);
        say(&format!("{timed} pods, one after another ..."));
        let mut one = self.time_each(timed);

        say(&format!("{} pods on {} nodes; the leader is killed meanwhile ...", size.all_pods(), size.nodes));
        let mut failed_over = 0.0;
        let peak_first = leader.peak_mib();
        let attached = self.time("attachments", || {
            let pods: Vec<usize> = (timed..size.all_pods()).collect();
            self.each(&pods, |pod| drop(self.api.create(POD_LIST, &pod_of(size, pod, 0))));
            self.wait("half is attached", &leader, || self.driver.account().attached() * 2 >= size.all_volumes());
            leader.kill();
            let killed = Instant::now();
            attaching.kill_leader();
            follower.wait_leads();
            failed_over = killed.elapsed().as_secs_f64();
            self.wait("all is attached", &follower, || self.driver.account().attached() == size.all_volumes());
            self.wait("all is reported", &follower, || {
                self.count("volumeattachments", "{.status.attached}", "true") == size.all_volumes()
            });
            self.wait("all is listed", &follower, || self.listed() == size.all_volumes());
        });

        // Every second pod moves to the next node, with its volumes.
        say("Half of the pods move to another node; the leader is killed meanwhile ...");
        let mut third = controllers.start();
        let moved: Vec<usize> = (0..size.all_pods()).step_by(2).collect();
        let moving = self.time("moves", || {
            self.each(&moved, |pod| {
                self.api.delete(&format!("{POD_LIST}/{}", pod_name(pod, 0)));
                drop(self.api.create(POD_LIST, &pod_of(size, pod, 1)));
            });
            follower.kill();
            attaching.kill_leader();
            third.wait_leads();
            self.wait("the moved volumes are attached", &third, || self.is_placed(&moved));
        });
        let after_churn = third.peak_mib();

        say("Everything is deleted ...");
        let deleted = self.time("deletions", || {
            self.api.delete(POD_LIST);
            self.api.delete(CLAIM_LIST);
            self.wait("volumes are gone", &third, || self.driver.account().volumes() == 0);
            self.wait("objects are gone", &third, || {
                cluster.kubectl(&["get", "pv,volumeattachments,pvc", "-o", "name"]).is_empty() && self.listed() == 0
            });
        });
        let account = self.driver.account();
        assert!(account.violations.is_empty(), "{:#?}", account.violations);
        let figures = json!({
            "nodes": size.nodes,
            "pods": size.all_pods(),
            "volumes": size.all_volumes(),
            "attach-detach": if self.attaching == Attaching::ByAnother { "volhost" } else { "stock" },
            "milliseconds from a pod bound to its volumes in volumesAttached": {
                "median": quantile(&mut one, 50), "largest": quantile(&mut one, 100) },
            "seconds": { "claims to bound": bound, "pods to attached, with a fail-over": attached,
                "half moved, with a fail-over": moving, "all deleted": deleted, "killed to the next leads": failed_over },
            "peak MiB of a controller": { "first": peak_first, "third": after_churn },
            "driver's calls": account.calls,
            "requests to attach and detach": requests_to_attach(cluster, self.attaching),
            "peak MiB of volhost's attach/detach controller": attaching.peak_mib(),
            "requests of all replicas": self.requests(),
        });
        third.kill();
        figures
    }

    /// What the replicas have asked the API server for, watches apart. None was forbidden, and no
    /// object was read by a GET but the Lease.
    fn requests(&self) -> BTreeMap<String, usize> {
        let mut counted = BTreeMap::new();
        for request in self.cluster.requests() {
            let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            if !text("/userAgent").starts_with("volhost-controller/") || text("/verb") == "watch" {
                continue;
            }
            assert_ne!(request["responseStatus"]["code"], 403, "{request}");
            let (verb, resource, part) = (text("/verb"), text("/objectRef/resource"), text("/objectRef/subresource"));
            assert!(verb != "get" || resource == "leases", "{request}");
            let part = if part.is_empty() { String::new() } else { format!("/{part}") };
            *counted.entry(format!("{verb} {resource}{part}")).or_default() += 1;
        }
        counted
    }

    /// Makes pods one after another. Returns for each the milliseconds until its node's
    /// `status.volumesAttached` has its volumes.
    fn time_each(&self, pods: usize) -> Vec<u128> {
        let listed = |node: &str| {
            let node = self.api.get(&format!("/api/v1/nodes/{node}"));
            node["status"]["volumesAttached"].as_array().map_or(0, Vec::len)
        };
        let timed = |pod| {
            let node = node_name(node_of(self.size, pod, 0));
            let before = listed(&node);
            let begun = Instant::now();
            drop(self.api.create(POD_LIST, &pod_of(self.size, pod, 0)));
            assert!(eventually(|| listed(&node) == before + self.size.volumes), "{node}: pod {pod} is not attached");
            begun.elapsed().as_millis()
        };
        (0..pods).map(timed).collect()
    }

    /// How many entries all nodes have in `status.volumesAttached`.
    fn listed(&self) -> usize {
        let of = "jsonpath={range .items[*]}{.status.volumesAttached[*].name}{\" \"}{end}";
        self.cluster.kubectl(&["get", "nodes", "-o", of]).split_whitespace().count()
    }

    fn make_nodes(&self) {
        self.cluster.apply(&format!(
            "apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{ name: {DRIVER} }}
spec: {{ attachRequired: true }}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{ name: scale }}
provisioner: {DRIVER}
"
        ));
        assert!(eventually(|| self.cluster.try_kubectl(&["get", "serviceaccount", "default"]).is_ok()));
        let nodes: Vec<usize> = (0..self.size.nodes).collect();
        self.each(&nodes, |node| {
            let name = node_name(node);
            self.api.create(
                "/api/v1/nodes",
                &json!({
                    "apiVersion": "v1", "kind": "Node",
                    "metadata": {
                        "name": name,
                        "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
                    },
                }),
            );
            self.api.create(
                "/apis/storage.k8s.io/v1/csinodes",
                &json!({
                    "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": name },
                    "spec": { "drivers": [{ "name": DRIVER, "nodeID": name, "topologyKeys": null }] },
                }),
            );
        });
    }

    /// Whether every volume is attached once, and those of moved pods where they are to be.
    fn is_placed(&self, moved: &[usize]) -> bool {
        let mut wanted = vec![0; self.size.nodes];
        for pod in 0..self.size.all_pods() {
            wanted[node_of(self.size, pod, usize::from(moved.contains(&pod)))] += self.size.volumes;
        }
        let account = self.driver.account();
        wanted.iter().enumerate().all(|(node, wanted)| account.attached_to(&node_name(node)) == *wanted)
    }

    /// How many objects of a kind have this value.
    fn count(&self, kind: &str, field: &str, value: &str) -> usize {
        let of = format!("jsonpath={{range .items[*]}}{field}{{\"\\n\"}}{{end}}");
        self.cluster.kubectl(&["get", kind, "-o", &of]).lines().filter(|line| *line == value).count()
    }

    /// Does it for each, several at once.
    fn each(&self, all: &[usize], work: impl Fn(usize) + Sync) {
        std::thread::scope(|scope| {
            for part in 0..CLIENTS {
                let work = &work;
                scope.spawn(move || all.iter().skip(part).step_by(CLIENTS).for_each(|one| work(*one)));
            }
        });
    }

    /// Waits for as long as something goes on.
    fn wait(&self, what: &str, replica: &Replica, mut condition: impl FnMut() -> bool) {
        let calls = || self.driver.account().calls.values().sum::<u64>();
        loop {
            let before = calls();
            if eventually(&mut condition) {
                return;
            }
            assert!(calls() > before, "{what}: nothing goes on any more\n{}", replica.log_end());
        }
    }

    fn time(&self, what: &str, work: impl FnOnce()) -> f64 {
        let begun = Instant::now();
        work();
        let seconds = begun.elapsed().as_secs_f64();
        println!("{what}: {seconds:.1} s");
        (seconds * 10.0).round() / 10.0
    }
}

/// The value that so many of a hundred do not exceed.
fn quantile(values: &mut [u128], percent: usize) -> Option<u128> {
    values.sort_unstable();
    values.get((values.len() * percent).div_ceil(100).max(1) - 1).copied()
}

fn node_name(node: usize) -> String {
    format!("node-{node}")
}

fn pod_name(pod: usize, generation: usize) -> String {
    format!("pod-{pod}-{generation}")
}

/// Where a pod runs; one that has moved, on the next node.
fn node_of(size: Size, pod: usize, generation: usize) -> usize {
    (pod / size.pods + generation) % size.nodes
}

fn claim_of(claim: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": format!("claim-{claim}") },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "scale",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    })
}

/// A pod that tolerates that its node is none.
fn pod_of(size: Size, pod: usize, generation: usize) -> Value {
    let volumes = (0..size.volumes).map(|volume| {
        let claim = format!("claim-{}", pod * size.volumes + volume);
        json!({ "name": format!("v{volume}"), "persistentVolumeClaim": { "claimName": claim } })
    });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": pod_name(pod, generation) },
        "spec": {
            "nodeName": node_name(node_of(size, pod, generation)),
            "automountServiceAccountToken": false,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "none" }],
            "volumes": volumes.collect::<Vec<_>>(),
        },
    })
}

fn say(text: &str) {
    println!("{text}");
}
