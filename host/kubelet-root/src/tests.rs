use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use volhost_kernel::{Directory, Durability, Entry, Kernel};
use volhost_testing_kernel::InMemoryKernel;
use volhost_volume_ops::layout::ADOPTED;

use crate::claim;
use crate::found::{Fate, Findings};
use crate::{adopt, look};

/// The digest of the handle `vol-1`.
const DIGEST: &str = "6f8e2a7b";

struct Root {
    kernel: Arc<dyn Kernel>,
    folder: Directory,
}

impl Root {
    fn new() -> Self {
        let kernel: Arc<dyn Kernel> = Arc::new(InMemoryKernel::new());
        let top = kernel.open_directory(Path::new("/")).unwrap();
        let folder = kernel.make_dirs(&top, Path::new("kubelet"), 0o750).unwrap();
        Self { kernel, folder }
    }

    fn dir(&self, path: &str) -> Directory {
        self.kernel.make_dirs(&self.folder, Path::new(path), 0o750).unwrap()
    }

    fn file(&self, path: &str, text: &str) {
        let path = Path::new(path);
        let parent = self.dir(path.parent().unwrap().to_str().unwrap());
        let name = path.file_name().unwrap();
        self.kernel.write_atomic(&parent, name, text.as_bytes(), 0o600, Durability::Process).unwrap();
    }

    fn mount(&self, path: &str) {
        let path = Path::new(path);
        let parent = self.dir(path.parent().unwrap().to_str().unwrap());
        let tmpfs = self.kernel.tmpfs(&[]).unwrap();
        self.kernel.attach(tmpfs, &parent, path.file_name().unwrap()).unwrap();
    }

    fn look(&self) -> Findings {
        look::look(self.kernel.as_ref(), &self.folder).unwrap()
    }

    fn fates(&self) -> BTreeMap<String, Fate> {
        self.look().all().iter().map(|found| (found.path.display().to_string(), found.fate)).collect()
    }

    fn exists(&self, path: &str) -> bool {
        let path = Path::new(path);
        self.kernel
            .walk(&self.folder, path.parent().unwrap())
            .and_then(|parent| self.kernel.entry(&parent, path.file_name().unwrap()))
            .is_ok_and(|entry| entry != Entry::Absent)
    }
}

#[test]
fn volumes_are_adopted_marks_are_cleaned_and_the_rest_is_left() {
    let root = Root::new();
    root.file("pods/uid-a/volumes/kubernetes.io~empty-dir/scratch/data", "x");
    root.file("pods/uid-a/plugins/kubernetes.io~empty-dir/scratch/ready", "");
    root.file("pods/uid-a/plugins/kubernetes.io~empty-dir/wrapped_token/ready", "");
    root.mount("pods/uid-a/volumes/kubernetes.io~secret/token");
    root.mount("pods/uid-a/volume-subpaths/scratch/main/0");
    root.mount("pods/uid-a/volumes/kubernetes.io~csi/pv/mount");
    let data = r#"{"driverName":"a.test","volumeHandle":"vol-1","specVolID":"pv"}"#;
    root.file("pods/uid-a/volumes/kubernetes.io~csi/pv/vol_data.json", data);
    root.file("pods/uid-a/etc-hosts", "");
    root.dir("pods/not a uid");
    let fates = root.fates();
    let fate = |path: &str| fates.get(path).copied();
    for adopted in [
        "volumes/kubernetes.io~empty-dir/scratch",
        "volumes/kubernetes.io~secret/token",
        "volume-subpaths/scratch/main/0",
        "volumes/kubernetes.io~csi/pv",
    ] {
        assert_eq!(fate(&format!("pods/uid-a/{adopted}")), Some(Fate::Adopt), "{adopted}: {fates:?}");
    }
    for mark in ["scratch", "wrapped_token"] {
        let path = format!("pods/uid-a/plugins/kubernetes.io~empty-dir/{mark}/ready");
        assert_eq!(fate(&path), Some(Fate::Clean), "{fates:?}");
    }
    assert_eq!((fate("pods/uid-a/etc-hosts"), fate("pods/not a uid")), (Some(Fate::Leave), Some(Fate::Leave)));

    adopt::adopt(root.kernel.as_ref(), &root.folder, &root.look()).unwrap();
    assert!(!root.exists("pods/uid-a/plugins"), "the marks are gone, and their folders");
    for kept in [
        "pods/uid-a/volumes/kubernetes.io~empty-dir/scratch/data",
        "pods/uid-a/volumes/kubernetes.io~csi/pv/vol_data.json",
        "pods/uid-a/etc-hosts",
        ADOPTED,
    ] {
        assert!(root.exists(kept), "{kept}");
    }
    assert_eq!(root.look().with(Fate::Clean).count(), 0);
}

#[test]
fn a_vol_data_json_that_names_no_volume_is_named_and_skipped() {
    let root = Root::new();
    let hostile = [
        ("large", "x".repeat(1 << 20)),
        ("empty", String::new()),
        ("types", r#"{"driverName":[],"volumeHandle":7}"#.to_owned()),
        ("path", r#"{"driverName":"../../etc","volumeHandle":"x"}"#.to_owned()),
        ("dots", r#"{"driverName":"..","volumeHandle":"x"}"#.to_owned()),
    ];
    for (name, text) in &hostile {
        root.file(&format!("pods/uid-a/volumes/kubernetes.io~csi/{name}/vol_data.json"), text);
        root.file(&format!("plugins/kubernetes.io/csi/a.test/{DIGEST}{name}/vol_data.json"), text);
    }
    let elsewhere = r#"{"driverName":"a.test","volumeHandle":"vol-1"}"#;
    root.file(&format!("plugins/kubernetes.io/csi/a.test/{DIGEST}/vol_data.json"), elsewhere);
    let found = root.look();
    assert_eq!(found.all().len(), 2 * hostile.len() + 1);
    for one in found.all() {
        assert_eq!(one.fate, Fate::Leave, "{one:?}");
        assert!(one.why.contains("vol_data.json") && one.why.contains("skipped"), "{one:?}");
        assert!(one.why.len() < 400, "{one:?}");
    }
}

#[test]
fn a_drivers_device_is_adopted_by_its_vol_data_json() {
    let root = Root::new();
    let devices = "plugins/kubernetes.io/csi/volumeDevices";
    let data = r#"{"driverName":"a.test","volumeHandle":"vol-1","specVolID":"pv"}"#;
    root.file(&format!("{devices}/pv/data/vol_data.json"), data);
    root.mount(&format!("{devices}/pv/dev/uid-a"));
    root.mount(&format!("{devices}/publish/pv/uid-a"));
    root.dir(&format!("{devices}/staging/pv"));
    root.dir("pods/uid-a/volumeDevices/kubernetes.io~csi/pv");
    // Staged for no pod any more, and one that nothing names.
    root.file(&format!("{devices}/old/data/vol_data.json"), data);
    root.dir(&format!("{devices}/staging/lost"));
    let fates = root.fates();
    for (path, fate) in [
        ("pods/uid-a/volumeDevices/kubernetes.io~csi/pv".to_owned(), Fate::Adopt),
        (format!("{devices}/pv"), Fate::Adopt),
        (format!("{devices}/old"), Fate::Adopt),
        (format!("{devices}/lost"), Fate::Leave),
    ] {
        assert_eq!(fates.get(&path), Some(&fate), "{path}: {fates:?}");
    }
    assert_eq!(fates.len(), 4, "{fates:?}");
    let look = root.look();
    let named = look.all().iter().find(|found| found.path.ends_with("kubernetes.io~csi/pv")).unwrap();
    assert!(named.what.contains("vol-1 of driver a.test"), "{named:?}");
}

#[test]
fn what_volhost_cannot_take_over_blocks() {
    let root = Root::new();
    root.mount("plugins/kubernetes.io/local-volume/mounts/pv");
    root.mount("plugins/kubernetes.io/csi/volumeDevices/pv/dev/uid-a");
    root.mount("plugins/kubernetes.io/csi/volumeDevices/publish/garbled/uid-a");
    root.file("plugins/kubernetes.io/csi/volumeDevices/garbled/data/vol_data.json", "{");
    root.dir("pods/uid-a/volumeDevices/kubernetes.io~csi/pv");
    root.dir("pods/uid-a/volumeDevices/kubernetes.io~local-volume/disk");
    root.mount("pods/uid-a/volumes/vendor.example~driver/flex");
    root.mount(&format!("plugins/kubernetes.io/csi/a.test/{DIGEST}/globalmount"));
    let blocking: Vec<String> = root.look().with(Fate::Blocks).map(|found| found.path.display().to_string()).collect();
    assert_eq!(
        blocking,
        [
            "plugins/kubernetes.io/csi/volumeDevices/publish/garbled/uid-a",
            "plugins/kubernetes.io/csi/volumeDevices/pv/dev/uid-a",
            "plugins/kubernetes.io/local-volume/mounts/pv",
            "pods/uid-a/volumeDevices/kubernetes.io~csi/pv",
            "pods/uid-a/volumeDevices/kubernetes.io~local-volume/disk",
            "pods/uid-a/volumes/vendor.example~driver/flex",
        ]
    );
}

#[test]
fn a_daemon_refuses_a_kubelets_folder_until_it_is_adopted() {
    let root = Root::new();
    let check = || claim::check(root.kernel.as_ref(), Path::new("/kubelet"));
    check().unwrap();
    root.file("cpu_manager_state", "{}");
    let why = check().unwrap_err().to_string();
    assert!(why.contains("cpu_manager_state") && why.contains("volhost adopt --kubelet-root /kubelet"), "{why}");
    adopt::adopt(root.kernel.as_ref(), &root.folder, &root.look()).unwrap();
    check().unwrap();
    assert!(matches!(root.kernel.entry(&root.folder, OsStr::new(ADOPTED)), Ok(Entry::File)));
}
