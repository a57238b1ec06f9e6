//! What a cluster changes on the machine, outside its mount namespace, and how it is undone.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// Settings of the kernel that the kubelet changes.
const CHANGED: [&str; 3] = ["vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"];

/// The values before the first kubelet of this process started. Of two clusters that overlap, the
/// later one would read what the kubelet of the earlier one has set.
static BEFORE: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
    let value = |name| fs::read_to_string(Path::new("/proc/sys").join(name));
    CHANGED.iter().filter_map(|name| Some((*name, value(name).ok()?))).collect()
});

/// The values to be restored.
#[derive(Debug)]
pub(super) struct Sysctls(&'static [(&'static str, String)]);

impl Sysctls {
    pub(super) fn read() -> Self {
        Self(&BEFORE)
    }

    pub(super) fn restore(&self) {
        for (name, value) in self.0 {
            // A value that the machine refuses to take back is not the test's failure.
            let _ = fs::write(Path::new("/proc/sys").join(name), value);
        }
    }
}

/// Removes the empty control groups that containers leave: those of containerd's namespace.
pub(super) fn remove_cgroups() {
    let Ok(hierarchies) = fs::read_dir("/sys/fs/cgroup") else { return };
    let roots = hierarchies.flatten().map(|entry| entry.path().join("k8s.io"));
    for root in roots.chain([Path::new("/sys/fs/cgroup/k8s.io").to_owned()]) {
        remove_empty(&root);
    }
}

fn remove_empty(group: &Path) {
    for child in fs::read_dir(group).into_iter().flatten().flatten() {
        if child.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&child.path());
        }
    }
    // The kernel refuses it while it has processes or children.
    let _ = fs::remove_dir(group);
}
