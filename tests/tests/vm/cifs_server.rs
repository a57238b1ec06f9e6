//! The SMB server of a guest: Samba.

use volhost_tests::vm::Guest;

use crate::kit::Daemon;

pub(crate) const CIFS: &str = "volhost.io~cifs";
/// The folder of the share `team`.
pub(crate) const SHARE: &str = "/disk/smb/team";
pub(crate) const USER: &str = "node";
pub(crate) const PASSWORD: &str = "correct-horse,=battery";

/// Ends the server, and waits until it has released its port.
const STOP: &str = "kill $(cat /run/smbd.pid); while pidof smbd >/dev/null; do :; done";

/// The guest with a running server.
pub(crate) struct Server {
    pub(crate) guest: Guest,
}

impl Server {
    pub(crate) fn start() -> Self {
        let guest = Guest::borrow();
        guest.run(&format!(
            "rm -rf {SHARE}; mkdir -p {SHARE} /run/samba /var/lib/samba/private /var/log/samba /var/cache/samba
             printf '[global]\\nserver role = standalone\\ndisable netbios = yes\\nsmb ports = 445\\nload printers = no\\n\
             pid directory = /run\\n[team]\\npath = {SHARE}\\nread only = no\\nvalid users = {USER}\\nforce user = root\\n' \
             >/etc/samba/smb.conf
             id {USER} >/dev/null 2>&1 || useradd -M {USER}
             printf '{PASSWORD}\\n{PASSWORD}\\n' | smbpasswd -s -a {USER}"
        ));
        let server = Self { guest };
        server.serve();
        server
    }

    /// Starts it, and waits until it takes connections on port 445.
    pub(crate) fn serve(&self) {
        self.guest.run("smbd -D; while ! grep -q ':01BD .* 0A ' /proc/net/tcp6; do :; done");
    }

    pub(crate) fn stop(&self) {
        self.guest.run(STOP);
    }

    /// Starts a daemon with the plugins of these tests.
    pub(crate) fn daemon(&self, name: &'static str) -> Daemon<'_> {
        Daemon::start(&self.guest, name, &["empty-dir", "cifs"])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.guest.try_run(STOP);
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
