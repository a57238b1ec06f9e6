//! `make bench-scale`: volhost in a cluster of many nodes, on a real API server: `volhost
//! controller`, `volhost attach-detach-controller` or Kubernetes' own, and on each node the agent
//! and the daemon. Volumes are made, attached, mounted, moved to other nodes and deleted;
//! controllers and agents are killed meanwhile, and daemons restarted.
//!
//! ```text
//!  claims, pods --> API server <-- volhost controller --------> driver (in this process, no storage)
//!                    ^      ^ <--- attach/detach controller          ^
//!                    |      |                                        | stage, publish
//!                 agent    agent   (a process each)                  |
//!                    |      |                                        |
//!                 daemon  daemon   (all in this process) --> csi plugin (wasm)
//!                    |      |                 '--> config-map, projected (wasm)
//!                 kernels in memory
//! ```
//!
//! No container runs, and no kubelet: what it does besides volumes, such as heartbeats and pods'
//! status, is left out. The driver notes whatever would lose data.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "it shows what it does"
)]

mod controllers;
mod counts;
mod driver;
mod interruption;
mod nodes;
mod objects;
mod process;
mod progress;
mod report;
mod requests;
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::time::Duration;

use volhost_tests::cluster::{Attaching, Cluster};

use interruption::Interrupted;
use report::Report;
use run::Run;

const USAGE: &str =
    "usage: cluster-scale --attach-detach kubernetes|volhost NODES PODS-PER-NODE CLAIMS-PER-POD REPORT.json";

/// The exit status of a run that a signal has ended: that of a shell for SIGINT.
const INTERRUPTED: u8 = 130;

/// How much there is of everything.
#[derive(Debug, Clone, Copy)]
struct Size {
    nodes: usize,
    /// Pods of a node.
    pods: usize,
    /// Claims of a pod.
    volumes: usize,
}

impl Size {
    fn all_pods(self) -> usize {
        self.nodes * self.pods
    }

    fn all_volumes(self) -> usize {
        self.all_pods() * self.volumes
    }

    /// How long nothing may change: agents that start together read the objects of all pods before
    /// the next pod is mounted.
    fn longest_rest(self) -> Duration {
        Duration::from_secs(300) + Duration::from_secs(3) * u32::try_from(self.nodes).unwrap_or(u32::MAX)
    }

    /// The duration of controllers' Leases: the default, but for small runs, whose time is mostly
    /// that until the next replica leads, and for large ones, in which the API server shares its
    /// processors with so many nodes that a renewal takes longer than the default allows.
    fn lease(self) -> &'static str {
        match self.nodes {
            ..20 => "5s",
            20..200 => "15s",
            200.. => "60s",
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [option, attaching, nodes, pods, volumes, report] = &arguments[..] else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let attaching = match (option.as_str(), attaching.as_str()) {
        ("--attach-detach", "kubernetes") => Attaching::ByKubernetes,
        ("--attach-detach", "volhost") => Attaching::ByAnother,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let number = |text: &String| text.parse::<usize>().unwrap_or_else(|_| panic!("{text}: {USAGE}"));
    let size = Size { nodes: number(nodes), pods: number(pods), volumes: number(volumes) };
    let report = Report::new(report);
    interruption::note_signals();
    let cluster = Cluster::start_control_plane_with(attaching);
    let run = Run::new(&cluster, size, attaching, &report);
    let ended = catch_unwind(AssertUnwindSafe(|| run.run()));
    match ended {
        Ok(()) => {}
        Err(cause) if cause.is::<Interrupted>() => run.report_unfinished("ended by a signal while"),
        Err(cause) => {
            run.report_unfinished("failed while");
            resume_unwind(cause);
        }
    }
    println!("{}", report.text());
    if interruption::is_interrupted() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS }
}
