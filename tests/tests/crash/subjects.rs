//! The pods that daemons die over, kind by kind.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use volhost_tests::manifests::{device_pod, local_volume, loop_volume, pod};
use volhost_tests::wait::eventually;

use crate::pods::{Subject, UID};
use crate::site::{CONFIG_MAP, EMPTY_DIR, IMAGE, LOCAL, LOOP, OVERLAY, PROJECTED, SECRET, Site};

const MIB: u64 = 1 << 20;

fn with_group(pod: &str, group: u64) -> String {
    let context = format!("spec:\n  securityContext: {{ fsGroup: {group}, fsGroupChangePolicy: OnRootMismatch }}\n");
    pod.replacen("spec:\n", &context, 1)
}

fn claimed(name: &str) -> String {
    format!("name: data, persistentVolumeClaim: {{ claimName: {name}-claim }}")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Folders, a tmpfs, binds.
pub(crate) struct Folders {
    pub(crate) disk: PathBuf,
}

impl Subject for Folders {
    fn pod(&self, _: u64) -> String {
        let host = format!("name: host, hostPath: {{ path: {} }}", self.disk.display());
        let volumes =
            ["name: scratch, emptyDir: {}", "name: fast, emptyDir: { medium: Memory }", &host, &claimed("disk")];
        pod("subject", UID, &volumes)
    }

    fn objects(&self, _: u64) -> Vec<(&'static str, String)> {
        vec![("disk.yaml", local_volume("disk", &self.disk.display().to_string(), "test-node"))]
    }

    fn fill(&self, site: &Site) {
        fs::write(site.node.volume(UID, EMPTY_DIR, "scratch").join("file"), "scratch").unwrap();
        fs::create_dir_all(site.node.volume(UID, EMPTY_DIR, "scratch").join("deep/er")).unwrap();
        fs::write(site.node.volume(UID, EMPTY_DIR, "fast").join("file"), "fast").unwrap();
        fs::write(site.node.volume(UID, LOCAL, "disk").join("file"), "kept").unwrap();
    }

    fn check_kept(&self, site: &Site) {
        assert_eq!(read(&site.node.volume(UID, LOCAL, "disk").join("file")), "kept");
    }
}

/// An OCI image that the node does not have yet, each time anew.
pub(crate) struct Pulled {
    pub(crate) layout: PathBuf,
}

impl Pulled {
    fn store(site: &Site) -> PathBuf {
        site.node.path(&site.node.root().join("images"))
    }
}

impl Subject for Pulled {
    fn pod(&self, _: u64) -> String {
        let reference = format!("oci:{}:1", self.layout.display());
        pod("subject", UID, &[&format!("name: files, image: {{ reference: \"{reference}\" }}")])
    }

    fn check(&self, site: &Site, _: u64) {
        let files = site.node.volume(UID, IMAGE, "files");
        assert_eq!(fs::read(files.join("file")).unwrap(), [b'x'; 100_000]);
        assert_eq!(read(&files.join("folder/other")), "other");
        let is_empty = || fs::read_dir(Self::store(site).join("new")).unwrap().next().is_none();
        assert!(eventually(is_empty), "what a killed pull has left is removed");
        assert_eq!(fs::read_dir(Self::store(site).join("layers")).unwrap().count(), 1);
    }

    fn reset(&self, site: &Site) {
        for folder in ["images", "references", "layers"] {
            for entry in fs::read_dir(Self::store(site).join(folder)).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
            }
        }
    }
}

/// What shows objects: a config map whose keys belong together, a secret, and both in one folder,
/// given to a group.
pub(crate) struct Payloads;

impl Payloads {
    fn pair(site: &Site) -> [String; 2] {
        let folder = site.node.volume(UID, CONFIG_MAP, "config");
        ["first", "second"].map(|key| read(&folder.join(key)))
    }
}

impl Subject for Payloads {
    fn pod(&self, _: u64) -> String {
        let volumes = [
            "name: config, configMap: { name: app }",
            "name: login, secret: { secretName: login }",
            "name: all, projected: { sources: [{ configMap: { name: app } }, { downwardAPI: { items: [{ path: name, fieldRef: { fieldPath: metadata.name } }] } }] }",
        ];
        with_group(&pod("subject", UID, &volumes), 4000)
    }

    fn objects(&self, round: u64) -> Vec<(&'static str, String)> {
        let object = |kind: &str, field: &str, name: &str, keys: &str| {
            format!("apiVersion: v1\nkind: {kind}\nmetadata: {{ name: {name} }}\n{field}: {{ {keys} }}\n")
        };
        vec![
            ("app.yaml", object("ConfigMap", "data", "app", &format!("first: \"{round}\", second: \"{round}\""))),
            ("login.yaml", object("Secret", "stringData", "login", &format!("pin: \"{round}\""))),
        ]
    }

    fn shows(&self, site: &Site, round: u64) -> bool {
        let round = round.to_string();
        let all = site.node.volume(UID, PROJECTED, "all");
        let pin = site.node.volume(UID, SECRET, "login").join("pin");
        Self::pair(site).iter().all(|value| *value == round)
            && read(&pin) == round
            && read(&all.join("second")) == round
    }

    fn check(&self, site: &Site, _: u64) {
        let name = site.node.volume(UID, PROJECTED, "all").join("name");
        assert_eq!((read(&name).as_str(), fs::metadata(&name).unwrap().gid()), ("subject", 4000));
    }

    fn check_always(&self, site: &Site) {
        let [first, second] = Self::pair(site);
        assert_eq!(first, second, "a reader sees the old or the new, never a mix");
    }
}

/// A file system in an image file.
pub(crate) struct Image {
    pub(crate) fs_type: &'static str,
    pub(crate) mib: u64,
    /// Each round begins without an image, so that it is made and formatted.
    pub(crate) fresh: bool,
    /// What it grows by with each round.
    pub(crate) step: u64,
    total: Cell<u64>,
}

impl Image {
    pub(crate) fn new(fs_type: &'static str, mib: u64) -> Self {
        Self { fs_type, mib, fresh: false, step: 0, total: Cell::new(0) }
    }

    pub(crate) fn fresh(self) -> Self {
        Self { fresh: true, ..self }
    }

    pub(crate) fn growing(self, step: u64) -> Self {
        Self { step, ..self }
    }

    fn file(site: &Site) -> PathBuf {
        site.node.volume(UID, LOOP, "image").join("file")
    }
}

impl Subject for Image {
    fn pod(&self, _: u64) -> String {
        with_group(&pod("subject", UID, &[&claimed("image")]), 4000)
    }

    fn objects(&self, round: u64) -> Vec<(&'static str, String)> {
        let size = format!("{}Mi", self.mib + self.step * round);
        vec![("image.yaml", loop_volume("image", "image.img", self.fs_type, &size, ""))]
    }

    fn fill(&self, site: &Site) {
        fs::write(Self::file(site), "kept").unwrap();
    }

    fn check(&self, site: &Site, _: u64) {
        assert_eq!(fs::metadata(site.node.volume(UID, LOOP, "image")).unwrap().gid(), 4000);
        fs::write(Self::file(site).with_file_name("probe"), "it can be written").unwrap();
    }

    fn shows(&self, site: &Site, round: u64) -> bool {
        let Ok(seen) = rustix::fs::statvfs(site.node.volume(UID, LOOP, "image")) else { return false };
        let mib = seen.f_blocks * seen.f_frsize / MIB;
        if self.total.get() == 0 {
            self.total.set(mib);
        }
        // A file system keeps some of what it grows by to itself.
        mib + 1 >= self.total.get() + self.step * round
    }

    fn check_kept(&self, site: &Site) {
        assert_eq!(read(&Self::file(site)), "kept");
    }

    fn reset(&self, site: &Site) {
        if self.fresh {
            // It was not made yet, if the daemon died early and the pod did not come back.
            let _ = fs::remove_file(site.image("image.img"));
        }
    }
}

/// An image file as a device.
pub(crate) struct Device;

impl Device {
    fn link(site: &Site) -> PathBuf {
        site.node.path(&site.node.root().join("pods").join(UID).join("volumeDevices").join(LOOP).join("raw"))
    }

    fn open(site: &Site) -> fs::File {
        let device = fs::read_link(Self::link(site)).unwrap();
        fs::File::options().read(true).write(true).open(device).unwrap()
    }
}

impl Subject for Device {
    fn pod(&self, _: u64) -> String {
        device_pod("subject", UID, "raw-claim")
    }

    fn objects(&self, _: u64) -> Vec<(&'static str, String)> {
        vec![("raw.yaml", loop_volume("raw", "raw.img", "ext4", "4Mi", "  volumeMode: Block"))]
    }

    fn fill(&self, site: &Site) {
        let device = Self::open(site);
        device.write_all_at(b"kept", 0).unwrap();
        device.sync_all().unwrap();
    }

    fn check_kept(&self, site: &Site) {
        let mut bytes = [0; 4];
        Self::open(site).read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"kept");
    }
}

/// An overlay over a file system in an image file.
pub(crate) struct Layers;

impl Subject for Layers {
    fn pod(&self, _: u64) -> String {
        let app = "name: app, csi: { driver: overlay.volhost.io, volumeAttributes: { baseVolume: base } }";
        let base = "name: base, persistentVolumeClaim: { claimName: base-claim }";
        pod("subject", UID, &[app, base])
    }

    fn objects(&self, _: u64) -> Vec<(&'static str, String)> {
        vec![("base.yaml", loop_volume("base", "base.img", "ext4", "16Mi", ""))]
    }

    fn fill(&self, site: &Site) {
        fs::write(site.node.volume(UID, LOOP, "base").join("below"), "kept").unwrap();
    }

    fn check(&self, site: &Site, _: u64) {
        fs::write(site.node.volume(UID, OVERLAY, "app").join("probe"), "it can be written").unwrap();
        assert!(!site.node.volume(UID, LOOP, "base").join("probe").exists(), "and what is below is not");
    }

    fn check_kept(&self, site: &Site) {
        assert_eq!(read(&site.node.volume(UID, LOOP, "base").join("below")), "kept");
    }
}

/// Another pod's volume.
pub(crate) struct Shared;

/// The PersistentVolume that the subject has beside the witness.
pub(crate) fn shared_volume() -> String {
    loop_volume("shared", "shared.img", "ext4", "16Mi", "")
}

impl Subject for Shared {
    fn pod(&self, _: u64) -> String {
        pod("subject", UID, &[&claimed("shared")])
    }

    fn check(&self, site: &Site, _: u64) {
        assert_eq!(read(&site.node.volume(UID, LOOP, "shared").join("witness")), "shared");
    }
}

/// Files that are given to another group each round.
pub(crate) struct Owned;

impl Owned {
    const FILES: [&str; 5] = ["", "one", "folder", "folder/two", "folder/three"];

    fn group(round: u64) -> u64 {
        4000 + round
    }
}

impl Subject for Owned {
    fn pod(&self, round: u64) -> String {
        with_group(&pod("subject", UID, &[&claimed("owned")]), Self::group(round))
    }

    fn objects(&self, _: u64) -> Vec<(&'static str, String)> {
        vec![("owned.yaml", loop_volume("owned", "owned.img", "ext4", "16Mi", ""))]
    }

    fn shows(&self, site: &Site, round: u64) -> bool {
        let root = site.node.volume(UID, LOOP, "owned");
        if round == 0 && !root.join("folder").exists() {
            fs::create_dir(root.join("folder")).unwrap();
            for file in ["one", "folder/two", "folder/three"] {
                fs::write(root.join(file), file).unwrap();
            }
        }
        let given =
            |file: &&str| fs::metadata(root.join(file)).is_ok_and(|seen| u64::from(seen.gid()) == Self::group(round));
        round == 0 || Self::FILES.iter().all(given)
    }
}

/// Parts of volumes for a container: folders of a plain one, and of a file system.
pub(crate) struct Parts;

impl Parts {
    const PARTS: [(&str, u32, &str); 3] = [("scratch", 0, "one"), ("scratch", 1, "deep/er"), ("image", 2, "two")];

    fn part(site: &Site, volume: &str, index: u32) -> PathBuf {
        let parts = site.node.root().join("pods").join(UID).join("volume-subpaths");
        site.node.path(&parts.join(volume).join("main").join(index.to_string()))
    }

    fn in_volume(site: &Site, volume: &str, path: &str) -> PathBuf {
        let plugin = if volume == "image" { LOOP } else { EMPTY_DIR };
        site.node.volume(UID, plugin, volume).join(path)
    }
}

impl Subject for Parts {
    fn pod(&self, _: u64) -> String {
        let mounts: Vec<String> = Self::PARTS
            .iter()
            .map(|(volume, index, path)| {
                format!("        - {{ name: {volume}, mountPath: /{index}, subPath: {path} }}\n")
            })
            .collect();
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{ name: subject, uid: {UID} }}\nspec:\n  containers:\n    - name: main\n      image: none\n      volumeMounts:\n{}  volumes:\n    - {{ name: scratch, emptyDir: {{}} }}\n    - {{ name: image, persistentVolumeClaim: {{ claimName: image-claim }} }}\n",
            mounts.concat()
        )
    }

    fn objects(&self, _: u64) -> Vec<(&'static str, String)> {
        vec![("image.yaml", loop_volume("image", "image.img", "ext4", "16Mi", ""))]
    }

    fn fill(&self, site: &Site) {
        for (volume, index, path) in Self::PARTS {
            fs::write(Self::part(site, volume, index).join("file"), path).unwrap();
        }
    }

    fn check(&self, site: &Site, round: u64) {
        for (volume, index, path) in Self::PARTS {
            let probe = format!("probe{round}");
            fs::write(Self::part(site, volume, index).join(&probe), &probe).unwrap();
            assert_eq!(
                read(&Self::in_volume(site, volume, path).join(&probe)),
                probe,
                "{volume}: a part is another folder"
            );
        }
    }

    fn check_kept(&self, site: &Site) {
        assert_eq!(read(&Self::part(site, "image", 2).join("file")), "two");
    }
}

/// One folder, so that most of what is done for it is done for the request.
pub(crate) struct Scratch;

impl Subject for Scratch {
    fn pod(&self, _: u64) -> String {
        pod("subject", UID, &["name: scratch, emptyDir: {}"])
    }

    fn check(&self, site: &Site, _: u64) {
        fs::write(site.node.volume(UID, EMPTY_DIR, "scratch").join("probe"), "it can be written").unwrap();
    }
}
