//! Looks at the volumes of pods, in the same way for whoever mounts them.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use volhost_tests::wait::TIMEOUT;

use crate::pods::{CreatedPod, Sign, timed};
use crate::side::Side;
use crate::world::World;

/// The pause between two looks: the resolution of all times.
const PAUSE: Duration = Duration::from_millis(1);
/// How many pods are being created at a time.
const CREATORS: usize = 8;

/// The times of pods that were created at once.
#[derive(Debug)]
pub(crate) struct TimesAtOnce {
    /// From each pod's creation to its volumes.
    pub(crate) each: Vec<Duration>,
    /// From the first creation to the last volume.
    pub(crate) whole: Duration,
}

fn is_there(sign: &Sign) -> bool {
    let is_mount = |path: &Path| {
        let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE);
        found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    };
    match sign {
        Sign::Mount(path) => is_mount(path),
        Sign::File(path) => path.exists(),
    }
}

fn is_mounted(pod: &CreatedPod) -> bool {
    pod.signs.iter().all(is_there)
}

fn wait(world: &World, what: &str, pod: &CreatedPod, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < TIMEOUT, "{}: not {what} after {TIMEOUT:?}\n{}", pod.name, world.known());
        std::thread::park_timeout(PAUSE);
    }
}

/// Waits until every volume of the pod is mounted.
pub(crate) fn wait_mounted(world: &World, pod: &CreatedPod) {
    wait(world, "mounted", pod, || is_mounted(pod));
}

/// Waits until no volume of the pod is left.
pub(crate) fn wait_gone(world: &World, pod: &CreatedPod) {
    wait(world, "gone", pod, || !pod.folder.join("volumes").exists());
}

/// Creates this many pods at once, and waits until all have their volumes.
pub(crate) fn time_at_once(world: &World, side: Side, count: usize) -> (TimesAtOnce, Vec<CreatedPod>) {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let (created, creations) = mpsc::channel();
        for creator in 0..CREATORS {
            let created = created.clone();
            scope.spawn(move || {
                for number in (creator..count).step_by(CREATORS) {
                    let name = format!("many-{}-{number}", side.word());
                    let begun = Instant::now();
                    let pod = world.create(&timed(world, side, &name), side, &name);
                    created.send((begun, pod)).expect("the observer waits for all");
                }
            });
        }
        drop(created);
        let (mut waiting, mut mounted, mut each) = (Vec::new(), Vec::new(), Vec::new());
        while mounted.len() < count {
            waiting.extend(creations.try_iter());
            let ready = waiting.extract_if(.., |(_, pod): &mut (Instant, CreatedPod)| is_mounted(pod));
            for (begun, pod) in ready {
                each.push(begun.elapsed());
                mounted.push(pod);
            }
            assert!(begun.elapsed() < TIMEOUT, "{} of {count} are mounted\n{}", mounted.len(), world.known());
            std::thread::park_timeout(PAUSE);
        }
        (TimesAtOnce { each, whole: begun.elapsed() }, mounted)
    })
}
