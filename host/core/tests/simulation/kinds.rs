//! The volumes the simulation knows: every kind that the machine treats differently. Pods and
//! volumes are numbers here; a catalog has the names and specs of the machine's input.

use std::collections::HashMap;
use std::sync::Arc;

use volhost_model::names::{OuterName, PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::spec::{PersistentVolume, VolumeMode};
use volhost_model::{ContainerMount, MountPropagation, NeededVolume, Pod, RecursiveReadOnly, VolumeSpec};

pub const PODS: usize = 4;
pub const PLUGINS: usize = 3;
/// Sources a volume may have; another one is another mount.
pub const VARIANTS: u8 = 2;
/// How many volumes pods share of one kind, at most.
pub const HANDLES: u8 = 2;
/// Sizes a volume may be wanted in; a larger one is the same mount.
pub const SIZES: u8 = 3;
/// The smallest size.
pub const SMALLEST: u64 = 10;

pub type PodId = usize;
pub type VolumeId = usize;

/// One kind of volume; its name is its outer name in every pod.
pub struct Kind {
    pub name: &'static str,
    pub plugin: usize,
    /// How many volumes of this kind pods share; none: each pod has its own.
    pub handles: usize,
    pub attachable: bool,
    pub stageable: bool,
    pub follows_source: bool,
    pub expandable: bool,
    pub block: bool,
    pub single_pod: bool,
    /// Each variant has an SELinux label of its own.
    pub labelled: bool,
    /// Containers name as many parts of it as the size says.
    pub parts: bool,
    /// How many volumes of its plugin may be attached at once.
    pub attach_limit: Option<u32>,
    /// Its variants are edits of one PersistentVolume.
    pub edited: bool,
    /// The kind that it is made of: the pod's volume of that kind.
    pub base: Option<usize>,
}

const PLAIN: Kind = Kind {
    name: "",
    plugin: 0,
    handles: 0,
    attachable: false,
    stageable: false,
    follows_source: false,
    expandable: false,
    block: false,
    single_pod: false,
    labelled: false,
    parts: false,
    attach_limit: None,
    edited: false,
    base: None,
};
/// The kind that layers lie over.
const BASE: usize = 1;
const DISK: Kind = Kind { plugin: 1, handles: 1, attachable: true, stageable: true, ..PLAIN };

pub const KINDS: [Kind; 12] = [
    Kind { name: "scratch", parts: true, ..PLAIN },
    Kind { name: "host", ..PLAIN },
    Kind { name: "config", follows_source: true, ..PLAIN },
    Kind { name: "disk", expandable: true, ..DISK },
    Kind { name: "staged", attachable: false, plugin: 2, ..DISK },
    Kind { name: "attached", stageable: false, plugin: 2, attach_limit: Some(1), ..DISK },
    Kind { name: "once", single_pod: true, ..DISK },
    Kind { name: "raw", block: true, plugin: 2, attach_limit: Some(1), ..DISK },
    Kind { name: "labelled", labelled: true, attachable: false, plugin: 2, ..DISK },
    // Its claim may be bound to another volume, which uses the same folder of the pod.
    Kind { name: "rebound", attachable: false, handles: 2, ..DISK },
    Kind { name: "edited", edited: true, attachable: false, plugin: 2, ..DISK },
    Kind { name: "layered", base: Some(BASE), ..PLAIN },
];
pub const VOLUMES: usize = 4 * PODS + 9;

/// A pod's demand for one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    Nothing,
    /// It cannot be resolved, for this reason.
    Unresolved(u8),
    Wanted {
        handle: u8,
        variant: u8,
        size: u8,
    },
}

/// A source's report on a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodReport {
    pub demands: [Demand; KINDS.len()],
    /// The pod's labels: content of what follows them.
    pub label: u8,
}

impl PodReport {
    pub const EMPTY: Self = Self { demands: [Demand::Nothing; KINDS.len()], label: 0 };

    /// The same, as it can be: a volume whose base is not resolved is not either.
    #[must_use]
    pub fn with_bases(mut self) -> Self {
        for (kind, base) in KINDS.iter().enumerate().filter_map(|(kind, of)| Some((kind, of.base?))) {
            let wanted = |demand| matches!(demand, Demand::Wanted { .. });
            if wanted(self.demands[kind]) && !wanted(self.demands[base]) {
                self.demands[kind] = Demand::Unresolved(0);
            }
        }
        self
    }

    pub fn any_unresolved(&self) -> bool {
        self.demands.iter().any(|demand| matches!(demand, Demand::Unresolved(_)))
    }
}

pub struct Volume {
    pub name: UniqueVolumeName,
    pub kind: &'static Kind,
    pub kind_id: usize,
    pub handle: u8,
    /// The one pod it belongs to.
    pub pod: Option<PodId>,
}

pub struct Catalog {
    pub uids: Vec<PodUid>,
    pub plugins: Vec<PluginName>,
    pub volumes: Vec<Volume>,
    outers: Vec<OuterName>,
    specs: Vec<Arc<VolumeSpec>>,
    parts: Vec<Arc<[ContainerMount]>>,
    needs: Vec<Arc<[NeededVolume]>>,
    by_name: HashMap<UniqueVolumeName, VolumeId>,
    first_of_kind: [VolumeId; KINDS.len()],
}

impl Catalog {
    pub fn new() -> Self {
        let uids: Vec<PodUid> = (0..PODS).map(|pod| PodUid::new(format!("pod{pod}")).unwrap()).collect();
        let plugins: Vec<PluginName> =
            (0..PLUGINS).map(|plugin| PluginName::new(format!("sim.example/plugin{plugin}")).unwrap()).collect();
        let mut volumes = Vec::new();
        let mut first_of_kind = [0; KINDS.len()];
        for (kind_id, kind) in KINDS.iter().enumerate() {
            first_of_kind[kind_id] = volumes.len();
            let plugin = &plugins[kind.plugin];
            let spec_name = SpecName::new(kind.name).unwrap();
            for (pod, uid) in uids.iter().enumerate().filter(|_| kind.handles == 0) {
                let name = UniqueVolumeName::of_pod(plugin, uid, &spec_name);
                volumes.push(Volume { name, kind, kind_id, handle: 0, pod: Some(pod) });
            }
            for handle in 0..u8::try_from(kind.handles).unwrap() {
                let name = UniqueVolumeName::shared(plugin, &format!("{}{handle}", kind.name)).unwrap();
                volumes.push(Volume { name, kind, kind_id, handle, pod: None });
            }
        }
        assert_eq!(volumes.len(), VOLUMES);
        let outers = KINDS.iter().map(|kind| OuterName::new(kind.name).unwrap()).collect();
        let by_name = volumes.iter().enumerate().map(|(id, volume)| (volume.name.clone(), id)).collect();
        let specs = KINDS
            .iter()
            .flat_map(|kind| {
                let handles = (0..HANDLES).flat_map(move |handle| (0..VARIANTS).map(move |variant| (handle, variant)));
                handles.flat_map(move |(handle, variant)| (0..SIZES).map(move |size| spec(kind, handle, variant, size)))
            })
            .collect();
        let parts = (0..SIZES).map(parts).collect();
        let mut catalog = Self { uids, plugins, volumes, outers, specs, parts, needs: vec![], by_name, first_of_kind };
        catalog.needs = (0..VOLUMES).map(|volume| catalog.needs_of_new(volume)).collect();
        catalog
    }

    /// The parts that containers name.
    pub fn parts(&self, count: u8) -> &Arc<[ContainerMount]> {
        &self.parts[usize::from(count)]
    }

    /// The base of the volume.
    pub fn needs(&self, volume: VolumeId) -> &Arc<[NeededVolume]> {
        &self.needs[volume]
    }

    /// The volume of the same pod that this one is made of.
    pub fn base_of(&self, volume: VolumeId) -> Option<VolumeId> {
        let of = &self.volumes[volume];
        Some(self.volume_of(of.pod?, of.kind.base?, 0))
    }

    /// The volume of the same pod that is made of this one.
    pub fn top_of(&self, volume: VolumeId) -> Option<VolumeId> {
        let of = &self.volumes[volume];
        let kind = KINDS.iter().position(|kind| kind.base == Some(of.kind_id))?;
        Some(self.volume_of(of.pod?, kind, 0))
    }

    fn needs_of_new(&self, volume: VolumeId) -> Arc<[NeededVolume]> {
        let base = self.base_of(volume).map(|base| &self.volumes[base]);
        base.map(|base| NeededVolume {
            name: self.outers[base.kind_id].clone(),
            unique_name: base.name.clone(),
            plugin: self.plugins[base.kind.plugin].clone(),
            spec_name: SpecName::new(base.kind.name).unwrap(),
        })
        .into_iter()
        .collect()
    }

    pub fn volume_id(&self, name: &UniqueVolumeName) -> VolumeId {
        self.by_name[name]
    }

    pub fn pod_id(uid: &PodUid) -> PodId {
        usize::from(uid.as_str().as_bytes()[3] - b'0')
    }

    /// The volume of a pod's demand for a kind.
    pub fn volume_of(&self, pod: PodId, kind: usize, handle: u8) -> VolumeId {
        self.first_of_kind[kind] + if KINDS[kind].handles == 0 { pod } else { usize::from(handle) }
    }

    pub fn spec(&self, kind: usize, handle: u8, variant: u8, size: u8) -> &Arc<VolumeSpec> {
        let of_handle = kind * usize::from(HANDLES) + usize::from(handle);
        &self.specs[(of_handle * usize::from(VARIANTS) + usize::from(variant)) * usize::from(SIZES) + usize::from(size)]
    }

    pub fn outer(&self, kind: usize) -> &OuterName {
        &self.outers[kind]
    }

    pub fn plugin_of(&self, volume: VolumeId) -> &PluginName {
        &self.plugins[self.volumes[volume].kind.plugin]
    }

    pub fn pod(&self, pod: PodId, label: u8, used_volumes: Vec<OuterName>) -> Arc<Pod> {
        Arc::new(Pod {
            uid: self.uids[pod].clone(),
            namespace: "ns".to_owned(),
            name: self.uids[pod].to_string(),
            service_account: String::new(),
            image_pull_secrets: Vec::new(),
            labels: [("label".to_owned(), label.to_string())].into(),
            annotations: Default::default(),
            fs_group: None,
            fs_group_change_policy: Default::default(),
            fs_user: None,
            supplemental_groups: vec![],
            memory_limit: None,
            ephemeral_storage_limit: None,
            used_volumes,
            containers: Vec::new(),
            resources: Default::default(),
            nested_mounts: [].into(),
        })
    }
}

fn parts(count: u8) -> Arc<[ContainerMount]> {
    let part = |index: u8| ContainerMount {
        container: "main".to_owned(),
        index: index.into(),
        mount_path: format!("/{index}"),
        sub_path: Some(index.to_string()),
        read_only: false,
        recursive_read_only: RecursiveReadOnly::Disabled,
        propagation: MountPropagation::None,
    };
    (0..count).map(part).collect()
}

/// How many parts of a volume of this kind and size containers name.
pub fn parts_of(kind: &Kind, capacity: u64) -> usize {
    if kind.parts { usize::try_from(capacity - SMALLEST).unwrap() } else { 0 }
}

fn spec(kind: &Kind, handle: u8, variant: u8, size: u8) -> Arc<VolumeSpec> {
    let persistent_volume = (kind.handles > 0).then(|| {
        Box::new(PersistentVolume {
            name: if kind.edited { kind.name.to_owned() } else { format!("{}-{handle}-{variant}", kind.name) },
            claim: format!("ns/{}", kind.name),
            capacity: Some(SMALLEST + u64::from(size)),
            claim_capacity: None,
            access_modes: vec![if kind.single_pod { "ReadWriteOncePod" } else { "ReadWriteMany" }.to_owned()],
            mount_options: vec![],
            volume_mode: if kind.block { VolumeMode::Block } else { VolumeMode::Filesystem },
            node_affinity: None,
            annotations: Default::default(),
            gid: None,
        })
    });
    Arc::new(VolumeSpec {
        selinux_label: kind.labelled.then(|| format!("system_u:object_r:container_file_t:s0:c{variant}")),
        name: SpecName::new(kind.name).unwrap(),
        source: format!("sim{variant}"),
        fields: Default::default(),
        read_only: false,
        persistent_volume,
    })
}

pub fn variant_of(spec: &VolumeSpec) -> u8 {
    spec.source.as_bytes()[3] - b'0'
}

pub fn capacity_of(spec: &VolumeSpec) -> u64 {
    spec.persistent_volume.as_ref().and_then(|pv| pv.capacity).unwrap_or(0)
}
