//! `node`: facts of this node.

use super::State;
use crate::bindings::volhost::plugin::node::Host;

impl Host for State {
    fn name(&mut self) -> wasmtime::Result<String> {
        self.count()?;
        Ok(self.call.environment().node().name.clone())
    }

    fn allocatable_memory(&mut self) -> wasmtime::Result<u64> {
        self.count()?;
        Ok(self.call.environment().node().allocatable_memory)
    }

    fn label(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        self.count()?;
        Ok(self.call.environment().node().labels.get(&key).cloned())
    }
}
