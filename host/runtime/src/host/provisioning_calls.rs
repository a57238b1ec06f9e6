//! `provisioning-calls`: what a StorageClass says of the call.

use std::collections::BTreeMap;

use wasmtime::component::Resource;

use super::State;
use crate::abort::Abort;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::provisioning_calls::Host;
use crate::handles::Secret;

/// The most places of one volume, and labels of one place.
const MOST: usize = 16;

impl Host for State {
    fn provisioner(&mut self) -> wasmtime::Result<Option<String>> {
        self.count()?;
        Ok(self.call.provisioning().map(|call| call.provisioner.clone()))
    }

    fn class_secret(&mut self) -> Result<Option<Resource<Secret>>, HostError> {
        self.count()?;
        let named = self.call.provisioning().and_then(|call| call.secret.clone());
        let Some((namespace, name)) = named else { return Ok(None) };
        let object = self.call.environment().objects().secret(&namespace, &name)?;
        Ok(Some(self.push(Secret { name: format!("{namespace}/{name}"), object })?))
    }

    fn allowed_places(&mut self) -> wasmtime::Result<Vec<Vec<(String, Vec<String>)>>> {
        self.count()?;
        let places = self.call.provisioning().into_iter().flat_map(|call| &call.allowed_places);
        Ok(places.map(|place| place.clone().into_iter().collect()).collect())
    }

    fn mount_options(&mut self) -> wasmtime::Result<Vec<String>> {
        self.count()?;
        Ok(self.call.provisioning().into_iter().flat_map(|call| &call.mount_options).cloned().collect())
    }

    fn reachable_from(&mut self, labels: Vec<(String, String)>) -> wasmtime::Result<()> {
        self.count()?;
        if self.reachable_from.len() >= MOST || labels.len() > MOST {
            return Err(Abort::contract(format!("it named more than {MOST} places, or labels of one")).into());
        }
        self.reachable_from.push(labels.into_iter().collect::<BTreeMap<_, _>>());
        Ok(())
    }
}
