//! `overlays`: folders laid on one another. The handles are the right to use the folders; the
//! grants were checked when they were made.

use volhost_kernel::FsOption;
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::overlays::Host;
use crate::bindings::volhost::plugin::types::Error;
use crate::bindings::volhost::plugin::types::FsOption as WitOption;
use crate::handles::{DetachedMount, MountSource};

impl Host for State {
    fn mount(
        &mut self,
        lowers: Vec<Resource<MountSource>>,
        top: Option<Resource<MountSource>>,
        options: Vec<WitOption>,
    ) -> Result<Resource<DetachedMount>, HostError> {
        self.may_mount(Some("overlay"), options.iter().map(|option| option.key.as_str()))?;
        self.change("overlays.mount", |state| {
            let options: Vec<FsOption> =
                options.into_iter().map(|option| FsOption { key: option.key, value: option.value }).collect();
            let mut folders = Vec::with_capacity(lowers.len());
            for lower in &lowers {
                folders.push(&state.table.get(lower)?.source);
            }
            let top = top.as_ref().map(|top| state.table.get(top)).transpose()?;
            if top.is_some_and(|top| top.read_only) {
                let text = "what may only be read cannot be the top of an overlay".to_owned();
                return Err(HostError::Plugin(Error::PermissionDenied(text)));
            }
            let top = top.map(|top| &top.source);
            let mount = state.kernel.overlay(&folders, top, &options)?;
            Ok(state.push(DetachedMount(mount))?)
        })
    }
}
