//! `iscsi-sessions`: logical units of targets behind granted portals. Each field is checked before
//! it becomes a part of a path or an argument; passwords never become one.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use volhost_model::iscsi::{Chap, ChapUser, DEFAULT_INTERFACE, IscsiError, LogicalUnit};
use wasmtime::component::Resource;

use super::State;
use super::mounts::dropped;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::iscsi_sessions::{Host, HostLogicalUnit};
use crate::bindings::volhost::plugin::types;
use crate::handles::{BlockDevice, Content, LogicalUnitHandle};
use crate::text::tame;

/// How much of a name a message shows, in bytes.
const SHOWN_BYTES: usize = 256;
/// The most portals of a target.
const MOST_PORTALS: usize = 16;

impl From<IscsiError> for HostError {
    fn from(error: IscsiError) -> Self {
        Self::Plugin(match error {
            IscsiError::NotFound(text) => types::Error::NotFound(text),
            IscsiError::Refused(text) => types::Error::PermissionDenied(text),
            IscsiError::NotReady(text) => types::Error::Precondition(text),
            IscsiError::Invalid(text) => types::Error::InvalidArgument(text),
            IscsiError::Busy(text) => types::Error::Busy(text),
            IscsiError::Retryable(text) => types::Error::Retryable(text),
        })
    }
}

fn invalid(text: String) -> HostError {
    HostError::Plugin(types::Error::InvalidArgument(text))
}

impl State {
    /// The unit, if every field of it may be used.
    fn checked_unit(&self, handle: &Resource<LogicalUnitHandle>) -> Result<LogicalUnit, HostError> {
        let unit = self.table.get(handle)?.unit.clone();
        unit.check().map_err(|error| invalid(error.to_string()))?;
        Ok(unit)
    }

    fn user(&self, name: &Resource<Content>, password: &Resource<Content>) -> wasmtime::Result<ChapUser> {
        let name = Arc::clone(&self.table.get(name)?.bytes);
        Ok(ChapUser { name, password: Arc::clone(&self.table.get(password)?.bytes) })
    }
}

impl Host for State {}

impl HostLogicalUnit for State {
    fn new(&mut self, target: String, lun: u32) -> wasmtime::Result<Resource<LogicalUnitHandle>> {
        self.count()?;
        let interface = DEFAULT_INTERFACE.to_owned();
        let unit = LogicalUnit { target, lun, portals: Vec::new(), interface, initiator: None };
        Ok(self.push(LogicalUnitHandle { unit, node: None, target: None })?)
    }

    fn portal(&mut self, unit: Resource<LogicalUnitHandle>, address: String, port: u16) -> Result<(), HostError> {
        self.count()?;
        let shown = tame(&address, SHOWN_BYTES);
        let Ok(parsed) = address.parse::<IpAddr>() else {
            return Err(invalid(format!("portal {shown:?} must be an IP address")));
        };
        if port == 0 {
            return Err(invalid(format!("portal {shown}: port 0 is none")));
        }
        if !self.reach.iscsi_portals.iter().any(|granted| granted.include(parsed)) {
            return Err(HostError::Plugin(types::Error::PermissionDenied(format!(
                "portal {shown} is not granted to this plugin; see `iscsi-portals` under [grants] in the configuration"
            ))));
        }
        let portals = &mut self.table.get_mut(&unit)?.unit.portals;
        let portal = SocketAddr::new(parsed, port);
        if portals.contains(&portal) {
            return Ok(());
        }
        if portals.len() >= MOST_PORTALS {
            return Err(invalid(format!("a target has at most {MOST_PORTALS} portals")));
        }
        portals.push(portal);
        Ok(())
    }

    fn initiator_interface(&mut self, unit: Resource<LogicalUnitHandle>, name: String) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&unit)?.unit.interface = name;
        Ok(())
    }

    fn initiator_name(&mut self, unit: Resource<LogicalUnitHandle>, name: String) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&unit)?.unit.initiator = Some(name);
        Ok(())
    }

    fn authenticate(
        &mut self,
        unit: Resource<LogicalUnitHandle>,
        name: Resource<Content>,
        password: Resource<Content>,
    ) -> wasmtime::Result<()> {
        self.count()?;
        let user = self.user(&name, &password)?;
        self.table.get_mut(&unit)?.node = Some(user);
        Ok(())
    }

    fn authenticate_target(
        &mut self,
        unit: Resource<LogicalUnitHandle>,
        name: Resource<Content>,
        password: Resource<Content>,
    ) -> wasmtime::Result<()> {
        self.count()?;
        let user = self.user(&name, &password)?;
        self.table.get_mut(&unit)?.target = Some(user);
        Ok(())
    }

    fn connect(&mut self, unit: Resource<LogicalUnitHandle>) -> Result<Resource<BlockDevice>, HostError> {
        let checked = self.checked_unit(&unit)?;
        self.change(format!("iscsi-sessions.connect {checked}"), |state: &mut Self| -> Result<_, HostError> {
            let handle = state.table.get(&unit)?;
            let chap = match (handle.node.clone(), handle.target.clone()) {
                (Some(node), target) => Some(Chap { node, target }),
                (None, None) => None,
                (None, Some(_)) => {
                    return Err(invalid("a target authenticates only to a node that does so, too".to_owned()));
                }
            };
            let found = state.call.environment().iscsi().connect(&checked, chap.as_ref())?;
            state.unit_device(&found)
        })
    }

    fn rescan(&mut self, unit: Resource<LogicalUnitHandle>) -> Result<Resource<BlockDevice>, HostError> {
        let checked = self.checked_unit(&unit)?;
        self.change(format!("iscsi-sessions.rescan {checked}"), |state: &mut Self| -> Result<_, HostError> {
            let found = state.call.environment().iscsi().rescan(&checked)?;
            state.unit_device(&found)
        })
    }

    fn disconnect(&mut self, unit: Resource<LogicalUnitHandle>) -> Result<(), HostError> {
        let checked = self.checked_unit(&unit)?;
        self.change(format!("iscsi-sessions.disconnect {checked}"), |state: &mut Self| -> Result<_, HostError> {
            Ok(state.call.environment().iscsi().disconnect(&checked)?)
        })
    }

    fn drop(&mut self, unit: Resource<LogicalUnitHandle>) -> wasmtime::Result<()> {
        dropped(self, unit)
    }
}
