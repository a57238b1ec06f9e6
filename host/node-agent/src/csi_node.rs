//! The CSINode of this node, and what attach/detach controllers read of its Node: which CSI drivers
//! it has, by which names they know it, and where it is.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tonic::Status;
use tracing::warn;
use volhost_api::pb;
use volhost_api::pb::watch_update::{Object, Type};
use volhost_csi_translation::Migration;

use crate::daemon::{Daemon, daemon_ends};
use crate::in_use::MANAGER;
use crate::watches::KnownNode;

/// Kubernetes' attach/detach controller works for nodes that have it.
const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// The former in-tree plugins whose volumes CSI drivers serve on the node: without it, controllers
/// attach none.
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// How long after a failure it is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// The CSI drivers that have registered, by name.
type Drivers = BTreeMap<String, pb::Driver>;

/// Writes the node's drivers, until the daemon is lost.
///
/// A daemon that was started again knows none at first: a driver is removed only after it was there
/// in this session.
pub(crate) async fn report(client: &Client, name: &str, daemon: &Daemon, mut node: KnownNode) -> Result<(), Status> {
    let mut updates = daemon.watch(pb::Kind::Drivers, 0).await?;
    let mut drivers = known_before(client, name).await;
    let mut written: Option<(String, Drivers)> = None;
    loop {
        let uid = node.borrow_and_update().as_ref().map(|node| node.uid.clone());
        let mut failed = false;
        if let Some(uid) = uid
            && written.as_ref() != Some(&(uid.clone(), drivers.clone()))
        {
            match write(client, name, &uid, &drivers).await {
                Ok(()) => written = Some((uid, drivers.clone())),
                Err(error) => {
                    warn!(
                        node = name,
                        "the node's CSI drivers cannot be written now; their volumes are not attached: {error}"
                    );
                    failed = true;
                }
            }
        }
        tokio::select! {
            update = updates.message() => {
                take(&mut drivers, update?.ok_or_else(daemon_ends)?);
            }
            changed = node.changed() => changed.map_err(|_| Status::cancelled("the agent ends"))?,
            () = tokio::time::sleep(AGAIN), if failed => {}
        }
    }
}

/// The drivers that an earlier session has written.
async fn known_before(client: &Client, name: &str) -> Drivers {
    let before = match Api::<CSINode>::all(client.clone()).get_opt(name).await {
        Ok(before) => before,
        Err(error) => {
            warn!(node = name, "the CSINode cannot be read now: {error}");
            None
        }
    };
    let drivers = before.map(|before| before.spec.drivers).unwrap_or_default();
    let drivers = drivers.into_iter().map(|driver| {
        let topology = driver.topology_keys.into_iter().flatten().map(|key| (key, String::new())).collect();
        let limit = driver.allocatable.and_then(|limit| limit.count).and_then(|count| u32::try_from(count).ok());
        let name = driver.name;
        let known = pb::Driver {
            name: name.clone(),
            node_id: driver.node_id,
            topology,
            volume_limit: limit,
            ..pb::Driver::default()
        };
        (name, known)
    });
    drivers.collect()
}

fn take(drivers: &mut Drivers, update: pb::WatchUpdate) {
    let is_gone = update.r#type() == Type::Deleted;
    let Some(Object::Driver(driver)) = update.object else { return };
    if driver.kind() != pb::DriverKind::Csi {
        return;
    }
    if is_gone {
        drivers.remove(&driver.name);
    } else if !driver.node_id.is_empty() {
        // Without what changes from one probe to the next.
        let pb::Driver { name, node_id, topology, volume_limit, .. } = driver;
        drivers.insert(name.clone(), pb::Driver { name, node_id, topology, volume_limit, ..pb::Driver::default() });
    }
}

async fn write(client: &Client, name: &str, uid: &str, drivers: &Drivers) -> Result<(), kube::Error> {
    let parameters = PatchParams::apply(MANAGER).force();
    // A label before the CSINode that names its key: provisioners read them in this order.
    let labels: BTreeMap<_, _> =
        drivers.values().flat_map(|driver| &driver.topology).filter(|(_, value)| !value.is_empty()).collect();
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": labels, "annotations": { MANAGED: "true" } },
    });
    Api::<Node>::all(client.clone()).patch(name, &parameters, &Patch::Apply(&node)).await?;
    let csi_node = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {
            "name": name, "annotations": { MIGRATED: migrated_plugins() },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": name, "uid": uid }],
        },
        "spec": { "drivers": drivers.values().map(entry).collect::<Vec<_>>() },
    });
    Api::<CSINode>::all(client.clone()).patch(name, &parameters, &Patch::Apply(&csi_node)).await.map(drop)
}

/// The plugins in the kubelet's order, with the kubelet's separator.
fn migrated_plugins() -> String {
    let mut plugins: Vec<&str> = Migration::all().map(Migration::plugin).collect();
    plugins.sort_unstable();
    plugins.join(",")
}

fn entry(driver: &pb::Driver) -> Value {
    let mut keys: Vec<&String> = driver.topology.keys().collect();
    keys.sort();
    let mut entry = json!({ "name": driver.name, "nodeID": driver.node_id, "topologyKeys": keys });
    if let (Some(limit), Some(entry)) = (driver.volume_limit, entry.as_object_mut()) {
        entry.insert("allocatable".to_owned(), json!({ "count": limit }));
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(type_: Type, name: &str, node_id: &str) -> pb::WatchUpdate {
        let driver = pb::Driver {
            name: name.to_owned(),
            kind: pb::DriverKind::Csi.into(),
            node_id: node_id.to_owned(),
            since_us: 7,
            volume_limit: Some(3),
            topology: [("zone".to_owned(), "a".to_owned())].into(),
            ..pb::Driver::default()
        };
        pb::WatchUpdate { r#type: type_.into(), object: Some(Object::Driver(driver)) }
    }

    #[test]
    fn the_node_names_the_plugins_that_a_kubelet_names() {
        let kubelets = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,\
                        kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume";
        assert_eq!(migrated_plugins(), kubelets);
    }

    #[test]
    fn a_driver_is_written_from_its_registration_to_its_end() {
        let mut drivers = Drivers::new();
        take(&mut drivers, update(Type::Added, "disk.example", ""));
        assert!(drivers.is_empty(), "it has not said its name for the node yet");
        take(&mut drivers, update(Type::Modified, "disk.example", "node-7"));
        let expected = json!({
            "name": "disk.example", "nodeID": "node-7", "topologyKeys": ["zone"], "allocatable": { "count": 3 },
        });
        assert_eq!(drivers.values().map(entry).collect::<Vec<_>>(), [expected]);
        take(&mut drivers, update(Type::Deleted, "disk.example", "node-7"));
        assert!(drivers.is_empty());
    }
}
