//! What else the machine does: the same bare mounts again and again throughout the run.

use std::path::Path;
use std::time::Duration;

use crate::latency::own_mount;
use crate::raw;
use crate::report::Times;

/// Mounts of one sample: some milliseconds.
const MOUNTS: usize = 200;
/// Samples at each moment.
const SAMPLES: usize = 10;

/// The middle time of the same work at each moment.
#[derive(Debug, Default)]
pub(crate) struct Noise(Vec<Duration>);

impl Noise {
    /// Takes the samples of this moment.
    pub(crate) fn sample(&mut self, scratch: &Path) {
        let folder = tempfile::tempdir_in(scratch).expect("a folder");
        let (root, source) = (folder.path().join("root"), folder.path().join("source"));
        for made in [&root, &source] {
            std::fs::create_dir(made).expect("a folder");
        }
        let mut took = Vec::new();
        for _ in 0..SAMPLES {
            own_mount(&root);
            took.push(raw::binds(&root, &source, MOUNTS));
            raw::unmount_all(&root);
            std::fs::remove_dir_all(&root).expect("the folder is removed");
            std::fs::create_dir(&root).expect("a folder");
        }
        self.0.push(Times::new(took).median());
    }

    /// By what share the work took longer at most moments than at the best one.
    pub(crate) fn share(&self) -> f64 {
        let best = self.0.iter().min().expect("there are samples").as_secs_f64();
        Times::new(self.0.clone()).median().as_secs_f64() / best - 1.0
    }
}
