//! What is counted.

use std::hint::black_box;

use volhost_core::{Event, OperationReport};
use volhost_model::FailureClass;

use crate::counting::Workload;
use crate::kit::{World, plain, uid};

/// The pods that are mounted before a workload begins, for those where that matters.
const CROWD: u64 = 500;

pub(crate) const WORKLOADS: &[Workload] = &[
    Workload { name: "a pod of 3 volumes is mounted and unmounted, alone", rounds: 100, run: come_and_go },
    Workload {
        name: "a pod of 3 volumes is mounted and unmounted, among 500 pods",
        rounds: 100,
        run: come_and_go_in_a_crowd,
    },
    Workload { name: "a pod of 50 volumes is mounted and unmounted", rounds: 10, run: wide },
    Workload { name: "a pod that is mounted is found again at the start", rounds: 200, run: recover },
    Workload { name: "a pod is desired again unchanged, among 500 pods", rounds: 100, run: repeat },
    Workload { name: "a volume fails and is tried again", rounds: 100, run: fail },
    Workload { name: "the view of a pod, among 500 pods", rounds: 200, run: view },
];

fn name(round: u64) -> String {
    format!("pod-{round:08}")
}

fn desire(world: &mut World, pod: &str, volumes: u64) {
    let volumes = (0..volumes).map(|number| plain(pod, &format!("volume-{number}"))).collect();
    world.desire(pod, volumes);
}

fn crowd() -> World {
    let mut world = World::new();
    world.step(Event::SourcesSynced);
    for pod in 0..CROWD {
        desire(&mut world, &format!("crowd-{pod}"), 3);
        world.settle();
    }
    world
}

fn come_and_go_of(world: &mut World, rounds: u64, volumes: u64) {
    for round in 0..rounds {
        let pod = name(round);
        desire(world, &pod, volumes);
        world.settle();
        world.gone(&pod);
        world.settle();
        world.notices.clear();
    }
}

fn come_and_go(rounds: u64) {
    come_and_go_of(&mut World::new(), rounds, 3);
}

fn come_and_go_in_a_crowd(rounds: u64) {
    come_and_go_of(&mut crowd(), rounds, 3);
}

fn wide(rounds: u64) {
    come_and_go_of(&mut World::new(), rounds, 50);
}

fn recover(rounds: u64) {
    let mut world = World::new();
    for round in 0..rounds {
        let pod = name(round);
        world.recovered(&pod, &plain(&pod, "volume-0"), true);
    }
    for round in 0..rounds {
        desire(&mut world, &name(round), 1);
    }
    world.step(Event::SourcesSynced);
    assert!(world.running.is_empty(), "what was found is adopted");
}

fn repeat(rounds: u64) {
    let mut world = crowd();
    for _ in 0..rounds {
        desire(&mut world, "crowd-7", 3);
    }
    assert!(world.running.is_empty());
}

fn fail(rounds: u64) {
    let mut world = World::new();
    desire(&mut world, "a", 1);
    for _ in 0..rounds {
        world.fails("volume_mount volume-0 a", FailureClass::Transient);
        world.tick();
        world.notices.clear();
    }
    world.end("volume_mount volume-0 a", OperationReport::done());
}

fn view(rounds: u64) {
    let world = crowd();
    for _ in 0..rounds {
        black_box(world.core.pod(&uid("crowd-7")));
    }
}
