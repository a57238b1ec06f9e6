//! A plugin as a CSI driver in a guest.

use volhost_tests::vm::Guest;

use crate::kit::fill_cache;

/// A plugin that `volhost csi-serve` serves: a program of its own, which a daemon calls by CSI.
pub(crate) struct CsiDriver<'a> {
    guest: &'a Guest,
    plugin: &'static str,
}

impl<'a> CsiDriver<'a> {
    /// Starts it. It registers in `/run/PLUGIN-csi`, and mounts in the folder of this daemon.
    pub(crate) fn start(guest: &'a Guest, plugin: &'static str, daemon: &str) -> Self {
        Self::start_with(guest, plugin, daemon, "")
    }

    /// Starts it with these grants.
    pub(crate) fn start_with(guest: &'a Guest, plugin: &'static str, daemon: &str, grants: &str) -> Self {
        let driver = Self { guest, plugin };
        let folder = driver.folder();
        guest.run(&format!(
            "mkdir -p /run/{plugin}-csi /disk/{daemon}/root {folder}
             {cache}
             printf 'shipped-plugins = \"/payload/shipped-plugins.sha256\"\n%s\n' '{grants}' >{folder}/volhost.toml
             setsid /payload/volhost csi-serve --plugin /payload/plugins/{plugin}.wasm \
             --endpoint unix:///run/{plugin}-csi.sock --registration-dir /run/{plugin}-csi \
             --kubelet-dir /disk/{daemon}/root --state-dir {folder} --cache-dir {folder}/cache --node-id guest \
             --config {folder}/volhost.toml >{folder}/log 2>&1 </dev/null & echo $! >/run/{plugin}-csi.pid",
            cache = fill_cache(&format!("{folder}/cache"))
        ));
        driver
    }

    /// The folder of its records and its log.
    pub(crate) fn folder(&self) -> String {
        format!("/disk/{}-csi", self.plugin)
    }

    /// Ends it.
    pub(crate) fn stop(&self) {
        self.guest.run(&format!("kill $(cat /run/{}-csi.pid)", self.plugin));
    }
}
