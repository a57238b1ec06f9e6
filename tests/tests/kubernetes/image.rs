//! The container image of the programs under test, as `make image` makes it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use volhost_tests::artifacts::{self, workspace};

/// The archive of the image. The first test that asks for it makes it.
pub(crate) fn image() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(make).clone()
}

fn make() -> PathBuf {
    let out = artifacts::volhost().parent().unwrap().with_file_name("image");
    let [fast, from, to] = ["--fast", "--from", "--out"].map(Path::new);
    run(&script("image.sh"), &[fast, from, &programs(), to, &out]).trim().into()
}

/// The folder of the programs of images. `make test` has built them before, which takes minutes.
fn programs() -> PathBuf {
    workspace().join(run(&script("static.sh"), &[Path::new("dev")]).trim())
}

fn script(name: &str) -> String {
    workspace().join("deploy").join(name).to_str().unwrap().to_owned()
}

/// Runs a command in the checkout, which must succeed. Returns what it printed.
fn run(program: &str, arguments: &[&Path]) -> String {
    let output = Command::new(program).args(arguments).current_dir(workspace()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The files of the image: those of its one layer, which is larger than what describes it.
fn unpack(folder: &Path) {
    let archive = folder.join("archive");
    fs::create_dir(&archive).unwrap();
    run("tar", &[Path::new("-C"), &archive, Path::new("-xf"), &image()]);
    let blobs = fs::read_dir(archive.join("blobs/sha256")).unwrap().map(|blob| blob.unwrap().path());
    let layer = blobs.max_by_key(|blob| fs::metadata(blob).unwrap().len()).unwrap();
    run("tar", &[Path::new("-C"), folder, Path::new("-xzf"), &layer]);
    fs::remove_dir_all(archive).unwrap();
}

#[test]
fn the_image_has_what_volhost_runs_with_its_libraries_and_no_other_program() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    unpack(root);
    let own = ["volhost", "volhostd", "volhost-controller"];
    let tools: Vec<&str> = volhost_process::linux_kernel().tools().into_iter().map(|tool| tool.name).collect();
    let mut found = BTreeSet::new();
    for place in ["usr/local/bin", "usr/local/sbin", "usr/bin", "usr/sbin", "bin", "sbin"] {
        let entries = fs::read_dir(root.join(place)).into_iter().flatten();
        found.extend(entries.map(|entry| entry.unwrap().file_name()));
    }
    // mkfs.ext4 and its like are links to mke2fs.
    let expected = own.iter().chain(&tools).chain(&["mke2fs"]);
    assert_eq!(found, expected.map(OsString::from).collect::<BTreeSet<OsString>>());

    // Where rustc cannot link with musl, they need the image's libraries.
    let is_static = programs().to_str().unwrap().contains("-linux-musl");
    for program in own {
        let version = run("chroot", &[root, &Path::new("/usr/local/bin").join(program), Path::new("--version")]);
        assert!(version.contains(env!("CARGO_PKG_VERSION")), "{program}: {version}");
        let needs = run("readelf", &[Path::new("-dlW"), &root.join("usr/local/bin").join(program)]);
        assert!(!is_static || !needs.contains("(NEEDED)") && !needs.contains("interpreter:"), "{program}: {needs}");
    }
    let loader = run("readelf", &[Path::new("-lW"), &root.join("sbin/mke2fs")]);
    let loader = loader.split("interpreter: ").nth(1).unwrap().split(']').next().unwrap();
    for tool in tools {
        let path = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(|place| Path::new(place).join(tool));
        let path = path.iter().find(|path| root.join(path.strip_prefix("/").unwrap()).exists()).unwrap();
        let libraries = run("chroot", &[root, Path::new(loader), Path::new("--list"), path]);
        assert!(libraries.contains("libc.so") && !libraries.contains("not found"), "{tool}: {libraries}");
    }

    let certificates = fs::read_to_string(root.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    assert!(certificates.matches("BEGIN CERTIFICATE").count() > 50);
    for package in ["volhost", "libc6", "e2fsprogs", "xfsprogs", "btrfs-progs", "util-linux", "ca-certificates"] {
        assert!(root.join("usr/share/doc").join(package).join("copyright").is_file(), "{package}");
    }
    let notices = tempfile::tempdir().unwrap();
    run(&script("notices.sh"), &[notices.path()]);
    for file in ["third-party-notices.txt", "rust-standard-library.html"] {
        let of_image = fs::read_to_string(root.join("usr/share/doc/volhost").join(file)).unwrap();
        assert!(of_image == fs::read_to_string(notices.path().join(file)).unwrap(), "{file}");
    }
}
