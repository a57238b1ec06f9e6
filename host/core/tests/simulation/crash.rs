//! The host dies at any moment, and another one finds what it left.

use volhost_core::{Event, RecoveredDevice, RecoveredVolume};
use volhost_model::names::SpecName;

use crate::action::OperationEnd;
use crate::happen::everything;
use crate::kinds::{PODS, VOLUMES};
use crate::life::Life;
use crate::random::Random;
use crate::rules::Check;
use crate::sim::Sim;

impl Sim<'_> {
    /// The host dies; its operations come to some end without it. A new one finds what is there,
    /// with or without a record of it.
    pub fn crash(&mut self, luck: u64) -> Check {
        let mut random = Random::new(luck);
        self.note(|_| "*** the host dies, and starts again".to_owned());
        for running in std::mem::take(&mut self.life.running) {
            self.met.insert((running.operation.kind.name().as_str(), "crash"));
            let fate = match random.below(4) {
                0 => OperationEnd::Final,
                1 => OperationEnd::Done,
                2 => OperationEnd::UncertainAtDevice,
                _ => OperationEnd::Uncertain,
            };
            let place = (running.volume, running.pod);
            let luck = u8::try_from(random.below(256)).unwrap();
            self.world.end(self.catalog, &running.operation, place, running.version, fate, luck);
        }
        for live in &mut self.live {
            if random.chance(20) {
                *live = None;
            }
        }
        self.life = Life::new(self.config, &self.settings);
        self.life.now = self.now;
        self.life.recovering = true;
        self.world.found_on_other_node = [false; VOLUMES];
        self.settle_the_world();
        for volume in 0..VOLUMES {
            for pod in 0..PODS {
                self.recover(volume, pod, &mut random)?;
            }
            self.recover_device(volume)?;
        }
        self.life.recovering = false;
        self.check_after(&everything())
    }

    /// Undecided effects are decided now: no observer is left.
    fn settle_the_world(&mut self) {
        for mount in self.world.mounts.iter_mut().flatten() {
            (mount.late, mount.lied, mount.old) = (None, false, mount.real.is_some());
        }
        for thing in self.world.devices.iter_mut().chain(&mut self.world.attached) {
            (thing.late, thing.lied, thing.old) = (None, false, thing.real);
        }
    }

    fn recover(&mut self, volume: usize, pod: usize, random: &mut Random) -> Check {
        let Some(real) = self.world.mounts[volume][pod].real else {
            return Ok(());
        };
        let of = &self.catalog.volumes[volume];
        // The label of a volume without a record is unknown; scenarios show how it is handled.
        let recorded = random.chance(80) || of.kind.labelled;
        // Complete is what has its device and its attachment, and was brought to its size.
        let complete = real.complete
            && (!of.kind.stageable || self.world.devices[volume].real)
            && (!of.kind.attachable || self.world.attached[volume].real)
            && (!of.kind.expandable || self.world.sizes[volume].is_some());
        let found = RecoveredVolume {
            pod: self.catalog.uids[pod].clone(),
            known_pod: recorded.then(|| self.catalog.pod(pod, 0, vec![])),
            plugin: self.catalog.plugin_of(volume).clone(),
            spec_name: SpecName::new(of.kind.name).unwrap(),
            unique_name: of.name.clone(),
            // A block volume is found in a folder of its own, so its mode is always known: by its
            // spec.
            spec: (recorded || of.kind.block)
                .then(|| self.catalog.spec(of.kind_id, of.handle, real.variant, 0).clone()),
            intact: complete && recorded && random.chance(80),
            at_folder: false,
            attachable: of.kind.attachable,
            stageable: of.kind.stageable,
            container_mounts: self.catalog.parts(if recorded { u8::try_from(real.parts).unwrap() } else { 0 }).clone(),
            needs: if recorded { self.catalog.needs(volume).clone() } else { std::sync::Arc::default() },
        };
        self.met.insert(("recovered", if found.intact { "complete" } else { "broken" }));
        self.met.insert(("recovered", if recorded { "recorded" } else { "unrecorded" }));
        self.step(Event::Recovered(found), everything())
    }

    fn recover_device(&mut self, volume: usize) -> Check {
        let of = &self.catalog.volumes[volume];
        let attached = self.world.attached[volume].real && self.config.host_attaches;
        if !self.world.devices[volume].real && !attached {
            return Ok(());
        }
        self.met.insert(("recovered", if self.world.devices[volume].real { "staged" } else { "attached" }));
        let found = RecoveredDevice {
            plugin: self.catalog.plugin_of(volume).clone(),
            spec_name: SpecName::new(of.kind.name).unwrap(),
            unique_name: of.name.clone(),
            spec: (of.kind.block || of.kind.labelled)
                .then(|| self.catalog.spec(of.kind_id, of.handle, self.world.labels[volume], 0).clone()),
            attachable: of.kind.attachable,
            stageable: of.kind.stageable,
        };
        self.step(Event::RecoveredDevice(found), everything())
    }
}
