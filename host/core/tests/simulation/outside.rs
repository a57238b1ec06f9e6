//! Changes of the node by other processes.

use volhost_core::{DeviceReport, Event, OperationKind, OperationReport};
use volhost_model::FailureClass;

use crate::kinds::{PODS, PodId, VOLUMES, VolumeId};
use crate::life::{Ended, Running};
use crate::rules::Check;
use crate::sim::Sim;

impl Sim<'_> {
    /// One of the existing mounts is unmounted, and the host notices.
    pub fn vanish(&mut self, pick: u16) -> Check {
        let places = VOLUMES * PODS;
        let mut at = (0..places).map(|place| (usize::from(pick) + place) % places);
        let exists = |place: &usize| self.world.mounts[place / PODS][place % PODS].real.is_some();
        let Some((volume, pod)) = at.find(exists).map(|place| (place / PODS, place % PODS)) else {
            return Ok(());
        };
        if self.catalog.volumes[volume].kind.block {
            return Ok(());
        }
        self.world.mounts[volume][pod].real = None;
        let known = self.life.known[volume].mounts[pod];
        let of_mount = |running: &&mut Running| {
            running.volume == volume
                && running.pod == Some(pod)
                && !matches!(running.operation.kind, OperationKind::Expand { .. })
        };
        let mut turn = self.about(volume, Some(pod));
        if let Some(changing) = self.life.running.iter_mut().find(of_mount) {
            changing.vanished = known.is_some_and(|known| known.state.is_certain());
            self.met.insert(("vanished", "while it changed"));
        } else {
            self.met.insert(("vanished", "while it was mounted"));
            turn.vanished = known.map(|_| (volume, pod));
            let usable = known.is_some_and(|known| known.state.is_certain() && !known.leaving);
            turn.tells_vanished = usable.then_some((volume, pod));
        }
        let (pod, volume) = (self.catalog.uids[pod].clone(), self.catalog.volumes[volume].name.clone());
        self.step(Event::Vanished { pod, volume }, turn)
    }

    /// The mount disappeared while an operation on it ran, which has not brought it back: that is
    /// reported now.
    pub fn comes_out_as_vanished(&self, running: &Running, ended: &Ended) -> Option<(VolumeId, PodId)> {
        let unmount = matches!(running.operation.kind, OperationKind::Unmount | OperationKind::Unmap);
        let existed = match ended.failed {
            None => false,
            Some(FailureClass::Transient) => true,
            Some(_) => !unmount,
        };
        running.pod.filter(|_| running.vanished && existed).map(|pod| (running.volume, pod))
    }

    /// A mount of which the host has heard that it is gone, and waits for the end of the operation
    /// that works on it.
    pub fn is_going(&self, volume: VolumeId, pod: PodId) -> bool {
        self.life.running.iter().any(|running| running.vanished && running.volume == volume && running.pod == Some(pod))
    }

    /// The staging mount of one of the volumes is unmounted, and the host notices.
    pub fn vanish_device(&mut self, pick: u16) -> Check {
        let mut all = (0..VOLUMES).map(|at| (usize::from(pick) + at) % VOLUMES);
        let exists = |volume: &usize| self.world.devices[*volume].real && !self.catalog.volumes[*volume].kind.block;
        let Some(volume) = all.find(exists) else { return Ok(()) };
        self.world.devices[volume].real = false;
        let known = self.life.known[volume];
        let works = |running: &&mut Running| running.volume == volume && works_on_device(running);
        let mut turn = self.about(volume, None);
        if let Some(changing) = self.life.running.iter_mut().find(works) {
            changing.device_vanished = known.device.is_certain();
            self.met.insert(("device vanished", "while it changed"));
        } else {
            self.met.insert(("device vanished", "while it was mounted"));
            turn.device_vanished = known.there.then_some(volume);
            turn.tells_device_vanished = known.device.is_certain().then_some(volume);
        }
        self.step(Event::DeviceVanished { volume: self.catalog.volumes[volume].name.clone() }, turn)
    }

    /// The staging mount disappeared while an operation on it ran, which has not brought it back:
    /// that is reported now.
    pub fn comes_out_without_device(&self, running: &Running, report: &OperationReport) -> Option<VolumeId> {
        let unmount = matches!(running.operation.kind, OperationKind::UnmountDevice);
        let transient = report.result.as_ref().is_err_and(|failure| failure.class == FailureClass::Transient);
        let brought_back = report.device == Some(DeviceReport::Mounted)
            || (report.result.is_ok() && !running.operation.kind.found_device());
        let existed = !brought_back && (!unmount || transient);
        (running.device_vanished && existed).then_some(running.volume)
    }

    /// A mount of the node of which the host has heard that it is gone, and waits for the end of
    /// the operation that works on it.
    pub fn device_is_going(&self, volume: VolumeId) -> bool {
        self.life.running.iter().any(|running| running.device_vanished && running.volume == volume)
    }

    /// A plugin does not find a volume that counts as attached; rightly, or not.
    pub fn not_attached(&mut self, pick: u16, gone: bool) -> Check {
        let mut all = (0..VOLUMES).map(|at| (usize::from(pick) + at) % VOLUMES);
        let Some(volume) = all.find(|volume| self.life.known[*volume].attach.is_certain()) else {
            return Ok(());
        };
        let busy = self.life.running.iter().any(|running| running.volume == volume);
        let mut turn = self.about(volume, None);
        if !busy {
            let attached = &mut self.world.attached[volume];
            attached.real &= !gone;
            attached.old = attached.real;
            self.met.insert(("not attached", if gone { "rightly" } else { "wrongly" }));
            turn.tells_not_attached = Some(volume);
        }
        self.step(Event::NotAttached(vec![self.catalog.volumes[volume].name.clone()]), turn)
    }
}

/// Whether the operation makes or removes the staging mount.
fn works_on_device(running: &Running) -> bool {
    matches!(running.operation.kind, OperationKind::Mount { .. } | OperationKind::UnmountDevice)
}
