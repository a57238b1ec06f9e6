//! Loads plugin files side by side, on threads that may block.
//!
//! ```text
//!  file --> hash --> read, find its code in the cache, describe --> loaded, or refused
//!                              |
//!                              '-- no code yet --> Compiling --> compiler child, describe --> loaded, or refused
//! ```
//!
//! Each of the three steps has a queue of its own, so that plugins whose code is cached do not wait
//! for the compiler. In each, plugins that come with volhost or that a grant names by content come
//! before others, and have a slot that others never get.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::mpsc;
use volhost_runtime::{CompileError, LoadError, LoadProblem, Plugin, compilers};

use super::registry::PluginRegistry;
use super::slots::{Rank, Slots};

/// The outcome of a file.
pub(super) type Loaded = (PathBuf, Result<Arc<Plugin>, LoadError>);

/// The files that are being loaded.
#[derive(Debug)]
pub(super) struct Loader {
    steps: LoadSteps,
    reports: mpsc::UnboundedSender<LoaderReport>,
    reported: mpsc::UnboundedReceiver<LoaderReport>,
    loading: BTreeMap<PathBuf, Loading>,
}

/// The steps from a file to a plugin, and their slots.
#[derive(Debug, Clone)]
struct LoadSteps {
    registry: Arc<PluginRegistry>,
    /// One slot for each processor.
    hash: Arc<Slots>,
    /// Likewise.
    read: Arc<Slots>,
    /// One for each compiler child that may run.
    compile: Arc<Slots>,
}

/// The progress of a file.
#[derive(Debug, Default)]
struct Loading {
    is_compiling: bool,
    /// The file has changed since it was read.
    again: bool,
}

#[derive(Debug)]
enum LoaderReport {
    Compiling(PathBuf),
    Loaded(Box<Loaded>),
}

/// What has happened since it was asked last.
#[derive(Debug, Default)]
pub(super) struct LoaderProgress {
    /// Files whose plugins have to be compiled.
    pub(super) compiling: Vec<PathBuf>,
    /// The outcomes of files, by their names.
    pub(super) loaded: Vec<Loaded>,
}

impl Loader {
    pub(super) fn new(registry: Arc<PluginRegistry>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let (reports, reported) = mpsc::unbounded_channel();
        let (hash, read) = (Slots::new(processors), Slots::new(processors));
        let steps = LoadSteps { registry, hash, read, compile: Slots::new(compilers()) };
        Self { steps, reports, reported, loading: BTreeMap::new() }
    }

    /// Begins to load a file. One that is being loaded is loaded again afterwards.
    pub(super) fn start(&mut self, file: PathBuf) {
        if let Some(loading) = self.loading.get_mut(&file) {
            loading.again = true;
            return;
        }
        self.loading.insert(file.clone(), Loading::default());
        let (steps, reports) = (self.steps.clone(), self.reports.clone());
        tokio::spawn(async move {
            let loaded = steps.load(&file, &reports).await;
            // The receiver goes only when the host stops.
            let _ = reports.send(LoaderReport::Loaded(Box::new((file, loaded))));
        });
    }

    /// Loads every file that is being loaded once more: its plugin may have been given rights that
    /// it does not have any more.
    pub(super) fn start_again(&mut self) {
        self.loading.values_mut().for_each(|loading| loading.again = true);
    }

    /// Whether no file is being loaded.
    pub(super) fn is_idle(&self) -> bool {
        self.loading.is_empty()
    }

    /// Whether no file is being loaded but those that are being compiled.
    pub(super) fn only_compiles(&self) -> bool {
        self.loading.values().all(|loading| loading.is_compiling)
    }

    /// Waits until there is something to report. Cancel-safe.
    pub(super) async fn next(&mut self) -> LoaderProgress {
        let mut progress = LoaderProgress::default();
        // The loader has a sender itself, so the channel never closes.
        let Some(first) = self.reported.recv().await else { return progress };
        self.take(first, &mut progress);
        while let Ok(report) = self.reported.try_recv() {
            self.take(report, &mut progress);
        }
        progress.loaded.sort_by(|(one, _), (other, _)| one.cmp(other));
        progress
    }

    fn take(&mut self, report: LoaderReport, progress: &mut LoaderProgress) {
        match report {
            LoaderReport::Compiling(file) => {
                if let Some(loading) = self.loading.get_mut(&file) {
                    loading.is_compiling = true;
                }
                progress.compiling.push(file);
            }
            LoaderReport::Loaded(loaded) => match self.loading.remove(&loaded.0) {
                Some(Loading { again: true, .. }) => self.start(loaded.0),
                _ => progress.loaded.push(*loaded),
            },
        }
    }
}

impl LoadSteps {
    async fn load(self, file: &Path, reports: &mpsc::UnboundedSender<LoaderReport>) -> Result<Arc<Plugin>, LoadError> {
        let rank = self.rank(file).await;
        let slot = self.read.take(rank).await;
        let (registry, path) = (Arc::clone(&self.registry), file.to_owned());
        let read = tokio::task::spawn_blocking(move || registry.read_compiled(&path)).await;
        drop(slot);
        if let Some(plugin) = read.unwrap_or_else(|_| Err(fault(file)))? {
            return Ok(plugin);
        }
        let _ = reports.send(LoaderReport::Compiling(file.to_owned()));
        let _slot = self.compile.take(rank).await;
        let (registry, path) = (self.registry, file.to_owned());
        tokio::task::spawn_blocking(move || registry.compile(&path)).await.unwrap_or_else(|_| Err(fault(file)))
    }

    /// When the file's turn is. It may change until it is loaded: what it may do is decided by what
    /// is loaded, and its turn by what was there before.
    async fn rank(&self, file: &Path) -> Rank {
        // A file that cannot be read is refused later.
        let bytes = tokio::fs::metadata(file).await.map_or(0, |found| found.len());
        let foreign = Rank { is_foreign: true, bytes };
        let _slot = self.hash.take(foreign).await;
        let (registry, path) = (Arc::clone(&self.registry), file.to_owned());
        let is_vouched = tokio::task::spawn_blocking(move || registry.vouches_for(&path)).await;
        Rank { is_foreign: !is_vouched.unwrap_or(false), ..foreign }
    }
}

/// A thread of the host's ended early.
fn fault(file: &Path) -> LoadError {
    let (how, said) = ("a thread ended early".to_owned(), "this is a fault of volhost; please report it".to_owned());
    let problem = Box::new(LoadProblem::Compile(CompileError::Died { how, said }));
    LoadError { file: file.to_owned(), problem }
}
