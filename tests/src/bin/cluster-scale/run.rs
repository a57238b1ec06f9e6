//! The measurement, from the first claim to the last deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Map, Value, json};
use volhost_tests::cluster::{Api, Attaching, Cluster};

use crate::Size;
use crate::controllers::{self, AttachDetachReplicas, Controllers, Replica};
use crate::counts::Counts;
use crate::driver::{DRIVER, ScaleDriver};
use crate::interruption::{self, eventually};
use crate::nodes::{Nodes, Placement};
use crate::objects::{
    self, CLAIM_LIST, CONFIG_MAP_LIST, NODE_LIST, OTHER_VOLUMES, POD_LIST, node_name, node_of, pod_name,
};
use crate::process::{Memory, memory_of, peak_mib, processor_seconds_of};
use crate::progress::Progress;
use crate::report::Report;
use crate::requests;

/// How many pods are made one after another, and timed each.
const TIMED: usize = 20;
/// How many requests of this program are made at once.
const CLIENTS: usize = 8;

/// One run of the measurement.
pub(crate) struct Run<'a> {
    cluster: &'a Cluster,
    counts: Arc<Counts>,
    api: Api,
    driver: ScaleDriver,
    progress: Progress,
    report: &'a Report,
    size: Size,
    attaching: Attaching,
}

impl<'a> Run<'a> {
    pub(crate) fn new(cluster: &'a Cluster, size: Size, attaching: Attaching, report: &'a Report) -> Self {
        let driver = ScaleDriver::default();
        let api = cluster.api();
        let counts = Arc::new(Counts::start(&api));
        let progress = Progress::start(&driver, &counts, size.longest_rest());
        Self { cluster, counts, api, driver, progress, report, size, attaching }
    }

    pub(crate) fn run(&self) {
        let (size, report) = (self.size, self.report);
        report.set("nodes", size.nodes.into());
        report.set("pods", size.all_pods().into());
        report.set("claims", size.all_volumes().into());
        report.set("volumes", (size.all_volumes() + size.all_pods() * OTHER_VOLUMES).into());
        let by_volhost = self.attaching == Attaching::ByAnother;
        report.set("attach-detach", if by_volhost { "volhost" } else { "kubernetes" }.into());
        let socket = self.cluster.node().folder().join("scale.sock");
        self.driver.serve(&socket);
        let mut seconds = Map::new();
        let mut took = |what: &str, time: f64| {
            seconds.insert(what.to_owned(), time.into());
            report.set("seconds", seconds.clone().into());
        };

        let before = memory_of(std::process::id());
        let mut nodes = None;
        took("nodes started", self.progress.time("nodes start", || nodes = Some(self.start_nodes())));
        let mut nodes = nodes.expect("they were started");
        report.set("MiB of nodes without pods", self.memory_of_nodes(&nodes, before));
        let mut controllers = Controllers::new(self.cluster, &socket, size.lease());
        let mut leader = controllers.start();
        leader.wait_leads();
        let mut follower = controllers.start();
        let mut attaching = AttachDetachReplicas::start(self.cluster, self.attaching, size.lease());

        report.set("processes without pods", self.processes(&nodes, &leader, &attaching));

        took("claims to bound", self.progress.time("claims are made and bound", || self.make_claims(&leader)));

        let timed = TIMED.min(size.all_pods() / 2);
        let (mut attached, mut mounted) = (Vec::new(), Vec::new());
        let what = "pods are made one after another";
        self.progress.time(what, || (attached, mounted) = self.time_each(&nodes, timed));
        report.set(
            "milliseconds from a pod bound",
            json!({ "to its volumes in volumesAttached": spread(&mut attached), "to its volumes mounted": spread(&mut mounted) }),
        );

        let mut failed_over = 0.0;
        let what = "pods are made, controllers and agents killed and daemons restarted meanwhile";
        let time = self.progress.time(what, || {
            let pods: Vec<usize> = (timed..size.all_pods()).collect();
            let make = |pod| drop(self.api.create(POD_LIST, &objects::pod(size, pod, 0)));
            let half = size.all_volumes().div_ceil(2);
            let attached = || self.driver.account().attached().min(half);
            Self::beside(
                || self.each("pods are made", &pods, make),
                || {
                    self.progress.wait("half is attached", half, || leader.log_end(), attached);
                    leader.kill();
                    attaching.kill_leader();
                    let killed = Instant::now();
                    nodes.kill_agents();
                    nodes.restart_daemons();
                    follower.wait_leads();
                    failed_over = killed.elapsed().as_secs_f64();
                },
            );
            attaching.wait_leads();
            self.wait_placed(&nodes, &follower, &[]);
        });
        took("pods to mounted, with fail-overs", time);
        took("killed to the next leads", rounded(failed_over));
        report.set(
            "milliseconds from a pod at its daemon to mounted, all at once",
            spread(&mut nodes.mount_milliseconds()),
        );
        report.set("MiB of nodes with all pods", self.memory_of_nodes(&nodes, before));
        report.set("watches open", json!(self.watches()));
        report.set("requests by FlowSchema", self.flows());
        report.set("processes with all pods", self.processes(&nodes, &follower, &attaching));

        // Every second pod moves to the next node, with its volumes.
        let mut third = controllers.start();
        let moved: Vec<usize> = (0..size.all_pods()).filter(|pod| generation(*pod) == 1).collect();
        let time = self.progress.time("half of the pods move, controllers and agents killed meanwhile", || {
            let replaced = AtomicUsize::new(0);
            let replace = |pod| {
                self.api.delete(&format!("{POD_LIST}/{}", pod_name(pod, 0)));
                drop(self.api.create(POD_LIST, &objects::pod(size, pod, 1)));
                replaced.fetch_add(1, Ordering::Relaxed);
            };
            let half = moved.len() / 2;
            let done = || replaced.load(Ordering::Relaxed).min(half);
            Self::beside(
                || self.each("pods are replaced", &moved, replace),
                || {
                    self.progress.wait("half is replaced", half, || follower.log_end(), done);
                    follower.kill();
                    attaching.kill_leader();
                    nodes.kill_agents();
                    third.wait_leads();
                },
            );
            attaching.wait_leads();
            self.wait_placed(&nodes, &third, &moved);
        });
        took("half moved, with fail-overs", time);

        let time = self.progress.time("all is deleted", || self.delete_all(&nodes, &third));
        took("all deleted", time);
        report.set("processes at the end", self.processes(&nodes, &third, &attaching));
        third.kill();
        let account = self.driver.account();
        assert!(account.violations.is_empty(), "{:#?}", account.violations);
        drop(account);
        self.report_calls();
        report.set("complete", true.into());
    }

    /// Reports what was called until now.
    fn report_calls(&self) {
        let report = self.report;
        report.set("requests by FlowSchema", self.flows());
        report.set("replicas that ended by themselves", controllers::ended().into());
        let account = self.driver.account();
        report.set("driver's calls", json!(account.calls));
        // Checked at the end, which not every run reaches.
        report.set("what would lose data", json!(account.violations));
        drop(account);
        report.set("requests", json!(requests::count(self.cluster)));
    }

    /// Reports how far a run has come that does not reach its end. `how`: how it ended while it did
    /// what it reports.
    pub(crate) fn report_unfinished(&self, how: &str) {
        self.report.set(how, self.progress.now().into());
        self.report_calls();
    }

    fn start_nodes(&self) -> Nodes {
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
        // Pods need both, which the controller manager makes.
        self.cluster.wait(&["serviceaccount", "default"], "create");
        self.cluster.wait(&["configmap", "kube-root-ca.crt"], "create");
        drop(self.api.create(CONFIG_MAP_LIST, &objects::config_map()));
        let all: Vec<usize> = (0..self.size.nodes).collect();
        self.each("nodes are made", &all, |node| drop(self.api.create(NODE_LIST, &objects::node(node))));
        let nodes = Nodes::start(self.cluster, &self.driver, self.size.nodes);
        self.progress.wait(
            "agents have reported the driver",
            self.size.nodes,
            || nodes.log_end(),
            || self.counts.nodes_with_driver(),
        );
        nodes
    }

    fn make_claims(&self, leader: &Replica) {
        let all = self.size.all_volumes();
        let claims: Vec<usize> = (0..all).collect();
        self.each("claims are made", &claims, |claim| drop(self.api.create(CLAIM_LIST, &objects::claim(claim))));
        let known = || leader.log_end();
        self.progress.wait("volumes are made", all, known, || self.driver.account().volumes());
        self.progress.wait("claims are bound", all, known, || self.counts.bound());
    }

    /// Makes pods one after another. Returns for each the milliseconds until its node's
    /// `status.volumesAttached` has its volumes, and until all its volumes are mounted.
    fn time_each(&self, nodes: &Nodes, pods: usize) -> (Vec<u128>, Vec<u128>) {
        let listed = |node: &str| {
            let node = self.api.get(&format!("{NODE_LIST}/{node}"));
            node["status"]["volumesAttached"].as_array().map_or(0, Vec::len)
        };
        let timed = |pod| {
            let node = node_of(self.size, pod, 0);
            let name = node_name(node);
            let before = listed(&name);
            let begun = Instant::now();
            drop(self.api.create(POD_LIST, &objects::pod(self.size, pod, 0)));
            assert!(eventually(|| listed(&name) == before + self.size.volumes), "{name}: pod {pod} is not attached");
            let attached = begun.elapsed().as_millis();
            nodes.wait_mounted(node, &pod_name(pod, 0));
            (attached, begun.elapsed().as_millis())
        };
        (0..pods).map(timed).unzip()
    }

    /// Waits until every volume is attached once and listed, and every pod's volumes are mounted
    /// where it runs and nowhere else.
    fn wait_placed(&self, nodes: &Nodes, leader: &Replica, moved: &[usize]) {
        let size = self.size;
        let moved: BTreeSet<usize> = moved.iter().copied().collect();
        let mut wanted = vec![BTreeSet::new(); size.nodes];
        for pod in 0..size.all_pods() {
            let generation = usize::from(moved.contains(&pod));
            wanted[node_of(size, pod, generation)].insert(pod_name(pod, generation));
        }
        let known = || format!("{}\n{}\n{}", leader.log_end(), nodes.log_end(), nodes.unmounted());
        let volumes = u32::try_from(size.volumes + OTHER_VOLUMES).expect("it is small");
        let mut placement = Placement::new(nodes, &wanted, volumes);
        self.progress.wait("pods are mounted", size.all_pods(), known, || placement.count());
        self.progress.wait("nodes have their volumes attached", size.nodes, known, || {
            let account = self.driver.account();
            let has_all = |(node, pods): &(usize, &BTreeSet<String>)| {
                account.attached_to(&node_name(*node)) == pods.len() * size.volumes
            };
            wanted.iter().enumerate().filter(has_all).count()
        });
        let all = size.all_volumes();
        self.progress.wait("attachments are reported", all, known, || self.counts.attached());
        self.progress.wait("attached volumes are listed", all, known, || self.counts.listed());
        self.progress.wait("volumes in use are listed", all, known, || self.counts.in_use());
    }

    fn delete_all(&self, nodes: &Nodes, leader: &Replica) {
        let all = self.size.all_volumes();
        let known = || format!("{}\n{}\n{}", leader.log_end(), nodes.log_end(), nodes.unmounted());
        // One by one: the API server gives a request for all of them a minute.
        let pods: Vec<usize> = (0..self.size.all_pods()).collect();
        self.each("pods are deleted", &pods, |pod| {
            self.api.delete(&format!("{POD_LIST}/{}", pod_name(pod, generation(pod))));
        });
        let claims: Vec<usize> = (0..all).collect();
        self.each("claims are deleted", &claims, |claim| self.api.delete(&format!("{CLAIM_LIST}/claim-{claim}")));
        self.progress.wait("volumes are gone", all, known, || all - self.driver.account().volumes());
        self.progress.wait("kernels have no mount of a pod, leftovers", 0, known, || nodes.leftovers().len());
        self.progress.wait("objects are gone, left", 0, known, || self.counts.left());
    }

    /// Does work while another thread does what is beside it. Returns when both are done.
    fn beside(beside: impl FnOnce() + Send, work: impl FnOnce()) {
        std::thread::scope(|scope| {
            let beside = scope.spawn(beside);
            work();
            if let Err(panic) = beside.join() {
                resume_unwind(panic);
            }
        });
    }

    /// Does it for each, several at once. Unwinds at a signal.
    fn each(&self, what: &str, all: &[usize], work: impl Fn(usize) + Sync) {
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for part in 0..CLIENTS {
                let (work, done) = (&work, &done);
                scope.spawn(move || {
                    for one in all.iter().skip(part).step_by(CLIENTS) {
                        if interruption::is_interrupted() {
                            return;
                        }
                        work(*one);
                        self.progress.note(what, done.fetch_add(1, Ordering::Relaxed) + 1, all.len());
                    }
                });
            }
        });
        interruption::check();
    }

    /// The memory of agents, and of daemons with their kernels: what this process has more than
    /// before.
    fn memory_of_nodes(&self, nodes: &Nodes, before: Memory) -> Value {
        let agents = nodes.memory_of_agents();
        let count = agents.len().max(1) as f64;
        let now = memory_of(std::process::id());
        json!({
            "an agent, resident": rounded(agents.iter().map(|agent| agent.resident).sum::<f64>() / count),
            "an agent, its part of what agents share": rounded(agents.iter().map(|agent| agent.proportional).sum::<f64>() / count),
            "a daemon with its kernel in memory": rounded((now.resident - before.resident) / count),
        })
    }

    /// Memory and processor time of each component until now.
    fn processes(&self, nodes: &Nodes, controller: &Replica, attaching: &AttachDetachReplicas<'_>) -> Value {
        let mut all: Vec<(&str, u32)> = self.cluster.component_pids();
        all.push(("volhost controller, the leader", controller.pid()));
        all.extend(attaching.leader().map(|leader| ("volhost attach-detach-controller, the leader", leader)));
        all.push(("daemons, driver and this program", std::process::id()));
        let mut shown: BTreeMap<&str, Value> = all
            .into_iter()
            .map(|(name, process)| {
                let (peak, time) = (rounded(peak_mib(process)), rounded(processor_seconds_of(process)));
                (name, json!({ "peak MiB": peak, "processor seconds": time }))
            })
            .collect();
        let time = rounded(nodes.processor_seconds_of_agents());
        shown.insert("agents, since they were last killed", json!({ "processor seconds": time }));
        json!(shown)
    }

    /// The watches that the API server serves now, by resource.
    fn watches(&self) -> BTreeMap<String, f64> {
        let mut watches = self.metric("apiserver_longrunning_requests", "resource", "verb=\"WATCH\"");
        watches.retain(|_, count| *count > 0.0);
        watches
    }

    /// How many requests the API server has passed on and refused, by FlowSchema.
    fn flows(&self) -> Value {
        let flows = |metric| {
            let mut flows = self.metric(metric, "flow_schema", "");
            flows.retain(|name, count| *count > 0.0 && (name.starts_with("volhost") || name == "service-accounts"));
            flows
        };
        json!({
            "passed on": flows("apiserver_flowcontrol_dispatched_requests_total"),
            "refused": flows("apiserver_flowcontrol_rejected_requests_total"),
        })
    }

    /// The sums of a metric of the API server by one of its labels, of the lines that have this text.
    fn metric(&self, metric: &str, label: &str, with: &str) -> BTreeMap<String, f64> {
        let metrics = self.api.text("/metrics");
        let begin = format!("{metric}{{");
        let label = format!("{label}=\"");
        let mut sums = BTreeMap::new();
        for line in metrics.lines().filter(|line| line.starts_with(&begin) && line.contains(with)) {
            let name = line.split(&label).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
            let count = line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok()).unwrap_or_default();
            *sums.entry(name.to_owned()).or_default() += count;
        }
        sums
    }
}

/// Which object of a pod's is the last: of a pod that has moved, the second.
fn generation(pod: usize) -> usize {
    usize::from(pod.is_multiple_of(2))
}

/// A median, the value that 99 of 100 do not exceed, and the largest.
fn spread(values: &mut [u128]) -> Value {
    values.sort_unstable();
    let quantile = |percent: usize| values.get((values.len() * percent).div_ceil(100).max(1) - 1).copied();
    let shown = |value: Option<u128>| value.and_then(|value| u64::try_from(value).ok());
    json!({ "median": shown(quantile(50)), "99 of 100": shown(quantile(99)), "largest": shown(quantile(100)) })
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
