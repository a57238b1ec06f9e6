//! `make e2e`: Kubernetes' own tests of storage drivers (e2e.test, "External Storage") for
//! `deploy/csi`, or for another CSI driver with `volhost controller` in place of its sidecars, on a
//! stock kubelet. Ends with a table of what passed, failed and was left out, and with the reasons.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    clippy::panic,
    reason = "it shows what it does"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use volhost_tests::artifacts::{self, workspace};
use volhost_tests::cluster::Cluster;
use volhost_tests::interruptions::interruptions;

const USAGE: &str = "usage: cluster-e2e IMAGE.tar REPORT-FOLDER [FOCUS] [SKIP] [DRIVER-FOLDER]; `make e2e` makes the image and runs this";
/// The folder of the plugin `loop`, which is tested unless another one is given.
const LOOP: &str = "tests/kubernetes/loop";
/// Those of external drivers.
const FOCUS: &str = r"External.Storage";
/// Always left out: tests that end programs of a node through ssh, need the cluster for themselves,
/// are of Windows, or measure large clusters.
const SKIP: &str = r"\[Disruptive\]|\[Serial\]|ntfs|Feature:Windows|performance";
/// How often the processes are looked at.
const LOOKED_AT: Duration = Duration::from_millis(200);
/// How long ginkgo has to end.
const ENDS_WITHIN: Duration = Duration::from_secs(20);
/// How many tests run at once.
const PROCESSES: &str = "--procs=4";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, report, rest @ ..] = &arguments[..] else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let given = |at: usize| rest.get(at).filter(|given| !given.is_empty());
    let focus = given(0).map_or(FOCUS, String::as_str);
    let skip = given(1).map_or_else(|| SKIP.to_owned(), |more| format!("{SKIP}|{more}"));
    let report = PathBuf::from(report);
    fs::create_dir_all(&report).expect("the folder of the report");
    let report = report.canonicalize().expect("the folder of the report");
    // What is started is ended by unwinding: a signal may not end this process at once.
    let interrupted = interruptions();
    let folder = given(2).map_or_else(|| workspace().join(LOOP), PathBuf::from);
    let driver = Driver { folder: folder.canonicalize().expect("the driver's folder"), image: image.into() };
    if !run(&driver, &report, (focus, &skip), &interrupted) {
        eprintln!("cluster-e2e: interrupted");
        return ExitCode::FAILURE;
    }
    let text = fs::read_to_string(report.join("report.json")).expect("ginkgo has written a report");
    let specs = specs(&serde_json::from_str(&text).expect("the report is JSON"));
    show(&specs);
    println!("Everything the tests have said: {}", report.join("log").display());
    let failed = specs.iter().any(|spec| spec.outcome == Outcome::Failed);
    let passed = specs.iter().any(|spec| spec.outcome == Outcome::Passed);
    if passed && !failed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The driver that is tested: what the program `start` in its folder runs until it is ended; without
/// that program, `deploy/csi` with the image in this archive. `driver.yaml` and `classes.yaml` are
/// beside it.
struct Driver {
    folder: PathBuf,
    image: PathBuf,
}

impl Driver {
    /// Starts it in the cluster. Returns its process, if it has one.
    fn start(&self, cluster: &Cluster, report: &Path) -> Option<Child> {
        let program = self.folder.join("start");
        let process = if program.exists() {
            let log = fs::File::create(report.join("driver.log")).expect("a log");
            let path = std::env::var("PATH").unwrap_or_default();
            let programs = artifacts::volhost();
            let programs = programs.parent().expect("a folder of programs").display();
            // With its node, all that it has started ends.
            let process = cluster
                .node()
                .inside(program)
                .env("NODE", cluster.node().folder())
                .env("KUBELET", cluster.kubelet())
                .env("KUBECONFIG", cluster.kubeconfig())
                .env("PATH", format!("{programs}:{path}"))
                .stdin(Stdio::null())
                .stdout(log.try_clone().expect("a handle"))
                .stderr(log)
                .spawn()
                .expect("the driver's start runs");
            Some(process)
        } else {
            share_blocks(cluster);
            cluster.deploy_csi(&self.image);
            None
        };
        cluster.kubectl(&["apply", "-f", &self.folder.join("classes.yaml").display().to_string()]);
        process
    }

    /// The file that describes it to the tests.
    fn described(&self) -> PathBuf {
        self.folder.join("driver.yaml")
    }
}

/// Runs the tests. Their report is in the folder then. Returns whether they have run to their end.
fn run(driver: &Driver, report: &Path, (focus, skip): (&str, &str), interrupted: &Receiver<()>) -> bool {
    println!("Starting Kubernetes, and the driver in it ...");
    let cluster = Cluster::start();
    cluster.install_snapshots();
    let mut process = driver.start(&cluster, report);
    let programs = cluster.programs();
    let own_tests = programs.join("e2e.test");
    assert!(own_tests.exists(), "there is no {}; run tests/kubernetes/build.sh --e2e", own_tests.display());
    // Every image that the tests name is one of two.
    const REPOSITORY: &str = "localhost/e2e";
    let listed = Command::new(&own_tests).arg("--list-images").env("KUBE_TEST_REPO", REPOSITORY).output();
    let listed = listed.expect("e2e.test runs");
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    cluster.load_images_of_tests(names.lines().filter(|name| name.starts_with(REPOSITORY)));

    println!("Running the tests that match {focus} and not {skip} ...");
    let log = fs::File::create(report.join("log")).expect("a log");
    let mut tests = Command::new(programs.join("ginkgo"))
        .args([PROCESSES, "--no-color", "-v", "--timeout=60m", "--poll-progress-after=0", "--keep-going"])
        .args(["--json-report=report.json", "--focus", focus, "--skip", skip])
        .arg("--output-dir")
        .arg(report)
        .arg(&own_tests)
        .args(["--", "-provider=skeleton", "-dump-logs-on-failure=true"])
        .arg(format!("-kubeconfig={}", cluster.kubeconfig().display()))
        .arg(format!("-kubectl-path={}", programs.join("kubectl").display()))
        .arg(format!("-storage.testdriver={}", driver.described().display()))
        .env("KUBE_TEST_REPO", REPOSITORY)
        .env("HOME", report)
        .current_dir(report)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a handle"))
        .stderr(log)
        .spawn()
        .expect("ginkgo runs");
    loop {
        if interrupted.recv_timeout(LOOKED_AT).is_ok() {
            end(&mut tests);
            return false;
        }
        if let Some(status) = tests.try_wait().expect("ginkgo is a child") {
            println!("ginkgo has ended: {status}");
            return true;
        }
        let ended = process.as_mut().and_then(|process| process.try_wait().expect("the driver's start is a child"));
        if let Some(ended) = ended {
            end(&mut tests);
            panic!("the driver's start has ended: {ended}; see {}", report.join("driver.log").display());
        }
    }
}

/// Ends the tests. At SIGTERM, ginkgo ends its own processes and lets each test remove what it has
/// made, which a driver that does not answer can hold up for as long as the tests wait for it.
fn end(tests: &mut Child) {
    let _ = kill_process(Pid::from_child(tests), Signal::TERM);
    let begin = Instant::now();
    while begin.elapsed() < ENDS_WITHIN {
        if !matches!(tests.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(LOOKED_AT);
    }
    // Its processes, too.
    let _ = kill_process_group(Pid::from_child(tests), Signal::KILL);
    let _ = tests.wait();
}

/// Mounts an XFS where the driver keeps its images: a snapshot of a volume that is in use needs a
/// file system whose files share blocks.
fn share_blocks(cluster: &Cluster) {
    let script = "mkdir -p $NODE/loop; truncate -s 40G $NODE/images; mkfs.xfs -q $NODE/images; mount -o loop $NODE/images $NODE/loop";
    let node = cluster.node();
    let done = node.inside("sh").args(["-euc", script]).env("NODE", node.folder()).status().expect("sh runs");
    assert!(done.success(), "no file system for the images: {script}");
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    LeftOut,
}

/// One test of external drivers.
#[derive(Debug)]
struct Spec {
    /// `provisioning`, `subPath` and so on.
    suite: String,
    name: String,
    outcome: Outcome,
    seconds: f64,
    /// Why it failed, or was left out.
    reason: String,
}

/// The tests of external drivers that were selected, from ginkgo's report.
fn specs(report: &Value) -> Vec<Spec> {
    let suites = report.as_array().into_iter().flatten();
    let all = suites.flat_map(|suite| suite.pointer("/SpecReports").and_then(Value::as_array).into_iter().flatten());
    all.filter_map(spec).collect()
}

fn spec(report: &Value) -> Option<Spec> {
    let containers: Vec<&str> =
        report.get("ContainerHierarchyTexts")?.as_array()?.iter().filter_map(Value::as_str).collect();
    containers.iter().find(|text| text.starts_with("External Storage"))?;
    let pattern = containers.iter().find(|text| text.starts_with("[Testpattern"))?;
    let message = report.pointer("/Failure/Message").and_then(Value::as_str).unwrap_or_default();
    let outcome = match report.get("State")?.as_str()? {
        "passed" => Outcome::Passed,
        // What the focus does not name has no reason.
        "skipped" if message.is_empty() => return None,
        "skipped" | "pending" => Outcome::LeftOut,
        _ => Outcome::Failed,
    };
    let reason = message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    Some(Spec {
        suite: suite(pattern).to_owned(),
        name: format!("{pattern} {}", report.get("LeafNodeText").and_then(Value::as_str).unwrap_or_default()),
        outcome,
        seconds: report.get("RunTime").and_then(Value::as_f64).unwrap_or_default() / 1e9,
        reason,
    })
}

/// The suite of a container as `[Testpattern: Dynamic PV (xfs)] [Slow] multiVolume [Slow]`.
fn suite(pattern: &str) -> &str {
    let (_, rest) = pattern.split_once(']').unwrap_or_default();
    rest.split_whitespace().find(|word| !word.starts_with('[')).unwrap_or_default()
}

fn show(specs: &[Spec]) {
    let mut suites: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for spec in specs {
        let counts = suites.entry(&spec.suite).or_default();
        let [passed, failed, left_out] = counts;
        match spec.outcome {
            Outcome::Passed => *passed += 1,
            Outcome::Failed => *failed += 1,
            Outcome::LeftOut => {
                *left_out += 1;
                *reasons.entry(&spec.reason).or_default() += 1;
            }
        }
    }
    println!("\n{:<32} {:>7} {:>7} {:>9}", "suite", "passed", "failed", "left out");
    for (suite, [passed, failed, left_out]) in &suites {
        println!("{suite:<32} {passed:>7} {failed:>7} {left_out:>9}");
    }
    let sum = |at: fn(&[usize; 3]) -> usize| suites.values().map(at).sum::<usize>();
    let (passed, failed, left_out) =
        (sum(|[passed, ..]| *passed), sum(|[_, failed, _]| *failed), sum(|[.., out]| *out));
    println!("{:<32} {passed:>7} {failed:>7} {left_out:>9}", "all");
    println!("\nThe slowest:");
    let mut slowest: Vec<&Spec> = specs.iter().filter(|spec| spec.outcome == Outcome::Passed).collect();
    slowest.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    for spec in slowest.iter().take(10) {
        println!("{:>7.0} s  {}", spec.seconds, spec.name);
    }
    println!("\nLeft out, because:");
    for (reason, count) in &reasons {
        println!("{count:>7}  {reason}");
    }
    for spec in specs.iter().filter(|spec| spec.outcome == Outcome::Failed) {
        println!("\nFAILED after {:.0} s: {}\n        {}", spec.seconds, spec.name, spec.reason);
    }
    println!("\n{passed} passed, {failed} failed, {left_out} left out");
}
