//! The driver's CSIDriver object: made if it is missing, and compared if it is there.
//!
//! What it has to say, a driver that `volhost csi-serve` serves tells by itself. Other drivers do
//! not: their object is left alone.
//!
//! # Guarantees
//! - An object that this program has not made is never changed. What differs is logged.
//! - A field that Kubernetes does not let anyone change, and that volumes depend on, ends the
//!   controller with an error that says what to do.

use std::sync::Arc;

use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use thiserror::Error;
use tracing::{info, warn};

use crate::caches::Caches;
use crate::driver::Driver;
use crate::finalizers::FIELD_MANAGER;

/// The label of an object that this program has made, with [`FIELD_MANAGER`] as value.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The object has a field that does not fit the driver and cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "CSIDriver {driver}: spec.{field} is {found}, and the driver needs {needed}; Kubernetes does not let it be \
     changed: when no pod uses the driver's volumes, run `kubectl delete csidriver {driver}`"
)]
pub(crate) struct UnfitObject {
    driver: String,
    field: &'static str,
    found: String,
    needed: String,
}

/// What is to be done about the object.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// It is missing, or this program's own from before.
    Apply,
    /// Another program's, with these fields other than the driver suggests.
    Differs(Vec<&'static str>),
}

/// Keeps the object.
pub(crate) struct DriverObject {
    client: Client,
    driver: Arc<Driver>,
    caches: Caches,
}

impl DriverObject {
    /// The object of this driver.
    pub(crate) fn new(client: Client, driver: Arc<Driver>, caches: Caches) -> Self {
        Self { client, driver, caches }
    }

    /// Checks that the object, if there is one, fits the driver.
    ///
    /// # Errors
    /// [`UnfitObject`].
    pub(crate) fn check(driver: &Driver, caches: &Caches) -> Result<(), UnfitObject> {
        let Some(wanted) = driver.object() else { return Ok(()) };
        plan(driver.name(), wanted, caches.driver_object().as_deref()).map(drop)
    }

    /// Makes the object, or compares it. Returns whether nothing is left to do.
    pub(crate) async fn work(&self) -> bool {
        let (Some(wanted), name) = (self.driver.object(), self.driver.name()) else { return true };
        match plan(name, wanted, self.caches.driver_object().as_deref()) {
            Ok(Plan::Nothing) => true,
            Ok(Plan::Differs(fields)) => {
                warn!(
                    driver = name,
                    "the CSIDriver object is not this program's and is left as it is; the driver suggests other \
                     values of: {}",
                    fields.join(", ")
                );
                true
            }
            Ok(Plan::Apply) => self.apply(name, wanted).await,
            Err(unfit) => {
                warn!("{unfit}");
                true
            }
        }
    }

    async fn apply(&self, name: &str, wanted: &CSIDriverSpec) -> bool {
        let object = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": { "name": name, "labels": { MANAGED_BY: FIELD_MANAGER } },
            "spec": wanted,
        });
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        match Api::<CSIDriver>::all(self.client.clone()).patch(name, &parameters, &Patch::Apply(object)).await {
            Ok(_) => {
                info!(driver = name, "the CSIDriver object is written");
                true
            }
            Err(error) => {
                warn!(driver = name, "the CSIDriver object cannot be written: {error}");
                false
            }
        }
    }
}

/// Decides about the object.
fn plan(driver: &str, wanted: &CSIDriverSpec, found: Option<&CSIDriver>) -> Result<Plan, UnfitObject> {
    let Some(found) = found else { return Ok(Plan::Apply) };
    let is_own =
        found.metadata.labels.as_ref().and_then(|all| all.get(MANAGED_BY)).is_some_and(|by| by == FIELD_MANAGER);
    let has = &found.spec;
    let unfit = |field, found: Value, needed: Value| UnfitObject {
        driver: driver.to_owned(),
        field,
        found: found.to_string(),
        needed: needed.to_string(),
    };
    // Without a value, Kubernetes attaches.
    let (attaches, is_attached) = (has.attach_required.unwrap_or(true), wanted.attach_required.unwrap_or(true));
    if attaches != is_attached && (is_own || is_attached) {
        return Err(unfit("attachRequired", json!(attaches), json!(is_attached)));
    }
    let (modes, needed) = (has.volume_lifecycle_modes.as_deref(), wanted.volume_lifecycle_modes.as_deref());
    let (modes, needed) = (modes.unwrap_or_default(), needed.unwrap_or_default());
    if !needed.iter().all(|mode| modes.contains(mode)) {
        return Err(unfit("volumeLifecycleModes", json!(modes), json!(needed)));
    }
    let differ = [
        ("attachRequired", attaches != is_attached),
        ("podInfoOnMount", flag(has.pod_info_on_mount) != flag(wanted.pod_info_on_mount)),
        ("fsGroupPolicy", has.fs_group_policy != wanted.fs_group_policy),
        ("requiresRepublish", flag(has.requires_republish) != flag(wanted.requires_republish)),
        ("seLinuxMount", flag(has.se_linux_mount) != flag(wanted.se_linux_mount)),
        ("storageCapacity", flag(has.storage_capacity) != flag(wanted.storage_capacity)),
    ];
    let differ: Vec<_> = differ.into_iter().filter(|(_, differs)| *differs).map(|(field, _)| field).collect();
    Ok(match (differ.is_empty(), is_own) {
        (true, _) => Plan::Nothing,
        (false, true) => Plan::Apply,
        (false, false) => Plan::Differs(differ),
    })
}

fn flag(value: Option<bool>) -> bool {
    value.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> CSIDriverSpec {
        serde_json::from_str(text).unwrap()
    }

    fn object(is_own: bool, spec: &str) -> CSIDriver {
        let labels = if is_own { json!({ MANAGED_BY: FIELD_MANAGER }) } else { json!({}) };
        let spec: Value = serde_json::from_str(spec).unwrap();
        serde_json::from_value(json!({ "metadata": { "name": "d", "labels": labels }, "spec": spec })).unwrap()
    }

    const WANTED: &str = r#"{"attachRequired": true, "podInfoOnMount": true, "fsGroupPolicy": "File",
        "storageCapacity": true, "volumeLifecycleModes": ["Persistent"]}"#;

    fn of(is_own: bool, found: &str) -> Result<Plan, &'static str> {
        plan("d", &spec(WANTED), Some(&object(is_own, found))).map_err(|unfit| unfit.field)
    }

    #[test]
    fn an_object_that_is_missing_is_made_and_one_of_another_program_is_left_alone() {
        assert_eq!(plan("d", &spec(WANTED), None), Ok(Plan::Apply));
        // The API server adds what was not given.
        let full =
            WANTED.replace('}', r#", "seLinuxMount": false, "requiresRepublish": false, "tokenRequests": null}"#);
        assert_eq!(of(true, &full), Ok(Plan::Nothing));
        assert_eq!(of(false, &full), Ok(Plan::Nothing));
        let other = WANTED.replace("File", "None").replace(r#""storageCapacity": true"#, r#""storageCapacity": false"#);
        assert_eq!(of(true, &other), Ok(Plan::Apply));
        assert_eq!(of(false, &other), Ok(Plan::Differs(vec!["fsGroupPolicy", "storageCapacity"])));
        let wider = WANTED.replace(r#"["Persistent"]"#, r#"["Persistent", "Ephemeral"]"#);
        assert_eq!(of(false, &wider), Ok(Plan::Nothing));
    }

    #[test]
    fn what_cannot_be_changed_and_does_not_fit_is_an_error() {
        let unattached = WANTED.replace(r#""attachRequired": true"#, r#""attachRequired": false"#);
        assert_eq!(of(false, &unattached), Err("attachRequired"));
        let inline = WANTED.replace("Persistent", "Ephemeral");
        assert_eq!(of(false, &inline), Err("volumeLifecycleModes"));
        // Kubernetes waits for an attachment that this program reports at once.
        let attached = object(false, WANTED);
        assert_eq!(plan("d", &spec(&unattached), Some(&attached)), Ok(Plan::Differs(vec!["attachRequired"])));
        let error = plan("d", &spec(&unattached), Some(&object(true, WANTED))).unwrap_err().to_string();
        assert!(error.contains("kubectl delete csidriver d"), "{error}");
    }
}
