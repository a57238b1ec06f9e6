//! What else the machine does: the same bare mounts again and again throughout the run.

use std::path::Path;
use std::time::Duration;

use crate::latency::own_mount;
use crate::raw;
use crate::report::Times;

/// Mounts of one sample: some milliseconds.
const MOUNTS: usize = 200;
/// Samples at each time.
const SAMPLES: usize = 10;

/// The times of the same work.
#[derive(Debug, Default)]
pub(crate) struct Noise(Vec<Duration>);

impl Noise {
    /// Takes some samples more.
    pub(crate) fn sample(&mut self, scratch: &Path) {
        let folder = tempfile::tempdir_in(scratch).expect("a folder");
        let (root, source) = (folder.path().join("root"), folder.path().join("source"));
        for made in [&root, &source] {
            std::fs::create_dir(made).expect("a folder");
        }
        for _ in 0..SAMPLES {
            own_mount(&root);
            self.0.push(raw::binds(&root, &source, MOUNTS));
            raw::unmount_all(&root);
            std::fs::remove_dir_all(&root).expect("the folder is removed");
            std::fs::create_dir(&root).expect("a folder");
        }
    }

    /// By what share the middle one of the times is longer than the shortest.
    pub(crate) fn share(&self) -> f64 {
        let shortest = self.0.iter().min().expect("there are samples").as_secs_f64();
        Times::new(self.0.clone()).median().as_secs_f64() / shortest - 1.0
    }
}
