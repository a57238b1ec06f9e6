//! The JSON of requests and answers, as Docker 20.10 and Podman 4.3 write and read it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use volhost_api::pb;

/// A request. Each call uses some of the fields; Podman sends an empty body for none.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct CallRequest {
    /// The volume.
    pub(crate) name: String,
    /// The user: Docker sends a fresh id for each mount, Podman the same one for all.
    #[serde(rename = "ID")]
    pub(crate) id: String,
    /// The options of a new volume.
    pub(crate) opts: Option<HashMap<String, String>>,
}

/// A volume in an answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct VolumeAnswer {
    name: String,
    /// The mount of one of its users; empty without one.
    mountpoint: String,
    /// When it was created, by RFC 3339; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    /// What `docker volume inspect` shows.
    status: Value,
}

impl VolumeAnswer {
    /// Returns the mount of one of its users; empty without one.
    pub(crate) fn mountpoint(&self) -> &str {
        &self.mountpoint
    }
}

impl From<pb::NamedVolume> for VolumeAnswer {
    fn from(volume: pb::NamedVolume) -> Self {
        let mountpoint = volume.users.iter().map(|user| &user.path).find(|path| !path.is_empty());
        let mountpoint = mountpoint.cloned().unwrap_or_default();
        let mut status = json!({
            "phase": volume.phase,
            "requestedBytes": volume.requested_bytes,
            "capacityBytes": volume.capacity_bytes,
            "provisioner": volume.provisioner,
            "persistentVolume": volume.persistent_volume,
            "users": volume.users.into_iter().map(|user| user.id).collect::<Vec<_>>(),
        });
        if let (Some(status), false) = (status.as_object_mut(), volume.reason.is_empty()) {
            status.insert("reason".to_owned(), Value::String(volume.reason));
        }
        let created = i64::try_from(volume.created_us).ok().filter(|micros| *micros > 0);
        let created_at = created.and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
        Self { name: volume.name, mountpoint, created_at: created_at.map(|time| time.to_string()), status }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_both_engines_send_them() {
        let request: CallRequest = serde_json::from_str(r#"{"Name":"v","Opts":{"size":"10m"}}"#).unwrap();
        assert_eq!((request.name.as_str(), request.opts.unwrap().len()), ("v", 1));
        let request: CallRequest = serde_json::from_str(r#"{"Name":"v","Opts":null,"ID":"i","New":1}"#).unwrap();
        assert_eq!((request.id.as_str(), request.opts), ("i", None));
    }
}
