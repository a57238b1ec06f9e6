//! The state machine alone: a volume from its desire to the end of its operation, in this process,
//! with nothing between.

use std::time::{Duration, Instant};

use volhost_core::{Config, Core, CoreCommand, DesiredPod, Event, OperationReport};
use volhost_tests::benchmark::{Figure, number};

use crate::kit;
use crate::report::Report;

const PODS: usize = 1000;
const VOLUMES: usize = 10;

/// A pod that nothing is known about.
fn desired(number: usize) -> DesiredPod {
    let name = format!("pod-{number:08}");
    let volumes: Vec<_> = (0..VOLUMES).map(|volume| kit::plain(&name, &format!("volume-{volume}"))).collect();
    let used = volumes.iter().map(|volume| volume.outer_name.clone()).collect();
    DesiredPod { pod: kit::pod(&name, used), volumes, unresolved: Vec::new() }
}

/// What is started by an event, and by the ends of what it has started.
fn settle(core: &mut Core, event: Event) -> usize {
    let (mut events, mut ended) = (vec![event], 0);
    while let Some(event) = events.pop() {
        for command in core.step(kit::MS, event) {
            if let CoreCommand::Start(operation) = command {
                ended += 1;
                events.push(Event::OperationDone { id: operation.id, report: OperationReport::done() });
            }
        }
    }
    ended
}

pub(crate) fn measure(report: &mut Report) {
    let mut core = Core::new(Config::default().with_host_attaches(true));
    settle(&mut core, Event::SourcesSynced);
    let pods: Vec<DesiredPod> = (0..PODS).map(desired).collect();
    let mut took = Duration::ZERO;
    for pod in pods {
        let begun = Instant::now();
        let ended = settle(&mut core, Event::PodDesired(pod));
        took += begun.elapsed();
        assert_eq!(ended, VOLUMES, "a volume is one operation");
    }
    let what = format!("state machine alone: a volume, of {} pods of {VOLUMES}", number(PODS));
    report.add(Figure::new("state-machine-volume", what, took.div_f64((PODS * VOLUMES) as f64)));
}
