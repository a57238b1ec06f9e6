//! A daemon for one plugin, with everything it needs in a temporary folder.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use tempfile::TempDir;
use volhost_api::pb::Kind;
use volhost_kernel::{Detach, Kernel};
use volhost_model::duration::HumanDuration;
use volhost_process::linux_kernel;

use crate::apply::{self, ApplyArguments};
use crate::arguments::DrainArguments;
use crate::client::Client;
use crate::drain;
use crate::error::CliError;
use crate::list::{self, Query, View};
use crate::output::Output;
use crate::serve::daemon_program;

/// The configuration of a crate.
const CONFIG: &str = "volhost.toml";
/// The placeholder for the folder that is created and removed.
const SCRATCH: &str = "SCRATCH";
/// The folder of plugins, which the daemon watches.
const PLUGINS: &str = "plugins";
/// How long unmounting the volumes may take.
const DRAIN_TIME: Duration = Duration::from_secs(60);
/// The event's reason when every plugin is loaded or refused.
const PLUGINS_LOADED: &str = "PluginsLoaded";
/// How much of the daemon's log is shown when it does not start, in lines.
const LOG_LINES: usize = 20;

/// The daemon and its folder: `plugins/`, `root/`, `cache/`, `files/` for the volumes' own storage,
/// configuration, socket and log.
pub(super) struct ScratchDaemon {
    folder: TempDir,
    process: Child,
}

impl ScratchDaemon {
    /// Starts a daemon in the mount namespace of the caller, with this plugin, and waits until it
    /// serves. Without `config` it gets the file `volhost.toml` of the current folder, if there is
    /// one.
    ///
    /// # Errors
    /// The folder cannot be made, or the daemon does not start; nothing is left then.
    pub(super) fn start(plugin: Option<&Path>, config: Option<&Path>) -> Result<Self, CliError> {
        let base = std::env::temp_dir();
        let made = tempfile::Builder::new().prefix("volhost-plugin-run-").tempdir_in(&base);
        let folder = made.map_err(|source| CliError::File { path: base, source })?;
        for name in [PLUGINS, "root", "files"] {
            let path = folder.path().join(name);
            fs::create_dir(&path).map_err(|source| CliError::File { path, source })?;
        }
        if let Some(plugin) = plugin {
            let into = folder.path().join(PLUGINS).join("plugin.wasm");
            fs::copy(plugin, into).map_err(|source| CliError::File { path: plugin.to_owned(), source })?;
        }
        let given = config.map(Path::to_owned).or_else(|| Some(PathBuf::from(CONFIG)).filter(|file| file.exists()));
        let text = match given {
            Some(path) => fs::read_to_string(&path).map_err(|source| CliError::File { path, source })?,
            None => String::new(),
        };
        let into = folder.path().join(CONFIG);
        let text = with_files(folder.path(), &text);
        fs::write(&into, text).map_err(|source| CliError::File { path: into, source })?;
        let process = start(folder.path())?;
        Ok(Self { folder, process })
    }

    /// A path in the daemon's folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder of plugins, which the daemon watches.
    pub(super) fn plugins(&self) -> PathBuf {
        self.path(PLUGINS)
    }

    /// The folder of compiled plugins.
    pub(super) fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    /// The daemon's socket.
    pub(super) fn socket(&self) -> PathBuf {
        socket(self.folder.path())
    }

    /// The file with the objects; a copy where it names the folder that is made for it.
    pub(super) fn objects(&self, given: &Path) -> Result<PathBuf, CliError> {
        // `apply` reports a file that cannot be read.
        let text = fs::read_to_string(given).unwrap_or_default();
        if !text.contains(SCRATCH) {
            return Ok(given.to_owned());
        }
        let copy = self.path("volume.yaml");
        let written = fs::write(&copy, with_files(self.folder.path(), &text));
        written.map_err(|source| CliError::File { path: copy.clone(), source })?;
        Ok(copy)
    }

    /// Waits until the daemon has compiled the plugin or refused it: the time for the volumes
    /// begins then.
    pub(super) async fn loaded(&self) -> Result<(), CliError> {
        let socket = self.socket();
        let mut client = Client::connect(&socket).await?;
        let (mut views, mut watch) = list::begin(&mut client, &socket, Query::events(String::new())).await?;
        let says_so = |view: &View| matches!(view, View::Event(event) if event.reason == PLUGINS_LOADED);
        while !views.iter().any(says_so) {
            let Some((_, view)) = watch.next(&client).await? else { break };
            views.extend(view);
        }
        Ok(())
    }

    /// Applies the objects of a file, waits for the volumes, and returns the path of the first.
    ///
    /// # Errors
    /// The daemon's refusal, or why a volume is not mounted within `timeout`.
    pub(super) async fn mount(
        &self,
        objects: &Path,
        timeout: Duration,
        output: &mut Output,
    ) -> Result<PathBuf, CliError> {
        let socket = self.socket();
        apply::run(&ApplyArguments::and_wait(self.objects(objects)?, timeout), &socket, output).await?;
        let mut client = Client::connect(&socket).await?;
        let mut views = list::all(&mut client, &socket, Query::new(Kind::Volumes, None, None)).await?;
        let place = views.iter_mut().flat_map(View::volumes).map(|volume| self.path("root").join(&volume.path)).next();
        place.ok_or_else(|| {
            CliError::Failed(format!("{}: no container of a pod in it mounts a volume", objects.display()))
        })
    }

    /// Unmounts every volume.
    pub(super) async fn drain(&self, output: &mut Output) -> Result<(), CliError> {
        drain::run(&DrainArguments { timeout: HumanDuration(DRAIN_TIME), dry_run: false }, &self.socket(), output).await
    }

    /// Ends the daemon and removes its folder, if it was `drained`.
    ///
    /// # Errors
    /// Something is left; the error names the folder.
    pub(super) fn end(mut self, drained: Result<(), CliError>) -> Result<(), CliError> {
        let stopped = stop(&mut self.process);
        match drained.and(stopped) {
            Ok(()) => self.remove(),
            // What may still be mounted there must not be removed with the folder.
            Err(error) => Err(self.left(&error)),
        }
    }

    fn remove(self) -> Result<(), CliError> {
        // The daemon leaves the mount that has its records, since they name the pod that was
        // applied.
        let (kernel, root) = (linux_kernel(), self.path("root"));
        if let Ok(folder) = kernel.open_directory(&root) {
            // A failure here shows when the folder is removed.
            let _ = kernel.detach(&folder, OsStr::new(volhost_volume_ops::layout::STATE), Detach::Lazy);
            drop(folder);
            let _ = kernel.release_root(&root);
        }
        let path = self.folder.path().to_owned();
        self.folder.close().map_err(|source| CliError::File { path, source })
    }

    /// Keeps the folder, and reports it.
    fn left(self, error: &CliError) -> CliError {
        let end = end_of_log(self.folder.path());
        let folder = self.folder.keep();
        CliError::Failed(format!(
            "{error}\nnot everything could be unmounted; the mounts end with this program, and {} stays. The daemon's log ends with\n{end}",
            folder.display()
        ))
    }
}

/// The text with the folder for the volumes' own storage in place of its placeholder.
fn with_files(folder: &Path, text: &str) -> String {
    text.replace(SCRATCH, &folder.join("files").display().to_string())
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("volhost.sock")
}

/// Starts the daemon, and waits until it serves.
fn start(folder: &Path) -> Result<Child, CliError> {
    let log = folder.join("volhost.log");
    let failed = |source| CliError::File { path: log.clone(), source };
    let out = File::create(&log).map_err(failed)?;
    let errors = out.try_clone().map_err(failed)?;
    let program = daemon_program()?;
    // Its input is the one descriptor that a program can be given without unsafe code; the
    // daemon writes to it when it serves, and it ends with the daemon.
    let (ready, input) = io::pipe().map_err(CliError::Runtime)?;
    let mut command = Command::new(&program);
    command.arg("run").arg("--config").arg(folder.join(CONFIG)).arg("--root-dir").arg(folder.join("root"));
    command.arg("--cache-dir").arg(folder.join("cache")).arg("--plugin-dir").arg(folder.join(PLUGINS));
    command.args(["--node-name", "try", "--ready-file", "/proc/self/fd/0"]).arg("--socket").arg(socket(folder));
    // In a group of its own: Ctrl-C is for the command in the volume.
    command.stdin(input).stdout(out).stderr(errors).process_group(0);
    let mut daemon = command.spawn().map_err(|source| CliError::File { path: program, source })?;
    drop(command);
    if serves(ready) {
        return Ok(daemon);
    }
    // It has ended, or is about to: it closed the pipe without writing.
    let _ = daemon.wait();
    Err(CliError::Failed(format!("the daemon did not start; its log ends with\n{}", end_of_log(folder))))
}

fn end_of_log(folder: &Path) -> String {
    let log = fs::read_to_string(folder.join("volhost.log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n")
}

/// Whether the daemon has reported that it serves.
fn serves(mut ready: PipeReader) -> bool {
    // Not to the end: the daemon keeps its input open.
    let mut byte = [0];
    ready.read_exact(&mut byte).is_ok()
}

/// Ends the daemon.
fn stop(daemon: &mut Child) -> Result<(), CliError> {
    let pid = i32::try_from(daemon.id()).map(nix::unistd::Pid::from_raw);
    if let Ok(pid) = pid {
        // It is our own child and not waited for yet, so the number is still its own.
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
    }
    daemon.wait().map(drop).map_err(CliError::Runtime)
}
