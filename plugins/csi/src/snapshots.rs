//! Making and deleting snapshots: `CreateSnapshot`, `DeleteSnapshot` of the driver that a class
//! names.

use prost::Message as _;
use volhost_plugin_sdk::grpc::{Failure, Request};
use volhost_plugin_sdk::prelude::*;

use crate::Csi;
use crate::call::{Abilities, NOT_FOUND, controller, meaning, send};
use crate::controller_messages::{CreateSnapshotRequest, CreateSnapshotResponse, DeleteRequest};
use crate::messages::Empty;
use crate::provision::{cannot, driver};
use crate::request;

/// The numbers of the maps of secrets in the requests.
const CREATE_SECRETS: u32 = 3;
const DELETE_SECRETS: u32 = 2;

impl Snapshotter for Csi {
    fn create_snapshot(wanted: &SnapshotRequest<'_>, into: &mut SnapshotPage<'_>) -> Result<()> {
        const CALL: &str = "CreateSnapshot";
        let driver = driver()?;
        if !Abilities::of_controller(&driver)?.has(controller::CREATE_DELETE_SNAPSHOT) {
            return Err(cannot(&driver, "makes no snapshots"));
        }
        let parameters = wanted.parameters().into_iter();
        let message = CreateSnapshotRequest {
            source_volume_id: wanted.volume_id(),
            name: wanted.name(),
            parameters: parameters.filter_map(|key| wanted.parameter(&key).map(|value| (key, value))).collect(),
        };
        let encoded = Request::new(&message.encode_to_vec());
        request::add_class_secret(&encoded, CREATE_SECRETS)?;
        let answer: CreateSnapshotResponse =
            send(&driver, "Controller/CreateSnapshot", &encoded).map_err(|failure| meaning(&driver, CALL, &failure))?;
        let made = answer.snapshot.unwrap_or_default();
        if made.snapshot_id.is_empty() {
            return Err(Error::uncertain(format!("{driver}: {CALL}: it succeeded, and names no snapshot")));
        }
        if !made.ready_to_use {
            return Err(Error::uncertain(format!(
                "{driver}: {CALL}: the snapshot {} is not ready yet",
                made.snapshot_id
            )));
        }
        let number = |number: i64| u64::try_from(number).unwrap_or_default();
        let made_at = made.creation_time.map(|time| number(time.seconds)).unwrap_or_default();
        into.add(&made.snapshot_id, &made.source_volume_id, number(made.size_bytes), made_at);
        Ok(())
    }

    fn delete_snapshot(snapshot_id: &str) -> Result<()> {
        let driver = driver()?;
        let encoded = Request::new(&DeleteRequest { id: snapshot_id.to_owned() }.encode_to_vec());
        request::add_class_secret(&encoded, DELETE_SECRETS)?;
        match send::<Empty>(&driver, "Controller/DeleteSnapshot", &encoded) {
            Ok(_) | Err(Failure::Status { code: NOT_FOUND, .. }) => Ok(()),
            Err(failure) => Err(meaning(&driver, "DeleteSnapshot", &failure)),
        }
    }

    fn find_snapshot(_snapshot_id: &str, _into: &mut SnapshotPage<'_>) -> Result<()> {
        Err(Error::unsupported("the csi plugin does not look up single snapshots"))
    }

    fn list_snapshots(_: Option<&str>, _start: &str, _most: u32, _into: &mut SnapshotPage<'_>) -> Result<()> {
        Err(Error::unsupported("the csi plugin does not list snapshots"))
    }
}
