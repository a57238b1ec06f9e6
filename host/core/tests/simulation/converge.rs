//! The end of a run: no more faults, everything resolved, time goes on. The world has to become what is desired.

use std::collections::BTreeSet;

use volhost_model::names::{PodUid, UniqueVolumeName};
use volhost_model::view::PodPhase;

use crate::sim::Sim;
use crate::truth::Fate;
use crate::volumes::{KINDS, desired, kind_of, outer, variant_of};

/// More turns than any run needs; without an end something spins.
const TURNS: u32 = 20_000;

impl Sim {
    pub fn converge(&mut self) -> Result<(), String> {
        self.note("*** no more faults".to_owned());
        for mut told in self.live.clone().into_values() {
            for volume in std::mem::take(&mut told.unresolved) {
                let kind = KINDS.iter().find(|kind| outer(kind) == volume.outer_name).ok_or("no such kind")?;
                told.volumes.push(desired(kind, &told.pod.uid, 0, 10));
            }
            self.live.insert(told.pod.uid.clone(), told.clone());
            self.tell(told)?;
        }
        while !self.life.synced {
            self.sources_go_on()?;
        }
        let mut turns = 0;
        loop {
            turns += 1;
            if turns > TURNS {
                return Err("the machine does not come to rest".to_owned());
            }
            let in_use: BTreeSet<UniqueVolumeName> = self.life.core.volumes_in_use().into_iter().collect();
            if !self.config.host_attaches && (in_use != self.truth.attached || turns < 10) {
                self.controller_speaks()?;
            } else if let Some(id) = self.life.running.keys().next().copied() {
                self.end(id, Fate::Done)?;
            } else if let Some(at) = self.life.armed {
                self.now = self.now.max(at);
                self.step(volhost_core::Event::Timer)?;
            } else {
                break;
            }
        }
        self.check_end()
    }

    fn check_end(&self) -> Result<(), String> {
        let none = std::collections::BTreeMap::new();
        let live = if self.draining { &none } else { &self.live };
        let mut wanted: BTreeSet<(PodUid, UniqueVolumeName)> = BTreeSet::new();
        let mut blocked: BTreeSet<PodUid> = BTreeSet::new();
        for (uid, told) in live {
            for volume in &told.volumes {
                let place = (uid.clone(), volume.unique_name.clone());
                let Some(real) = self.truth.mounts.get(&place) else {
                    let elsewhere =
                        self.truth.mounts.keys().any(|(pod, other)| *other == volume.unique_name && pod != uid);
                    if kind_of(&volume.unique_name).single_pod && elsewhere {
                        blocked.insert(uid.clone());
                        continue;
                    }
                    return Err(format!("{place:?} is wanted and not mounted"));
                };
                if real.variant != variant_of(&volume.spec) {
                    return Err(format!("{place:?} is mounted from the wrong source"));
                }
                if volume.follows_source && real.version != self.versions.get(uid).copied().unwrap_or(0) {
                    return Err(format!("{place:?} shows stale content"));
                }
                let capacity = volume.spec.persistent_volume.as_ref().and_then(|pv| pv.capacity).unwrap_or(0);
                if volume.expandable && self.truth.sizes.get(&volume.unique_name).is_none_or(|size| *size < capacity) {
                    return Err(format!("{place:?} is too small"));
                }
                wanted.insert(place);
            }
        }
        if let Some(place) = self.truth.mounts.keys().find(|place| !wanted.contains(*place)) {
            return Err(format!("{place:?} is left over"));
        }
        let used = |volume: &UniqueVolumeName| wanted.iter().any(|(_, other)| other == volume);
        if let Some(volume) = self.truth.devices.iter().find(|volume| !used(volume)) {
            return Err(format!("the device of {volume} is left over"));
        }
        if let Some(volume) = self.truth.attached.iter().find(|volume| !used(volume)) {
            return Err(format!("{volume} is left attached"));
        }
        let core = &self.life.core;
        for pod in core.pods() {
            let uid = PodUid::new(&*pod.uid).map_err(|error| error.to_string())?;
            if pod.phase != PodPhase::Mounted && !blocked.contains(&uid) || !live.contains_key(&uid) {
                return Err(format!("pod {uid} is shown as {:?}", pod.phase));
            }
        }
        if core.pods().len() != live.len() {
            return Err("a pod is not shown".to_owned());
        }
        // A failure of a pod that another pod keeps from the volume is remembered until its turn comes.
        let blocked_at = |volume: &str| {
            !blocked.is_empty() && KINDS.iter().any(|kind| kind.single_pod && volume.ends_with(kind.name))
        };
        let operations: Vec<_> =
            core.operations().into_iter().filter(|view| view.running || !blocked_at(&view.volume)).collect();
        if !core.unused_volumes().is_empty() || !operations.is_empty() {
            return Err(format!("at rest, and yet: {:?} {operations:?}", core.unused_volumes()));
        }
        if !self.life.waiting.is_empty() {
            return Err(format!("waiters {:?} were never answered", self.life.waiting));
        }
        Ok(())
    }
}
