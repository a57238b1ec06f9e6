//! `image-files`: file systems in files within the operator's grant.

use std::path::Path;

use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::image_files::Host;
use crate::bindings::volhost::plugin::types::FsOption as WitOption;
use crate::handles::DetachedMount;
use crate::text::tame;

/// How much of a path a message shows, in bytes.
const SHOWN_BYTES: usize = 256;

impl Host for State {
    fn folders(&mut self) -> wasmtime::Result<Vec<String>> {
        self.count()?;
        Ok(self.reach.image_files.iter().map(|folder| folder.to_string_lossy().into_owned()).collect())
    }

    fn mount(
        &mut self,
        path: String,
        fs_type: String,
        options: Vec<WitOption>,
    ) -> Result<Resource<DetachedMount>, HostError> {
        self.step(format!("image-files.mount {}", tame(&path, SHOWN_BYTES)), |state| {
            let options = state.labelled(&fs_type, options)?;
            let file = state.kernel.open_host_path(Path::new(&path), &state.reach.image_files)?;
            let mount = state.kernel.mount_image(&file, &fs_type, &options)?;
            Ok(state.push(DetachedMount(mount))?)
        })
    }
}
