//! The double's further inputs of a call that makes volumes for claims.

use super::host::TestHost;
use super::objects::secrets::Secret;
use super::world::current;
use crate::error::{Error, Result};
use crate::provisioning_calls::Place;

/// The call's inputs, and the places that the plugin reported.
#[derive(Debug, Default)]
pub(crate) struct ProvisioningCall {
    provisioner: Option<String>,
    secret: Option<(String, String)>,
    allowed: Vec<Place>,
    reachable_from: Vec<Vec<(String, String)>>,
}

impl TestHost {
    /// Sets the provisioner of the next calls of a controller.
    pub fn provisioner(&self, driver: &str) -> &Self {
        self.change(|world| world.provisioning.provisioner = Some(driver.to_owned()))
    }

    /// Names a secret of the namespace `default` for them.
    pub fn provisioner_secret(&self, name: &str) -> &Self {
        self.change(|world| world.provisioning.secret = Some(("default".to_owned(), name.to_owned())))
    }

    /// Allows the volumes that they make to be here.
    pub fn allowed_place(&self, labels: &[(&str, &[&str])]) -> &Self {
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let place = labels.iter().map(|(key, all)| ((*key).to_owned(), values(all))).collect();
        self.change(|world| world.provisioning.allowed.push(place))
    }

    /// The labels of the nodes from which the new volumes can be reached, as the plugin reported.
    #[must_use]
    pub fn reachable_from(&self) -> Vec<Vec<(String, String)>> {
        self.world.borrow().provisioning.reachable_from.clone()
    }
}

pub(crate) fn provisioner() -> Option<String> {
    current().borrow().provisioning.provisioner.clone()
}

pub(crate) fn class_secret() -> Result<Option<Secret>> {
    let world = current();
    world.borrow_mut().called("provisioning-calls.class-secret")?;
    let Some(key) = world.borrow().provisioning.secret.clone() else { return Ok(None) };
    let found = world.borrow().objects.secrets.get(&key).cloned();
    found
        .map(|data| Some(Secret(data)))
        .ok_or_else(|| Error::not_found(format!("there is no secret {}/{}", key.0, key.1)))
}

pub(crate) fn allowed_places() -> Vec<Place> {
    current().borrow().provisioning.allowed.clone()
}

pub(crate) fn mount_options() -> Vec<String> {
    Vec::new()
}

pub(crate) fn reachable_from(labels: &[(String, String)]) {
    current().borrow_mut().provisioning.reachable_from.push(labels.to_vec());
}
