//! `huge-pages`: file systems whose files are made of huge pages.

use volhost_kernel::FsOption;
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::huge_pages::Host;
use crate::bindings::volhost::plugin::types::FsOption as WitOption;
use crate::handles::DetachedMount;

impl Host for State {
    fn create(&mut self, options: Vec<WitOption>) -> Result<Resource<DetachedMount>, HostError> {
        self.step("huge-pages.create", |state| {
            let options: Vec<FsOption> =
                options.into_iter().map(|option| FsOption { key: option.key, value: option.value }).collect();
            let mount = state.kernel.huge_pages(&options)?;
            Ok(state.push(DetachedMount(mount))?)
        })
    }
}
