//! The SMB server of a guest: Samba.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use volhost_tests::vm::Guest;

use crate::kit::Daemon;

/// A guest has one SMB server: the tests that start and stop it run one after the other.
static SERVER: Mutex<()> = Mutex::new(());

pub(crate) const CIFS: &str = "volhost.io~cifs";
/// The folder of the share `team`.
pub(crate) const SHARE: &str = "/disk/smb/team";
pub(crate) const USER: &str = "node";
pub(crate) const PASSWORD: &str = "correct-horse,=battery";

/// The guest with a running server.
pub(crate) struct Server {
    pub(crate) guest: Arc<Guest>,
    _alone: MutexGuard<'static, ()>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let guest = Guest::shared();
        let alone = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
        guest.run(&format!(
            "rm -rf {SHARE}; mkdir -p {SHARE} /run/samba /var/lib/samba/private /var/log/samba /var/cache/samba
             printf '[global]\\nserver role = standalone\\ndisable netbios = yes\\nsmb ports = 445\\nload printers = no\\n\
             pid directory = /run\\n[team]\\npath = {SHARE}\\nread only = no\\nvalid users = {USER}\\nforce user = root\\n' \
             >/etc/samba/smb.conf
             id {USER} >/dev/null 2>&1 || useradd -M {USER}
             printf '{PASSWORD}\\n{PASSWORD}\\n' | smbpasswd -s -a {USER}"
        ));
        let server = Self { guest, _alone: alone };
        server.serve();
        server
    }

    /// Starts it, and waits until it takes connections on port 445.
    pub(crate) fn serve(&self) {
        self.guest.run("smbd -D; while ! grep -q ':01BD .* 0A ' /proc/net/tcp6; do :; done");
    }

    pub(crate) fn stop(&self) {
        self.guest.run("kill $(cat /run/smbd.pid); while pidof smbd >/dev/null; do :; done");
    }

    /// Starts a daemon with the plugins of these tests.
    pub(crate) fn daemon(&self, name: &'static str) -> Daemon<'_> {
        Daemon::start(&self.guest, name, &["empty-dir", "cifs"])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.guest.try_run("kill $(cat /run/smbd.pid)");
    }
}

/// The entry of a pod's volume of a share.
pub(crate) fn inline(name: &str, source: &str, more: &str) -> String {
    format!(
        "name: {name}, csi: {{ driver: cifs.volhost.io, nodePublishSecretRef: {{ name: login }}, \
         volumeAttributes: {{ source: '{source}' }}{more} }}"
    )
}

/// The secret `login`.
pub(crate) fn secret(password: &str) -> String {
    format!(
        "apiVersion: v1
kind: Secret
metadata: {{ name: login }}
stringData: {{ username: {USER}, password: '{password}' }}
"
    )
}
