//! Compiled plugins that the nodes of all tests share, so that each plugin is compiled once for a
//! build of volhost and not once for every node.
//!
//! The first node with a plugin compiles it, as any node does. Its compiled plugins are copied
//! here, and from here into the caches of later nodes. They are trusted no more than a restarted
//! daemon trusts its cache: it checks their digests. Tests of the compilation itself ask for a
//! [cold](crate::NodeBuilder::cold) node.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::artifacts;

/// How the files of a cache end, in the order in which the cache writes them: the second says what
/// the first has to be, so code without it never counts.
const SUFFIXES: [&str; 2] = [".cwasm", ".json"];

/// Makes a cache with these plugins, as far as other nodes have compiled them.
///
/// # Panics
/// When the folder cannot be made.
pub fn seed(cache: &Path, plugins: &[PathBuf]) {
    DirBuilder::new().mode(0o700).create(cache).expect("the cache's folder is made");
    let digests: Vec<String> = plugins.iter().map(|plugin| digest(plugin)).collect();
    copy_new(&shared(), cache, |name| digests.iter().any(|digest| name.starts_with(digest.as_str())));
}

/// Copies the compiled plugins of this cache, so that later nodes need not compile them.
///
/// # Panics
/// When it cannot be copied.
pub fn keep(cache: &Path) {
    let shared = shared();
    if !shared.exists() {
        remove_other_builds(&shared);
        fs::create_dir_all(&shared).expect("the shared folder is made");
    }
    copy_new(cache, &shared, |_| true);
}

/// The folder for this very build of volhost.
fn shared() -> PathBuf {
    let program = fs::metadata(artifacts::volhostd()).expect("volhost is built");
    let build = format!("{}-{}-{}", program.len(), program.mtime(), program.mtime_nsec());
    let test = std::env::current_exe().expect("the test has a path");
    // target/PROFILE/deps/TEST, or target/PROFILE/BIN
    let mut folders = test.ancestors().skip(1).filter(|folder| !folder.ends_with("deps"));
    let target = folders.nth(1).expect("the test lies in cargo's target folder");
    target.join("tmp/compiled").join(build)
}

/// Removes what earlier builds have compiled.
fn remove_other_builds(shared: &Path) {
    let builds = shared.parent().and_then(|all| fs::read_dir(all).ok()).into_iter().flatten().flatten();
    for build in builds.filter(|build| build.path() != shared) {
        // Another test may remove them at the same time.
        let _ = fs::remove_dir_all(build.path());
    }
}

fn digest(plugin: &Path) -> String {
    let bytes = fs::read(plugin).expect("the plugin can be read");
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Copies the cache files whose names are wanted and not there yet, each at once and whole.
fn copy_new(from: &Path, to: &Path, wanted: impl Fn(&str) -> bool) {
    for suffix in SUFFIXES {
        for entry in fs::read_dir(from).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().expect("the cache's names are text");
            if name.ends_with(suffix) && wanted(&name) && !to.join(&name).exists() {
                // Tests of other threads and processes copy, too. The cache removes what ends in
                // `.part`.
                let copy = tempfile::Builder::new().suffix(".part").tempfile_in(to).expect("a copy is begun");
                fs::copy(entry.path(), copy.path()).expect("the file is copied");
                copy.persist(to.join(name)).expect("the copy is put in place");
            }
        }
    }
}
