//! The invariants after every step: of each volume that the step may have changed, and of the
//! timer.

use volhost_core::Time;
use volhost_core_mutants::probe::FailureProbe;
use volhost_model::names::{PodUid, UniqueVolumeName};
use volhost_model::view::VolumeState;

use crate::due::is_mount;
use crate::kinds::{Catalog, PODS, VOLUMES, VolumeId};
use crate::life::Known;
use crate::rules::{Check, Rule, broken, ensure};
use crate::sim::{Sim, Turn};

/// The wait after a first failure, in microseconds, and the longest: the kubelet's.
const FIRST_WAIT: Time = 500_000;
const LONGEST_WAIT: Time = 122_000_000;

/// The shortest and the longest wait after so many failures in a row: waits are spread by a
/// quarter.
fn waits_after(failures: u32) -> std::ops::RangeInclusive<Time> {
    let mut wait = FIRST_WAIT;
    for _ in 1..failures.min(32) {
        wait = (wait * 2).min(LONGEST_WAIT);
    }
    if wait == LONGEST_WAIT { wait - wait / 4..=wait } else { wait..=(wait + wait / 4).min(LONGEST_WAIT) }
}

fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = usize::try_from(set.trailing_zeros()).unwrap();
        set &= set.wrapping_sub(1);
        (next < 32).then_some(next)
    })
}

impl Sim<'_> {
    pub fn check_after(&mut self, turn: &Turn) -> Check {
        // All first: a volume may concern another of its pod.
        let mut before = [Known::NOTHING; VOLUMES];
        for volume in bits(turn.volumes) {
            let now = self.life.look(self.catalog, volume);
            // Nothing is remembered of a volume that no pod wants any more.
            self.world.found_on_other_node[volume] &= now.there;
            before[volume] = std::mem::replace(&mut self.life.known[volume], now);
        }
        for volume in bits(turn.volumes) {
            self.check_volume(volume)?;
            self.check_failures(volume, &before[volume], turn)?;
        }
        self.check_notices(turn)?;
        for volume in bits(turn.volumes) {
            self.check_due(volume, turn)?;
        }
        self.check_waiters(turn)?;
        self.check_timer(turn)
    }

    /// The known state of the volume agrees with the world, or a plugin has lied.
    fn check_volume(&self, volume: VolumeId) -> Check {
        let (known, world) = (&self.life.known[volume], &self.world);
        let name = &self.catalog.volumes[volume].name;
        for pod in 0..PODS {
            let thing = &world.mounts[volume][pod];
            if thing.lied {
                continue;
            }
            let state = known.mounts[pod].map(|mount| mount.state);
            let may_be = state.is_some_and(|state| state.may_exist());
            ensure(thing.real.is_none() || may_be || self.life.recovering, Rule::NothingForgotten, || {
                format!("{name} is mounted for pod{pod}, and the machine does not know")
            })?;
            let certain = state.is_some_and(|state| state.is_certain());
            let exists = thing.real.is_some_and(|real| real.complete) || self.is_going(volume, pod);
            ensure(!certain || exists, Rule::NothingImagined, || {
                format!("the machine takes {name} of pod{pod} for mounted, and it is not, or not completely")
            })?;
        }
        let on_other_node = world.found_on_other_node[volume];
        ensure(known.on_other_node == on_other_node, Rule::KnownElsewhere, || {
            format!("that another node has {name} is {on_other_node}, and the machine has {}", known.on_other_node)
        })?;
        let attached = (&world.attached[volume], known.attach, "attached");
        let staged = (&world.devices[volume], known.device, "staged");
        for (thing, state, how) in [attached, staged] {
            if thing.lied {
                continue;
            }
            let controlled = how == "attached" && !self.config.host_attaches;
            ensure(
                !thing.real || state.may_exist() || self.life.recovering || controlled,
                Rule::NothingForgotten,
                || format!("{name} is {how}, and the machine does not know"),
            )?;
            let taken = controlled && self.life.taken_away[volume];
            let going = how == "staged" && self.device_is_going(volume);
            ensure(!state.is_certain() || thing.real || taken || going, Rule::NothingImagined, || {
                format!("the machine takes {name} for {how}, and it is not")
            })?;
        }
        Ok(())
    }

    /// A failure is counted, kept while its operation is needed, and waits for exactly as long as
    /// it should.
    fn check_failures(&self, volume: VolumeId, before: &Known, turn: &Turn) -> Check {
        let (known, of) = (&self.life.known[volume], &self.catalog.volumes[volume]);
        let ended = turn.ended.filter(|ended| ended.volume == volume);
        let mut needs = None;
        for slot in 0..=PODS {
            let mut expected = before.failures[slot];
            let followed = turn.source_changed.filter(|pod| {
                *pod == slot && of.kind.follows_source && self.life.said(self.catalog, *pod, volume).is_some()
            });
            let vanished =
                turn.vanished == Some((volume, slot)) || (slot == PODS && turn.device_vanished == Some(volume));
            if turn.plugin_changed == Some(of.kind.plugin) || followed.is_some() || vanished {
                expected = expected.map(|failed| FailureProbe { failures: 0, retry_at: self.life.now, ..failed });
            }
            if let Some(ended) = ended {
                let of_device = is_mount(ended.name) && of.kind.stageable && !known.device.is_certain();
                let fails_on = ended.pod.filter(|_| !of_device).unwrap_or(PODS);
                let same = expected.filter(|failed| failed.name == ended.name);
                if ended.failed.is_some() && fails_on == slot {
                    let failures = same.map_or(0, |failed| failed.failures) + 1;
                    let waits = waits_after(failures);
                    let shortest = self.life.now + waits.start();
                    // Any time within the bounds will do.
                    let held = known.failures[slot].map(|found| found.retry_at).unwrap_or(shortest);
                    let retry_at = held.clamp(shortest, self.life.now + waits.end());
                    expected = Some(FailureProbe { name: ended.name, failures, retry_at });
                } else if ended.failed.is_none()
                    && same.is_some()
                    && (slot == PODS || ended.pod.unwrap_or(PODS) == slot)
                {
                    expected = None;
                }
            }
            let wiped = |failed: &FailureProbe| {
                turn.started
                    .iter()
                    .any(|(other, pod, name)| *other == volume && pod.unwrap_or(PODS) == slot && *name != failed.name)
            };
            expected = expected.filter(|failed| !wiped(failed));
            let found = known.failures[slot];
            if found == expected {
                continue;
            }
            let (Some(expected), None) = (expected, found) else {
                return broken(Rule::BackOff, format!("{} is known as {found:?}, not {expected:?}", of.name));
            };
            let needs = needs.get_or_insert_with(|| self.needs(volume));
            ensure(!needs.iter().any(|needed| needed.keeps(slot, expected.name)), Rule::BackOff, || {
                format!("{} of {} has failed, is needed, and its failure is forgotten", expected.name, of.name)
            })?;
        }
        Ok(())
    }

    /// A timer is armed for the first thing that becomes due by time alone.
    fn check_timer(&self, turn: &Turn) -> Check {
        let life = &self.life;
        let retries = life.known.iter().flat_map(|known| known.failures.iter().flatten()).map(|failed| failed.retry_at);
        let deadlines = life.waiting.iter().map(|waiter| waiter.deadline);
        let next = retries.filter(|at| *at > life.now).chain(deadlines).min();
        if let Some(next) = next {
            ensure(life.armed.is_some_and(|at| at <= next), Rule::Timer, || {
                format!("something is due at {next}, and the timer is armed for {:?}", life.armed)
            })?;
        }
        ensure(turn.armed.is_none() || turn.armed == next, Rule::Timer, || {
            format!("it was armed for {:?}, and something is due at {next:?}", turn.armed)
        })
    }

    /// What users are shown agrees with the world, too.
    pub fn check_views(&self) -> Check {
        let core = &self.life.core;
        let pods = core.pods();
        for view in pods.iter().flat_map(|pod| &pod.volumes) {
            let Ok(name) = UniqueVolumeName::new(&*view.unique_name) else {
                continue;
            };
            let pod = Catalog::pod_id(&PodUid::new(&*view.pod_uid).unwrap());
            let thing = &self.world.mounts[self.catalog.volume_id(&name)][pod];
            let mounted = view.state == VolumeState::Mounted;
            let exists = thing.real.is_some() || thing.lied || self.is_going(self.catalog.volume_id(&name), pod);
            ensure(!mounted || exists, Rule::NothingImagined, || {
                format!("{name} of pod{pod} is shown as mounted, and it is not")
            })?;
        }
        let shown = |pod: usize, volume: usize| {
            let (uid, name) = (self.catalog.uids[pod].as_str(), self.catalog.volumes[volume].name.as_str());
            pods.iter()
                .flat_map(|pod| &pod.volumes)
                .any(|view| view.pod_uid == uid && view.unique_name == name && !view.path.is_empty())
        };
        for volume in 0..VOLUMES {
            for pod in 0..PODS {
                let thing = &self.world.mounts[volume][pod];
                ensure(thing.real.is_none() || thing.lied || shown(pod, volume), Rule::NothingForgotten, || {
                    format!("{} is mounted for pod{pod}, and not shown", self.catalog.volumes[volume].name)
                })?;
            }
        }
        let unused = core.unused_volumes();
        for volume in 0..VOLUMES {
            let name = self.catalog.volumes[volume].name.as_str();
            let exists = |thing: &crate::world::Thing<bool>| thing.real && !thing.lied;
            let there = exists(&self.world.devices[volume])
                || (exists(&self.world.attached[volume]) && self.config.host_attaches);
            let known =
                unused.iter().chain(pods.iter().flat_map(|pod| &pod.volumes)).any(|view| view.unique_name == name);
            ensure(!there || known || self.world.any_mount_lied(volume), Rule::NothingForgotten, || {
                format!("{name} is staged or attached, and not shown")
            })?;
        }
        Ok(())
    }
}
