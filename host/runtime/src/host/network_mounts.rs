//! `network-mounts`: what granted servers export.

use std::sync::Arc;

use volhost_kernel::{FsOption, SecretOption, Share};
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::network_mounts::{Host, SecretOption as WitSecret};
use crate::bindings::volhost::plugin::types;
use crate::bindings::volhost::plugin::types::FsOption as WitOption;
use crate::handles::DetachedMount;
use crate::text::tame;

/// How much of a share's name a message shows, in bytes.
const SHOWN_BYTES: usize = 256;

/// What is asked for, but for the secrets.
struct Wanted {
    fs_type: String,
    server: String,
    path: String,
    options: Vec<WitOption>,
}

impl State {
    fn mount_from_network(
        &mut self,
        wanted: Wanted,
        secrets: &[SecretOption],
    ) -> Result<Resource<DetachedMount>, HostError> {
        let Wanted { fs_type, server, path, options } = wanted;
        self.may_mount(Some(&fs_type), options.iter().map(|option| option.key.as_str()))?;
        let share = Share { fs_type: &fs_type, server: &server, path: &path };
        let shown = tame(&share.to_string(), SHOWN_BYTES);
        self.step(format!("network-mounts.mount {shown}"), |state| {
            let options: Vec<FsOption> =
                options.into_iter().map(|option| FsOption { key: option.key, value: option.value }).collect();
            let found = state.kernel.server_addresses(&server)?;
            let granted = state.reach.granted_addresses(&server, &found);
            let granted = granted.map_err(|refused| {
                HostError::Plugin(types::Error::PermissionDenied(tame(&refused.to_string(), SHOWN_BYTES * 2)))
            })?;
            let mount = state.kernel.mount_share(&share, &granted, &options, secrets)?;
            Ok(state.push(DetachedMount(mount))?)
        })
    }
}

impl Host for State {
    fn mount(
        &mut self,
        fs_type: String,
        server: String,
        path: String,
        options: Vec<WitOption>,
    ) -> Result<Resource<DetachedMount>, HostError> {
        self.mount_from_network(Wanted { fs_type, server, path, options }, &[])
    }

    fn mount_with_secrets(
        &mut self,
        fs_type: String,
        server: String,
        path: String,
        options: Vec<WitOption>,
        secrets: Vec<WitSecret>,
    ) -> Result<Resource<DetachedMount>, HostError> {
        let secrets = secrets.into_iter().map(|secret| -> Result<_, HostError> {
            let value = Arc::clone(&self.table.get(&secret.value)?.bytes);
            Ok(SecretOption { key: secret.key, value })
        });
        let secrets: Vec<SecretOption> = secrets.collect::<Result<_, _>>()?;
        self.mount_from_network(Wanted { fs_type, server, path, options }, &secrets)
    }
}
