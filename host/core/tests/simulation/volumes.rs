//! The volumes the simulation knows: every kind that the machine treats differently.

use std::sync::Arc;

use volhost_core::{DesiredVolume, UnresolvedVolume};
use volhost_model::names::{OuterName, PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::spec::{PersistentVolume, VolumeMode};
use volhost_model::{Pod, VolumeSpec};

/// One kind of volume; its outer name is its name here.
pub struct Kind {
    pub name: &'static str,
    pub shared: bool,
    pub attachable: bool,
    pub device_mountable: bool,
    pub follows_source: bool,
    pub expandable: bool,
    pub block: bool,
    pub single_pod: bool,
}

const PLAIN: Kind = Kind {
    name: "",
    shared: false,
    attachable: false,
    device_mountable: false,
    follows_source: false,
    expandable: false,
    block: false,
    single_pod: false,
};

pub const KINDS: [Kind; 8] = [
    Kind { name: "scratch", ..PLAIN },
    Kind { name: "host", ..PLAIN },
    Kind { name: "config", follows_source: true, ..PLAIN },
    Kind { name: "disk", shared: true, attachable: true, device_mountable: true, expandable: true, ..PLAIN },
    Kind { name: "staged", shared: true, device_mountable: true, ..PLAIN },
    Kind { name: "attached", shared: true, attachable: true, ..PLAIN },
    Kind { name: "once", shared: true, attachable: true, device_mountable: true, single_pod: true, ..PLAIN },
    Kind { name: "raw", shared: true, attachable: true, device_mountable: true, block: true, ..PLAIN },
];

pub fn plugin() -> PluginName {
    PluginName::new("sim.example/plugin").unwrap()
}

pub fn kind_of(volume: &UniqueVolumeName) -> &'static Kind {
    KINDS.iter().find(|kind| volume.as_str().ends_with(&format!("-{}", kind.name))).unwrap()
}

pub fn uid(number: u64) -> PodUid {
    PodUid::new(format!("pod{number}")).unwrap()
}

pub fn outer(kind: &Kind) -> OuterName {
    OuterName::new(kind.name).unwrap()
}

pub fn unique(kind: &Kind, pod: &PodUid) -> UniqueVolumeName {
    if kind.shared {
        UniqueVolumeName::shared(&plugin(), &format!("shared-{}", kind.name)).unwrap()
    } else {
        UniqueVolumeName::of_pod(&plugin(), pod, &SpecName::new(kind.name).unwrap())
    }
}

/// A spec; another `variant` is another source, another `capacity` is the same mount.
pub fn spec(kind: &Kind, variant: u64, capacity: u64) -> Arc<VolumeSpec> {
    let mut fields = serde_json::Map::new();
    fields.insert("variant".to_owned(), variant.into());
    let persistent_volume = kind.shared.then(|| PersistentVolume {
        name: kind.name.to_owned(),
        claim: format!("ns/{}", kind.name),
        capacity: Some(capacity),
        access_modes: vec![if kind.single_pod { "ReadWriteOncePod" } else { "ReadWriteMany" }.to_owned()],
        mount_options: vec![],
        volume_mode: if kind.block { VolumeMode::Block } else { VolumeMode::Filesystem },
        node_affinity: None,
        gid: None,
    });
    Arc::new(VolumeSpec {
        name: SpecName::new(kind.name).unwrap(),
        source: "sim".to_owned(),
        fields,
        read_only: false,
        persistent_volume,
    })
}

pub fn variant_of(spec: &VolumeSpec) -> u64 {
    spec.parameter("variant").unwrap().parse().unwrap()
}

pub fn desired(kind: &Kind, pod: &PodUid, variant: u64, capacity: u64) -> DesiredVolume {
    DesiredVolume {
        outer_name: outer(kind),
        unique_name: unique(kind, pod),
        plugin: plugin(),
        spec: spec(kind, variant, capacity),
        attachable: kind.attachable,
        device_mountable: kind.device_mountable,
        follows_source: kind.follows_source,
        expandable: kind.expandable,
    }
}

pub fn unresolved(kind: &Kind, reason: u64) -> UnresolvedVolume {
    UnresolvedVolume { outer_name: outer(kind), reason: format!("reason {reason}") }
}

pub fn pod(uid: &PodUid, used: Vec<OuterName>) -> Arc<Pod> {
    Arc::new(Pod {
        uid: uid.clone(),
        namespace: "ns".to_owned(),
        name: uid.to_string(),
        service_account: String::new(),
        labels: Default::default(),
        annotations: Default::default(),
        fs_group: None,
        fs_user: None,
        supplemental_groups: vec![],
        memory_limit: None,
        used_volumes: used,
    })
}
