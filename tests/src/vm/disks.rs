//! The disks of a guest: the program under test, and one for the test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

use super::precompiled;
use crate::artifacts;

/// Both disks.
const IMAGES: [&str; 2] = ["payload.img", "disk.img"];
/// The size of the test's disk: a sparse file.
const DISK_BYTES: u64 = 4 << 30;
/// Room that the file system of the payload needs beside its files, in bytes.
const METADATA_BYTES: u64 = 64 << 20;
/// The plugins that a guest has.
const PLUGINS: [&str; 9] = ["cifs", "csi", "empty-dir", "fc", "host-path", "iscsi", "local", "loop", "nfs"];
/// Those that only tests load.
const FIXTURES: [&str; 1] = ["fixture-share-mutants"];

/// Puts `payload.img` and `disk.img` into this folder. The second has the folder `compiled`: the
/// compiled plugins. Both are made once for the same programs and plugins, and kept beside these.
pub(super) fn make(folder: &Path) {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let plugins = PLUGINS.iter().map(|name| artifacts::plugin(name)).chain(FIXTURES.map(artifacts::fixture));
        keep([artifacts::volhost(), artifacts::volhostd()], &artifacts::shipped_list(), &plugins.collect::<Vec<_>>())
    });
    let [payload, disk] = IMAGES;
    // The guest cannot write to the first.
    symlink(made.join(payload), folder.join(payload)).expect("a link");
    let mut copy = Command::new("cp");
    copy.args(["--reflink=auto", "--sparse=always"]).arg(made.join(disk)).arg(folder);
    assert!(copy.status().expect("cp runs").success(), "copying from {}", made.display());
}

/// Returns the folder with the images of these programs and plugins, which are made if there are
/// none. Those of others are removed.
fn keep(programs: [PathBuf; 2], list: &Path, plugins: &[PathBuf]) -> PathBuf {
    let mut sum = Sha256::new();
    for file in programs.iter().chain([&list.to_path_buf()]).chain(plugins) {
        let about = fs::metadata(file).expect("a file");
        sum.update(format!("{} {} {:?}\n", file.display(), about.len(), about.modified().expect("a time")));
    }
    let name: String = sum.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let all = list.parent().expect("a folder").join("vm-disks");
    let folder = all.join(name);
    if IMAGES.iter().all(|image| folder.join(image).exists()) {
        return folder;
    }
    // Two programs that begin at once make it twice, and the second keeps its own.
    let _ = fs::remove_dir_all(&all);
    fs::create_dir_all(&all).expect("a folder");
    let new = tempfile::tempdir_in(&all).expect("a folder");
    write(new.path(), &programs, list, plugins);
    let new = new.keep();
    match fs::rename(&new, &folder) {
        Ok(()) => folder,
        Err(_) => new,
    }
}

/// Writes both images.
fn write(folder: &Path, programs: &[PathBuf], list: &Path, plugins: &[PathBuf]) {
    let payload = folder.join("payload");
    fs::create_dir_all(payload.join("plugins")).expect("a folder");
    for program in programs {
        let to = payload.join(program.file_name().expect("a program has a name"));
        // Without debug information: the guest reads the disk slowly.
        let strip = Command::new("strip").arg("-o").arg(&to).arg(program).status().expect("strip (binutils) runs");
        assert!(strip.success(), "strip {}", program.display());
    }
    fs::copy(list, payload.join(list.file_name().expect("a name"))).expect("the list of plugins is copied");
    for plugin in plugins {
        let name = plugin.file_name().expect("a name");
        fs::copy(plugin, payload.join("plugins").join(name)).expect("a plugin");
    }
    let bytes = size_of(&payload) + METADATA_BYTES;
    file_system(&folder.join("payload.img"), bytes, &["-d", &payload.display().to_string()]);
    fs::remove_dir_all(&payload).expect("the folder is removed");
    let disk = folder.join("disk");
    precompiled::write(&disk.join("compiled"), plugins);
    file_system(&folder.join("disk.img"), DISK_BYTES, &["-d", &disk.display().to_string()]);
    fs::remove_dir_all(&disk).expect("the folder is removed");
}

fn file_system(image: &Path, bytes: u64, options: &[&str]) {
    fs::File::create(image).expect("an image").set_len(bytes).expect("its size");
    let made = Command::new("mke2fs").args(["-q", "-F", "-t", "ext4"]).args(options).arg(image).status();
    assert!(made.expect("mke2fs runs").success(), "mke2fs {}", image.display());
}

/// The bytes of the files in a folder, and in those below.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => size_of(&entry.path()),
            about => about.map_or(0, |about| about.len()),
        })
        .sum()
}
