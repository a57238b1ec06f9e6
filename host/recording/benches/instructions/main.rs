//! How many instructions the recorder takes on the loop's thread.
//!
//! `cargo bench -p volhost-recording --bench recording-instructions` counts, compares with
//! `recorded.json`, and fails if one has grown by more than 5 %. With `-- --record` it replaces the
//! record. Needs valgrind, which counts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "a benchmark may panic, and uses a part of the scenarios' kit"
)]

#[path = "../../../core/benches/instructions/counting.rs"]
mod counting;
#[path = "../../../core/tests/scenarios/kit.rs"]
mod kit;
#[path = "../../../core/benches/instructions/record.rs"]
mod record;
#[path = "../../../core/benches/instructions/valgrind.rs"]
mod valgrind;

use std::process::ExitCode;
use std::sync::Arc;

use counting::Workload;
use kit::{MS, plain, pod, uid};
use volhost_core::{Config, Core, CoreCommand, DesiredPod, Event, Operation, OperationReport, Time};
use volhost_recording::Recorder;

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "a pod of 3 volumes is mounted and unmounted",
        rounds: 100,
        run: |rounds| come_and_go(rounds, None),
    },
    Workload {
        name: "a pod of 3 volumes is mounted and unmounted, recorded",
        rounds: 100,
        run: |rounds| come_and_go(rounds, Some(Recorder::new(machine()))),
    },
];

fn main() -> ExitCode {
    counting::main(WORKLOADS)
}

fn machine() -> Core {
    Core::new(Config::default().with_host_attaches(true))
}

struct World {
    core: Core,
    recorder: Option<Recorder>,
    now: Time,
    running: Vec<Operation>,
}

impl World {
    fn step(&mut self, event: Event) {
        self.now += MS;
        let recorded = self.recorder.as_ref().map(|_| event.clone());
        let commands = Arc::new(self.core.step(self.now, event));
        if let (Some(recorder), Some(event)) = (&mut self.recorder, recorded) {
            assert!(recorder.record(self.now, event, Arc::clone(&commands)).is_none(), "no step leaves");
        }
        for command in commands.iter() {
            if let CoreCommand::Start(operation) = command {
                // As the loop does for a worker thread.
                self.running.push(operation.clone());
            }
        }
    }

    fn settle(&mut self) {
        while let Some(operation) = self.running.pop() {
            self.step(Event::OperationDone { id: operation.id, report: OperationReport::done() });
        }
    }
}

fn come_and_go(rounds: u64, recorder: Option<Recorder>) {
    let mut world = World { core: machine(), recorder, now: 1_000_000 * MS, running: vec![] };
    for round in 0..rounds {
        let name = format!("pod-{round:08}");
        let volumes: Vec<_> = (0..3).map(|number| plain(&name, &format!("volume-{number}"))).collect();
        let used = volumes.iter().map(|volume| volume.outer_name.clone()).collect();
        world.step(Event::PodDesired(DesiredPod { pod: pod(&name, used), volumes, unresolved: vec![] }));
        world.settle();
        world.step(Event::PodGone { uid: uid(&name) });
        world.settle();
    }
    // The steps are freed by another thread.
    std::mem::forget(world.recorder);
}
