//! The kernel's limit of inotify instances, which all daemons of this process share.

use std::fs;

const LIMIT: &str = "/proc/sys/fs/inotify/max_user_instances";
/// A daemon watches the plugin folder, and the folder of drivers' sockets. One is to spare.
const OF_A_DAEMON: usize = 3;
/// What other programs have.
const OF_OTHERS: usize = 128;

/// Raises the limit until it is dropped, if it is too low: each real daemon has a machine of its
/// own.
pub(crate) struct InotifyInstances {
    before: Option<String>,
}

impl InotifyInstances {
    /// Raises it for so many daemons.
    pub(crate) fn enough_for(daemons: usize) -> Self {
        let before = fs::read_to_string(LIMIT).expect("the kernel has inotify");
        let limit: usize = before.trim().parse().expect("it is a number");
        let wanted = daemons * OF_A_DAEMON + OF_OTHERS;
        if daemons * OF_A_DAEMON * 2 <= limit {
            return Self { before: None };
        }
        fs::write(LIMIT, wanted.max(limit).to_string()).expect("root may raise fs.inotify.max_user_instances");
        Self { before: Some(before) }
    }
}

impl Drop for InotifyInstances {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = fs::write(LIMIT, before);
        }
    }
}
