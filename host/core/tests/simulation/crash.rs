//! The host dies at any moment, and another one finds what it left.

use std::collections::BTreeSet;

use volhost_core::{Event, RecoveredDevice, RecoveredVolume};
use volhost_model::names::{PodUid, SpecName, UniqueVolumeName};

use crate::sim::{Life, Sim};
use crate::truth::{Fate, Place};
use crate::volumes::{kind_of, plugin, pod, spec};

impl Sim {
    /// The host dies; its operations come to some end without it. A new one finds what is there.
    pub fn crash(&mut self) -> Result<(), String> {
        self.note("*** crash".to_owned());
        for (operation, version) in std::mem::take(&mut self.life.running).into_values() {
            let fate = if self.random.chance(50) { Fate::Uncertain } else { Fate::Final };
            self.truth.end(&operation, version, fate, &mut self.random);
        }
        let gone: Vec<PodUid> = self.live.keys().filter(|_| self.random.chance(20)).cloned().collect();
        gone.iter().for_each(|uid| drop(self.live.remove(uid)));
        self.life = Life::new(self.config);
        self.life.recovering = true;
        self.draining = false;
        self.truth.old_mounts = self.truth.mounts.keys().cloned().collect();
        self.truth.old_devices = self.truth.devices.clone();
        self.truth.old_attached = self.truth.attached.clone();
        let mounts: Vec<(Place, u64)> =
            self.truth.mounts.iter().map(|(place, real)| (place.clone(), real.variant)).collect();
        for ((uid, volume), variant) in mounts {
            let kind = kind_of(&volume);
            let recorded = self.random.chance(80);
            // Complete is what has its device, and was brought to its size.
            let complete = (!kind.device_mountable || self.truth.devices.contains(&volume))
                && (!kind.expandable || self.truth.sizes.contains_key(&volume));
            let intact = complete && self.random.chance(70);
            let place = (uid.clone(), volume.clone());
            self.life.unsettled.insert(place.clone());
            if intact && recorded {
                self.life.intact.insert(place, variant);
            }
            let found = RecoveredVolume {
                pod: uid.clone(),
                known_pod: recorded.then(|| pod(&uid, vec![])),
                plugin: plugin(),
                spec_name: SpecName::new(kind.name).unwrap(),
                unique_name: volume,
                // A block volume is found in a folder of its own, so its mode is always known: by its spec.
                spec: (recorded || kind.block).then(|| spec(kind, variant, 10)),
                intact: intact && recorded,
                attachable: kind.attachable,
                device_mountable: kind.device_mountable,
            };
            self.step(Event::Recovered(found))?;
        }
        let staged: BTreeSet<UniqueVolumeName> = self.truth.devices.union(&self.truth.attached).cloned().collect();
        for volume in staged {
            let kind = kind_of(&volume);
            let found = RecoveredDevice {
                plugin: plugin(),
                spec_name: SpecName::new(kind.name).unwrap(),
                unique_name: volume,
                spec: kind.block.then(|| spec(kind, 0, 10)),
                attachable: kind.attachable,
                device_mountable: kind.device_mountable,
            };
            self.step(Event::RecoveredDevice(found))?;
        }
        self.life.recovering = false;
        self.check_world()
    }
}
