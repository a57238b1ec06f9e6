//! Grows a volume's file system, or device, on the node while it is used.

use std::collections::BTreeMap;

use volhost_model::PodUid;
use volhost_runtime::Capability;

use crate::check::{self, volume, wire};
use crate::driver::ServedPlugin;
use crate::figures::Location;
use crate::publishing::TARGET_PATH;
use crate::refusal::{Refusal, Result};
use crate::secrets::RequestSecrets;
use volhost_proto::csi::{NodeExpandVolumeRequest, NodeExpandVolumeResponse};

/// The field of a PersistentVolume's source that refers to the secrets of this call.
const SECRETS: &str = "nodeExpandSecretRef";

impl ServedPlugin {
    /// Grows the volume to the requested size, or to the size of its storage. A volume that is
    /// large enough stays as it is.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn grow(&self, request: &NodeExpandVolumeRequest) -> Result<NodeExpandVolumeResponse> {
        let id = request.volume_id.as_str();
        let (required, _) = check::range(request.capacity_range.as_ref())?;
        let secrets = RequestSecrets::read(&request.secrets)?;
        if !self.can(Capability::Expander) {
            return Err(Refusal::Unimplemented("the plugin's volumes do not grow on a node".to_owned()));
        }
        let _claim = self.in_flight.claim([volume(id)])?;
        let co = self.co();
        let (record, location) = self.locate(&co, id, &request.volume_path)?;
        let attached = self.attachment(&record, BTreeMap::new())?;
        let target = match (&record.staged, location) {
            _ if record.spec.is_block() => None,
            (Some(staged), _) if record.stageable => {
                let place = self.staging(&co, &record, staged)?;
                place.map(|place| place.target())
            }
            (_, Location::Published(pod)) => {
                let pod = PodUid::new(pod).map_err(|error| Refusal::field("volume_path", error.to_string()))?;
                let place = co.place(TARGET_PATH, &request.volume_path)?;
                let place = place.map(|place| self.publish_place(&co, &record, &request.volume_path, &pod, place));
                place.transpose()?.map(|place| place.target())
            }
            (_, Location::Staged) => None,
        };
        let (call, spec) = (self.call_with(id, &secrets), secrets.referred(&self.plugin, &record.spec, SECRETS));
        let grown = self.steps(&call).expand(&spec, attached.as_ref(), target, required.unwrap_or_default());
        let size = self.did("growing", id, grown)?;
        Ok(NodeExpandVolumeResponse { capacity_bytes: wire(size) })
    }
}
