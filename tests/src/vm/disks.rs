//! The disks of a guest: the program under test, and one for the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::precompiled;
use crate::artifacts;

/// The size of the test's disk: a sparse file.
const DISK_BYTES: u64 = 4 << 30;
/// Room that the file system of the payload needs beside its files, in bytes.
const METADATA_BYTES: u64 = 64 << 20;
/// The plugins that a guest has.
const PLUGINS: [&str; 9] = ["cifs", "csi", "empty-dir", "fc", "host-path", "iscsi", "local", "loop", "nfs"];
/// Those that only tests load.
const FIXTURES: [&str; 1] = ["fixture-share-mutants"];

/// Writes `payload.img` and `disk.img` in this folder. The second has the folder `compiled`: the
/// compiled plugins.
pub(super) fn make(folder: &Path) {
    let payload = folder.join("payload");
    fs::create_dir_all(payload.join("plugins")).expect("a folder");
    for program in [artifacts::volhost(), artifacts::volhostd()] {
        let to = payload.join(program.file_name().expect("a program has a name"));
        // Without debug information: the guest reads the disk slowly.
        let strip = Command::new("strip").arg("-o").arg(&to).arg(&program).status().expect("strip (binutils) runs");
        assert!(strip.success(), "strip {}", program.display());
    }
    let list = artifacts::shipped_list();
    fs::copy(&list, payload.join(list.file_name().expect("a name"))).expect("the list of plugins is copied");
    let plugins: Vec<PathBuf> =
        PLUGINS.iter().map(|name| artifacts::plugin(name)).chain(FIXTURES.map(artifacts::fixture)).collect();
    for plugin in &plugins {
        let name = plugin.file_name().expect("a name");
        fs::copy(plugin, payload.join("plugins").join(name)).expect("a plugin");
    }
    let bytes = size_of(&payload) + METADATA_BYTES;
    file_system(&folder.join("payload.img"), bytes, &["-d", &payload.display().to_string()]);
    fs::remove_dir_all(&payload).expect("the folder is removed");
    let disk = folder.join("disk");
    precompiled::write(&disk.join("compiled"), &plugins);
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
