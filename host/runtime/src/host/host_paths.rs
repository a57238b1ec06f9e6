//! `host-paths`: paths of the host, within the operator's grant. The kernel layer checks what was
//! opened, not what was written.

use std::path::{Path, PathBuf};

use volhost_kernel::{Kernel, KernelError};
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::host_paths::Host;
use crate::bindings::volhost::plugin::types;
use crate::handles::MountSource;
use crate::text::tame;

/// How much of a path a message shows, in bytes.
const SHOWN_BYTES: usize = 256;

type OpenFn = fn(&dyn Kernel, &Path, &[PathBuf]) -> Result<volhost_kernel::MountSource, KernelError>;

impl State {
    /// Opens or creates `path` by `open`, and says so while it takes its time: a path may lie on a
    /// server that does not answer.
    fn open_host_path(&mut self, what: &str, path: &str, open: OpenFn) -> Result<Resource<MountSource>, HostError> {
        let shown = tame(path, SHOWN_BYTES);
        if self.reach.host_paths.is_empty() {
            let text = format!(
                "{shown}: no folder of the host is granted to this plugin; see `host-paths` under [grants] in the configuration"
            );
            return Err(HostError::Plugin(types::Error::PermissionDenied(text)));
        }
        self.step(format!("{what} {shown}"), |state| {
            let source = open(&*state.kernel, Path::new(path), &state.reach.host_paths)?;
            Ok(state.push(MountSource::writable(source))?)
        })
    }
}

impl Host for State {
    fn open(&mut self, path: String) -> Result<Resource<MountSource>, HostError> {
        self.open_host_path("host-paths.open", &path, |kernel, path, roots| kernel.open_host_path(path, roots))
    }

    fn create_directory(&mut self, path: String) -> Result<Resource<MountSource>, HostError> {
        self.changed = true;
        self.budget.charge_change()?;
        self.budget.charge_folders(Path::new(&path).components().count())?;
        self.open_host_path("host-paths.create-directory", &path, |kernel, path, roots| {
            kernel.create_host_directory(path, roots)
        })
    }

    fn create_file(&mut self, path: String) -> Result<Resource<MountSource>, HostError> {
        self.changed = true;
        self.budget.charge_change()?;
        self.budget.charge_written(1, 0)?;
        self.open_host_path("host-paths.create-file", &path, |kernel, path, roots| kernel.create_host_file(path, roots))
    }
}
