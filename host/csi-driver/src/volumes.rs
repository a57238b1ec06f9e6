//! Creates, deletes and lists volumes: by the plugin's controller, or in the volume catalog for a
//! plugin that has none.

use tonic::Code;
use volhost_runtime::{Capability, MadeVolume, Page, WantedVolume};

use crate::check::{self, shown, volume};
use crate::driver::ServedPlugin;
use crate::refusal::{Refusal, Result};
use crate::secrets::RequestSecrets;
use crate::usage::RequestedUsage;
use volhost_proto::csi::volume_content_source::Type as Content;
use volhost_proto::csi::{
    ControllerModifyVolumeRequest, CreateVolumeRequest, Topology, TopologyRequirement, VolumeContentSource,
};

/// The most entries of one page of a list.
const PAGE: u32 = 1_000;
const MUTABLE: &str = "mutable_parameters";

impl ServedPlugin {
    /// Whether the plugin makes its volumes itself.
    pub(crate) fn provisions(&self) -> bool {
        self.can(Capability::Controller)
    }

    /// What a request asks for, checked.
    pub(crate) fn wanted(&self, request: &CreateVolumeRequest) -> Result<WantedVolume> {
        check::name("name", &request.name)?;
        check::map("parameters", &request.parameters)?;
        check::map(MUTABLE, &request.mutable_parameters)?;
        if !request.mutable_parameters.is_empty() && !self.can(Capability::Modifier) {
            return Err(Refusal::field(MUTABLE, "volumes of this driver cannot be modified"));
        }
        let usages = RequestedUsage::read_all(&request.volume_capabilities)?;
        usages.iter().try_for_each(|usage| self.check_usage(usage))?;
        let (required_bytes, limit_bytes) = check::range(request.capacity_range.as_ref())?;
        self.check_topology(request.accessibility_requirements.as_ref())?;
        let mut wanted = WantedVolume {
            name: request.name.clone(),
            required_bytes,
            limit_bytes,
            parameters: request.parameters.clone().into_iter().collect(),
            fs_type: usages.iter().map(|usage| usage.fs_type.clone()).find(|fs_type| !fs_type.is_empty()),
            as_device: usages.iter().all(|usage| usage.block),
            access_modes: usages.iter().map(|usage| usage.kubernetes_mode().to_owned()).collect(),
            source_volume: None,
            source_snapshot: None,
            mutable_parameters: request.mutable_parameters.clone().into_iter().collect(),
        };
        if let Some(content) = &request.volume_content_source {
            self.read_content(content, &mut wanted)?;
        }
        Ok(wanted)
    }

    fn read_content(&self, content: &VolumeContentSource, wanted: &mut WantedVolume) -> Result<()> {
        const FIELD: &str = "volume_content_source";
        if !self.can(Capability::Snapshotter) {
            return Err(Refusal::field(FIELD, "the plugin makes no volumes of others"));
        }
        match &content.r#type {
            Some(Content::Snapshot(source)) => {
                check::id(FIELD, &source.snapshot_id)?;
                wanted.source_snapshot = Some(source.snapshot_id.clone());
            }
            Some(Content::Volume(source)) => {
                check::id(FIELD, &source.volume_id)?;
                wanted.source_volume = Some(source.volume_id.clone());
            }
            None => return Err(Refusal::field(FIELD, "names neither a snapshot nor a volume")),
        }
        Ok(())
    }

    /// Volumes that are made here can be reached from here alone.
    fn check_topology(&self, wanted: Option<&TopologyRequirement>) -> Result<()> {
        let here =
            |topology: &Topology| topology.segments.iter().all(|(key, value)| self.topology.get(key) == Some(value));
        match wanted.filter(|wanted| !self.topology.is_empty() && !wanted.requisite.is_empty()) {
            Some(wanted) if !wanted.requisite.iter().any(here) => Err(Refusal::Exhausted(
                "accessibility_requirements: no volume of this driver can be reached from there".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Makes the volume. One of that name that fits: the same answer.
    pub(crate) fn create(&self, wanted: &WantedVolume, secrets: &RequestSecrets) -> Result<MadeVolume> {
        let sources = [&wanted.source_volume, &wanted.source_snapshot].into_iter().flatten();
        let mut claims = vec![format!("the volume named {}", shown(&wanted.name))];
        claims.extend(sources.map(|source| volume(source)));
        let _claim = self.in_flight.claim(claims)?;
        if !self.provisions() {
            return self.catalog.note(wanted);
        }
        let call = self.call_with(&wanted.name, secrets);
        self.did("creating", &wanted.name, self.plugin.create_volume(&call, wanted))
    }

    /// Deletes the volume. None there: done.
    pub(crate) fn delete(&self, id: &str, secrets: &RequestSecrets) -> Result<()> {
        let _claim = self.in_flight.claim([volume(id)])?;
        let nodes = self.publish_records.nodes_of(id)?;
        if let Some(node) = nodes.first() {
            return Err(Refusal::Precondition(format!("{} is published to {}", volume(id), shown(node))));
        }
        if self.on_node.read(id)?.is_some() {
            return Err(Refusal::Precondition(format!("{} is used on {}", volume(id), shown(&self.node_id))));
        }
        if !self.provisions() {
            return self.catalog.remove(id);
        }
        match self.did("deleting", id, self.plugin.delete_volume(&self.call_with(id, secrets), id)) {
            // No volume can have such a handle.
            Err(refusal) if matches!(refusal.code(), Code::NotFound | Code::InvalidArgument) => Ok(()),
            outcome => outcome,
        }
    }

    /// Finds a volume that this driver made.
    pub(crate) fn find_noted(&self, id: &str, secrets: &RequestSecrets) -> Result<MadeVolume> {
        if !self.provisions() {
            return self.catalog.find(id);
        }
        match self.did("looking for", id, self.plugin.find_volume(&self.call_with(id, secrets), id)) {
            Err(refusal) if refusal.code() == Code::InvalidArgument => Err(Refusal::NotFound(refusal.to_string())),
            outcome => outcome,
        }
    }

    /// Refuses a volume that is known not to exist. A volume that this driver did not make may
    /// exist: the plugin finds out when it is used.
    pub(crate) fn find(&self, id: &str, secrets: &RequestSecrets) -> Result<()> {
        match self.find_noted(id, secrets) {
            Err(refusal) if self.provisions() && refusal.code() == Code::NotFound => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Gives the volume the size; what it has then.
    pub(crate) fn expand(
        &self,
        id: &str,
        required: Option<u64>,
        limit: Option<u64>,
        secrets: &RequestSecrets,
    ) -> Result<u64> {
        let _claim = self.in_flight.claim([volume(id)])?;
        let to = required.or(limit).ok_or_else(|| Refusal::field("capacity_range", "is missing"))?;
        if !self.provisions() {
            return self.catalog.note_size(id, to);
        }
        self.find_noted(id, secrets)?;
        self.did("growing", id, self.plugin.expand_volume(&self.call_with(id, secrets), id, to, limit))
    }

    /// Gives the volume these mutable parameters, all or none.
    pub(crate) fn modify(&self, request: &ControllerModifyVolumeRequest) -> Result<()> {
        if !self.can(Capability::Modifier) {
            return Err(Refusal::Unimplemented("the plugin's volumes cannot be modified".to_owned()));
        }
        let id = request.volume_id.as_str();
        check::id("volume_id", id)?;
        check::map(MUTABLE, &request.mutable_parameters)?;
        let secrets = RequestSecrets::read(&request.secrets)?;
        if request.mutable_parameters.is_empty() {
            return Err(Refusal::field(MUTABLE, "is missing"));
        }
        let _claim = self.in_flight.claim([volume(id)])?;
        self.find_noted(id, &secrets)?;
        let wanted = request.mutable_parameters.clone().into_iter().collect();
        self.did("modifying", id, self.plugin.modify_volume(&self.call_with(id, &secrets), id, &wanted))
    }

    /// A page of the volumes that there are.
    pub(crate) fn page_of_volumes(&self, max_entries: i32, start: &str) -> Result<Page<MadeVolume>> {
        let most = page_size(max_entries)?;
        if !self.provisions() {
            return self.catalog.page(start, most);
        }
        let page = self.plugin.list_volumes(&self.call(start), start, most);
        self.did("listing", "volumes", page).map_err(bad_token)
    }
}

/// How many entries a page may have.
pub(crate) fn page_size(max_entries: i32) -> Result<u32> {
    match u32::try_from(max_entries) {
        Ok(0) => Ok(PAGE),
        Ok(most) => Ok(most.min(PAGE)),
        Err(_) => Err(Refusal::field("max_entries", format!("{max_entries} is less than none"))),
    }
}

/// The one thing of a list that a CO can get wrong.
pub(crate) fn bad_token(refusal: Refusal) -> Refusal {
    if refusal.code() == Code::InvalidArgument { Refusal::Token(refusal.to_string()) } else { refusal }
}
