//! The rules, checked at every start of an operation and after every step.

use std::collections::BTreeSet;

use volhost_core::{Operation, OperationKind};
use volhost_model::names::{PodUid, UniqueVolumeName};

use volhost_model::view::VolumeState;

use crate::sim::Sim;
use crate::volumes::{Kind, kind_of, outer, variant_of};

/// The pod of the operation's key, worked out from the kubelet's table.
fn key_pod<'a>(operation: &'a Operation, kind: &Kind) -> Option<&'a PodUid> {
    match operation.kind {
        OperationKind::Mount { .. } | OperationKind::Map { .. } if kind.attachable || kind.device_mountable => None,
        OperationKind::Mount { .. } | OperationKind::Map { .. } | OperationKind::Unmount | OperationKind::Unmap => {
            operation.pod_uid.as_ref()
        }
        _ => None,
    }
}

impl Sim {
    pub fn check_start(&self, operation: &Operation) -> Result<(), String> {
        let kind = kind_of(&operation.volume);
        if operation.id <= self.life.last_id {
            return Err(format!("operation id {} was used before", operation.id));
        }
        let mine = key_pod(operation, kind);
        for (other, _) in self.life.running.values().filter(|(other, _)| other.volume == operation.volume) {
            let theirs = key_pod(other, kind);
            if mine.is_none() || theirs.is_none() || mine == theirs {
                return Err(format!("R3 key: operation {} was started while {} runs", operation.id, other.id));
            }
        }
        let key = (operation.volume.clone(), operation.pod_uid.clone(), operation.kind.name());
        if let Some(failed_at) = self.life.failed_at.get(&key)
            && self.now < failed_at + Self::shortest_wait()
        {
            return Err(format!(
                "R3 back-off: operation {} comes {} us after a failure",
                operation.id,
                self.now - failed_at
            ));
        }
        match operation.kind {
            OperationKind::Unmount | OperationKind::Unmap => self.check_unmount(operation, kind),
            OperationKind::UnmountDevice | OperationKind::UnmapDevice | OperationKind::Detach => {
                self.check_release(&operation.volume)
            }
            OperationKind::Mount { .. } | OperationKind::Map { .. } => self.check_mount(operation, kind),
            OperationKind::Attach if !self.config.host_attaches => {
                Err("the host attaches, though a controller does".to_owned())
            }
            OperationKind::VerifyControllerAttached | OperationKind::Attach if !kind.attachable => {
                Err("an attachment for a volume that needs none".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn check_unmount(&self, operation: &Operation, kind: &Kind) -> Result<(), String> {
        let uid = operation.pod_uid.clone().ok_or("an unmount without a pod")?;
        let place = (uid.clone(), operation.volume.clone());
        if self.draining {
            return Ok(());
        }
        if !self.life.synced && self.life.unsettled.contains(&place) {
            return Err(format!("R2: {place:?} was recovered, and not every source has spoken"));
        }
        let Some(told) = self.life.told.get(&uid) else {
            return Ok(());
        };
        if told.unresolved.iter().any(|volume| volume.outer_name == outer(kind)) {
            return Err(format!("R2: {place:?} may be wanted, it is unresolved"));
        }
        let Some(wanted) = told.volumes.iter().find(|volume| volume.unique_name == operation.volume) else {
            return Ok(());
        };
        let same = operation.spec.as_ref().is_none_or(|spec| variant_of(spec) == variant_of(&wanted.spec));
        if same || kind.follows_source {
            return Err(format!("R2: {place:?} is unmounted though it is wanted as it is"));
        }
        Ok(())
    }

    fn check_release(&self, volume: &UniqueVolumeName) -> Result<(), String> {
        let mounted = self.truth.mounts.keys().any(|(_, other)| other == volume);
        let pods = self.life.core.pods();
        let possibly = pods
            .iter()
            .flat_map(|pod| &pod.volumes)
            .any(|view| view.unique_name == volume.as_str() && !view.path.is_empty());
        if mounted || possibly {
            return Err(format!("the device of {volume} is taken away while a pod may have it mounted"));
        }
        if !self.draining
            && self.life.told.values().any(|told| told.volumes.iter().any(|wanted| wanted.unique_name == *volume))
        {
            return Err(format!("the device of {volume} is taken away while a pod wants it"));
        }
        if !self.draining && !self.life.synced && self.life.unsettled.iter().any(|(_, other)| other == volume) {
            return Err(format!("R2: the device of {volume} was recovered, and not every source has spoken"));
        }
        Ok(())
    }

    fn check_mount(&self, operation: &Operation, kind: &Kind) -> Result<(), String> {
        let uid = operation.pod_uid.clone().ok_or("a mount without a pod")?;
        if self.draining || !self.life.told.contains_key(&uid) {
            return Err(format!("{uid} gets a volume mounted that nobody wants"));
        }
        if operation.spec.is_none() || operation.pod.is_none() {
            return Err("a mount without spec or pod".to_owned());
        }
        let elsewhere = self.truth.mounts.keys().any(|(pod, volume)| *volume == operation.volume && *pod != uid);
        if kind.single_pod && elsewhere {
            return Err(format!("{} is mounted for a second pod", operation.volume));
        }
        if kind.attachable && self.config.host_attaches && !self.truth.attached.contains(&operation.volume) {
            return Err(format!("{} is mounted before it is attached", operation.volume));
        }
        Ok(())
    }

    /// Who is told that the wish is met can rely on it.
    pub fn check_answer(&self, uid: &PodUid, mounted: bool) -> Result<(), String> {
        if !mounted {
            let left = self.truth.mounts.keys().any(|(pod, _)| pod == uid);
            return if left { Err(format!("{uid} is said to be unmounted, and is not")) } else { Ok(()) };
        }
        let told = self.life.told.get(uid).ok_or(format!("{uid} is said to be mounted, and nobody wants it"))?;
        for volume in &told.volumes {
            let place = (uid.clone(), volume.unique_name.clone());
            let right = self
                .truth
                .mounts
                .get(&place)
                .is_some_and(|real| volume.follows_source || real.variant == variant_of(&volume.spec));
            let leaving = self.life.running.values().any(|(operation, _)| {
                operation.volume == place.1
                    && operation.pod_uid.as_ref() == Some(uid)
                    && matches!(operation.kind, OperationKind::Unmount | OperationKind::Unmap)
            });
            if !right || leaving || !told.unresolved.is_empty() {
                return Err(format!("{uid} is said to be mounted, and {place:?} is not as wanted"));
            }
        }
        Ok(())
    }

    /// Recovery goes on volume by volume: until its end the machine cannot know all.
    pub fn check_world(&self) -> Result<(), String> {
        let core = &self.life.core;
        let pods = core.pods();
        let standing: BTreeSet<(&str, &str)> = pods
            .iter()
            .flat_map(|pod| {
                pod.volumes
                    .iter()
                    .filter(|view| !view.path.is_empty())
                    .map(|view| (pod.uid.as_str(), view.unique_name.as_str()))
            })
            .collect();
        for (uid, volume) in self.truth.mounts.keys() {
            if !standing.contains(&(uid.as_str(), volume.as_str())) && !self.life.recovering {
                return Err(format!("R1: {volume} is mounted for {uid}, and the machine does not know"));
            }
        }
        for view in pods.iter().flat_map(|pod| &pod.volumes).filter(|view| view.state == VolumeState::Mounted) {
            let real = |(uid, volume): &(PodUid, UniqueVolumeName)| {
                view.pod_uid == uid.as_str() && view.unique_name == volume.as_str()
            };
            if !self.truth.mounts.keys().any(real) {
                return Err(format!(
                    "R1: the machine takes {} of {} for mounted, and it is not",
                    view.unique_name, view.pod_uid
                ));
            }
        }
        let unused = core.unused_volumes();
        for volume in self.truth.devices.iter().chain(self.truth.attached.iter().filter(|_| self.config.host_attaches))
        {
            let known = unused
                .iter()
                .chain(pods.iter().flat_map(|pod| &pod.volumes))
                .any(|view| view.unique_name == volume.as_str());
            if !known && !self.life.recovering {
                return Err(format!("R1: {volume} is staged or attached, and the machine does not know"));
            }
        }
        Ok(())
    }
}
