//! `tmpfs`: memory file systems.

use volhost_kernel::FsOption;
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::tmpfs::Host;
use crate::bindings::volhost::plugin::types::FsOption as WitOption;
use crate::handles::DetachedMount;

impl Host for State {
    fn create(&mut self, options: Vec<WitOption>) -> Result<Resource<DetachedMount>, HostError> {
        self.may_mount(Some("tmpfs"), options.iter().map(|option| option.key.as_str()))?;
        self.step("tmpfs.create", |state| {
            let options: Vec<FsOption> =
                options.into_iter().map(|option| FsOption { key: option.key, value: option.value }).collect();
            let mount = state.kernel.tmpfs(&options)?;
            Ok(state.push(DetachedMount(mount))?)
        })
    }
}
