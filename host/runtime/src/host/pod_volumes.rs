//! `pod-volumes`: the pod's other volumes, as far as the volume has said that it is made of them.

use std::path::Path;
use std::sync::Arc;

use volhost_kernel::Entry;
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::pod_volumes::Host;
use crate::bindings::volhost::plugin::types::Error;
use crate::handles::{MountSource, MountTarget};

impl Host for State {
    fn open(&mut self, target: Resource<MountTarget>, name: String) -> Result<Resource<MountSource>, HostError> {
        self.step("pod-volumes.open", |state| {
            let target = Arc::clone(&state.table.get(&target)?.0);
            let Some(needed) = target.needed.iter().find(|needed| needed.name == name) else {
                let text = format!("`identify` did not say that the volume needs the volume {name:?} of the pod");
                return Err(HostError::Plugin(Error::NotFound(text)));
            };
            let place = &needed.place;
            match state.kernel.entry(&place.parent, &place.name)? {
                Entry::Mount(_) => {}
                Entry::Folder if !needed.is_mount => {}
                // A folder without a mount must never be taken for the volume.
                _ => {
                    let text = format!("volume {name:?} of the pod is not mounted where it should be");
                    return Err(HostError::Plugin(Error::Precondition(text)));
                }
            }
            let root = state.kernel.walk(&place.parent, Path::new(&place.name))?;
            let source = state.kernel.source(&root)?;
            Ok(state.push(MountSource::read_only(source))?)
        })
    }
}
