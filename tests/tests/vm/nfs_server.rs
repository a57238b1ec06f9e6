//! The NFS server of a guest: the kernel's own.

use volhost_tests::vm::Guest;

use crate::kit::Daemon;

pub(crate) const NFS: &str = "kubernetes.io~nfs";
/// Where the exported folders are.
pub(crate) const EXPORTS: &str = "/disk/exports";
/// Some of the server's threads.
const THREADS: u32 = 4;

/// The guest with a running server.
pub(crate) struct Server {
    pub(crate) guest: Guest,
}

impl Server {
    pub(crate) fn start() -> Self {
        let guest = Guest::borrow();
        guest.run(&format!(
            "printf '127.0.0.1 localhost nas\\n::1 localhost nas\\n' >/etc/hosts
             mkdir -p {EXPORTS}/share /run/rpcbind
             mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
             pidof rpcbind >/dev/null || rpcbind -w
             pidof rpc.mountd >/dev/null || rpc.mountd"
        ));
        let server = Self { guest };
        server.export("share");
        server.serve("-V 3");
        server
    }

    /// Serves all versions but those that are turned off.
    pub(crate) fn serve(&self, versions: &str) {
        self.guest.run(&format!(
            "rpc.nfsd 0; rpc.nfsd -V 4.2 -V 4.1 -V 4.0 {versions} {THREADS}
             # Nothing of an earlier server has to be reclaimed.
             echo Y >/proc/fs/nfsd/v4_end_grace"
        ));
    }

    /// Exports a folder of [`EXPORTS`] to everyone.
    pub(crate) fn export(&self, folder: &str) {
        self.guest.run(&format!("exportfs -o rw,no_root_squash,no_subtree_check '*:{EXPORTS}/{folder}'"));
    }

    /// Exports a new folder of [`EXPORTS`], which each client may write to, and mounts it below
    /// `/run`: a case file of the conformance suite makes its storage there.
    pub(crate) fn export_and_mount(&self, folder: &str) {
        self.guest.run(&format!("mkdir -p {EXPORTS}/{folder} /run/{folder}; chmod 777 {EXPORTS}/{folder}"));
        self.export(folder);
        self.guest.run(&format!("mount -t nfs -o vers=4.2 127.0.0.1:{EXPORTS}/{folder} /run/{folder}"));
    }

    /// Unmounts what [`export_and_mount`](Self::export_and_mount) has mounted.
    pub(crate) fn unmount(&self, folder: &str) {
        self.guest.run(&format!("umount /run/{folder}"));
    }

    pub(crate) fn stop(&self) {
        self.guest.run("rpc.nfsd 0");
    }

    /// Starts a daemon with the plugins of these tests.
    pub(crate) fn daemon(&self, name: &'static str) -> Daemon<'_> {
        Daemon::start(&self.guest, name, &["empty-dir", "nfs"])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.guest.try_run("rpc.nfsd 0");
    }
}

/// The entry of a pod's volume of the share.
pub(crate) fn inline(name: &str, server: &str, more: &str) -> String {
    format!("name: {name}, nfs: {{ server: '{server}', path: {EXPORTS}/share{more} }}")
}
