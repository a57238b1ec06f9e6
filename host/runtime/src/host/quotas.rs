//! `quotas`: folders that the file system keeps from growing, and those that are watched instead.

use std::sync::Arc;

use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::quotas::Host;
use crate::handles::MountTarget;

impl Host for State {
    fn make_limited_folder(
        &mut self,
        target: Resource<MountTarget>,
        mode: u32,
        group: Option<u32>,
        limit: u64,
    ) -> Result<(), HostError> {
        self.change("quotas.make-limited-folder", |state| {
            let target = Arc::clone(&state.table.get(&target)?.0);
            Ok(state.kernel.make_limited_folder(&target.parent, &target.name, mode, group, limit)?)
        })
    }

    fn watch_size(&mut self, target: Resource<MountTarget>, limit: u64) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get(&target)?;
        self.watched_size = Some(limit);
        Ok(())
    }
}
