//! `id-maps`: mounts that show their files under other owners.

use volhost_kernel::IdMap;
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::id_maps::Host;
use crate::bindings::volhost::plugin::types;
use crate::handles::DetachedMount;

impl Host for State {
    fn map_group(&mut self, mount: Resource<DetachedMount>, group: u32) -> Result<(), HostError> {
        self.step("id-maps.map-group", |state| {
            let mount = &state.table.get(&mount)?.0;
            let stored = state.kernel.group_of_mount(mount)?;
            if stored == group {
                return Ok(());
            }
            let Some(map) = IdMap::swapping_groups(stored, group) else {
                let text = format!("{group} is the id of no group");
                return Err(HostError::Plugin(types::Error::InvalidArgument(text)));
            };
            Ok(state.kernel.idmapped(mount, &map)?)
        })
    }
}
