//! Letting a volume's file system, or device, grow on the node while it is used.

use std::collections::BTreeMap;

use volhost_model::PodUid;
use volhost_runtime::Capability;

use crate::check::{self, wire};
use crate::driver::Driver;
use crate::figures::Where;
use crate::node::volume;
use crate::publishing::TARGET_PATH;
use crate::refusal::{Refusal, Result};
use crate::secrets::Secrets;
use volhost_proto::csi::{NodeExpandVolumeRequest, NodeExpandVolumeResponse};

/// The field of a PersistentVolume's source that refers to the secrets of this call.
const SECRETS: &str = "nodeExpandSecretRef";

impl Driver {
    /// Brings the volume to the size that is asked for, or to what its storage has. Large enough already: done.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn grow(&self, request: &NodeExpandVolumeRequest) -> Result<NodeExpandVolumeResponse> {
        let id = request.volume_id.as_str();
        let (required, _) = check::range(request.capacity_range.as_ref())?;
        let secrets = Secrets::read(&request.secrets)?;
        if !self.can(Capability::Expander) {
            return Err(Refusal::Unimplemented("the plugin's volumes do not grow on a node".to_owned()));
        }
        let _claim = self.in_flight.claim([volume(id)])?;
        let (record, stands) = self.standing(id, &request.volume_path)?;
        let attached = self.attachment(&record, BTreeMap::new())?;
        let target = match (&record.staged, stands) {
            _ if record.spec.is_block() => None,
            (Some(staged), _) if record.stageable => {
                let folder = self.staging_folder(id, staged)?;
                folder.map(|folder| self.node_target(&record, &folder)).transpose()?
            }
            (_, Where::Published(pod)) => {
                let pod = PodUid::new(pod).map_err(|error| Refusal::field("volume_path", error.to_string()))?;
                let place = self.co.place(&*self.kernel, TARGET_PATH, &request.volume_path)?;
                place.map(|place| self.target(&record, &request.volume_path, &pod, place)).transpose()?
            }
            (_, Where::Staged) => None,
        };
        let (call, spec) = (self.call_with(id, &secrets), secrets.referred(&self.plugin, &record.spec, SECRETS));
        let grown = self.plugin.expand(&call, &spec, attached.as_ref(), target, required.unwrap_or_default());
        let size = self.did("growing", id, grown)?;
        Ok(NodeExpandVolumeResponse { capacity_bytes: wire(size) })
    }
}
