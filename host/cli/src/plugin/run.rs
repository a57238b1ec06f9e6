//! `volhost plugin run`: a daemon with this plugin alone, in a mount namespace and a folder of its
//! own, and a shell in a volume.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};
use volhost_api::pb::Kind;
use volhost_kernel::namespace::unshare_mounts;
use volhost_kernel::{Detach, Kernel};
use volhost_model::duration::HumanDuration;
use volhost_plugin_build::Request;
use volhost_plugin_build::toolchain::Search;
use volhost_process::linux_kernel;

use super::build::build;
use crate::apply::ApplyArguments;
use crate::arguments::{DrainArguments, TryArguments};
use crate::client::Client;
use crate::error::CliError;
use crate::list::{self, Query, View};
use crate::output::Output;
use crate::serve::daemon_program;
use crate::{apply, drain};
use volhost_model::text::error_chain;

/// The configuration of a crate.
const CONFIG: &str = "volhost.toml";
/// The placeholder for the folder that is created and removed.
const SCRATCH: &str = "SCRATCH";
/// How long unmounting the volumes may take.
const DRAIN_TIME: Duration = Duration::from_secs(60);
/// The event's reason when every plugin is loaded or refused.
const PLUGINS_LOADED: &str = "PluginsLoaded";
/// How much of the daemon's log is shown when it does not start, in lines.
const LOG_LINES: usize = 20;

/// Mounts, runs the shell, and unmounts and removes everything. The whole process enters a mount
/// namespace of its own, so no thread may exist yet.
pub(super) fn run(arguments: &TryArguments, output: &mut Output) -> Result<(), CliError> {
    let wasm = match &arguments.file {
        Some(file) => file.clone(),
        None => built()?,
    };
    unshare_mounts().map_err(|error| CliError::Failed(error_chain(&error)))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let scratch = Scratch::make(&wasm, arguments)?;
    let mut daemon = scratch.daemon()?;
    let mounted = runtime.block_on(async {
        // From here on Ctrl-C ends the wait or the command, and everything is still cleaned up.
        let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::Runtime)?;
        tokio::select! {
            mounted = scratch.mount(arguments, output) => mounted,
            _ = interrupt.recv() => Err(CliError::Failed("interrupted".to_owned())),
        }
    });
    let tried = mounted.and_then(|place| {
        output.line(&format!("The volume is mounted at {}; leave the shell to unmount it.", place.display()))?;
        output.flush()?;
        shell(arguments, &place, &scratch.socket())
    });
    let drained = runtime.block_on(scratch.drain(output));
    let stopped = stop(&mut daemon);
    match drained.and(stopped) {
        Ok(()) => scratch.remove()?,
        // What may still be mounted there must not be removed with the folder.
        Err(error) => return tried.and(Err(scratch.left(&error))),
    }
    tried
}

/// The crate in the current folder, as a component.
fn built() -> Result<PathBuf, CliError> {
    let request = Request { crates: Vec::new(), manifest: None, out: None, search: Search::default() };
    let plugin = build(&request)?.into_iter().next();
    plugin.map(|plugin| plugin.path).ok_or_else(|| CliError::Failed("nothing was built".to_owned()))
}

/// Everything of the daemon: `plugins/`, `root/`, `cache/`, `files/` for the volumes' own storage,
/// configuration, socket and log.
struct Scratch(TempDir);

impl Scratch {
    fn make(wasm: &Path, arguments: &TryArguments) -> Result<Self, CliError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| CliError::File { path, source }
        };
        let base = std::env::temp_dir();
        let scratch =
            tempfile::Builder::new().prefix("volhost-plugin-run-").tempdir_in(&base).map_err(failed(&base))?;
        let scratch = Self(scratch);
        for folder in ["plugins", "root", "files"] {
            let folder = scratch.path(folder);
            fs::create_dir(&folder).map_err(failed(&folder))?;
        }
        fs::copy(wasm, scratch.path("plugins/plugin.wasm")).map_err(failed(wasm))?;
        let given = arguments.config.clone().or_else(|| Some(PathBuf::from(CONFIG)).filter(|file| file.exists()));
        let config = match given {
            Some(file) => fs::read_to_string(&file).map_err(failed(&file))?,
            None => String::new(),
        };
        let files = scratch.path("files").display().to_string();
        let into = scratch.path(CONFIG);
        fs::write(&into, config.replace(SCRATCH, &files)).map_err(failed(&into))?;
        Ok(scratch)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.path("volhost.sock")
    }

    /// Starts the daemon, and waits until it serves.
    fn daemon(&self) -> Result<Child, CliError> {
        let log = self.path("volhost.log");
        let failed = |source| CliError::File { path: log.clone(), source };
        let out = File::create(&log).map_err(failed)?;
        let errors = out.try_clone().map_err(failed)?;
        let program = daemon_program()?;
        // Its input is the one descriptor that a program can be given without unsafe code; the
        // daemon writes to it when it serves, and it ends with the daemon.
        let (ready, input) = io::pipe().map_err(CliError::Runtime)?;
        let mut command = Command::new(&program);
        command.arg("run").arg("--config").arg(self.path(CONFIG)).arg("--root-dir").arg(self.path("root"));
        command.arg("--cache-dir").arg(self.path("cache")).arg("--plugin-dir").arg(self.path("plugins"));
        command.args(["--node-name", "try", "--ready-file", "/proc/self/fd/0"]).arg("--socket").arg(self.socket());
        // In a group of its own: Ctrl-C is for the command in the volume.
        command.stdin(input).stdout(out).stderr(errors).process_group(0);
        let mut daemon = command.spawn().map_err(|source| CliError::File { path: program, source })?;
        drop(command);
        if serves(ready) {
            return Ok(daemon);
        }
        // It has ended, or is about to: it closed the pipe without writing.
        let _ = daemon.wait();
        Err(CliError::Failed(format!("the daemon did not start; its log ends with\n{}", self.end_of_log())))
    }

    fn end_of_log(&self) -> String {
        let log = fs::read_to_string(self.path("volhost.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n")
    }

    /// The file with the objects; a copy where it names the folder that is made for it.
    fn objects(&self, given: &Path) -> Result<PathBuf, CliError> {
        // `apply` reports a file that cannot be read.
        let text = fs::read_to_string(given).unwrap_or_default();
        if !text.contains(SCRATCH) {
            return Ok(given.to_owned());
        }
        let copy = self.path("volume.yaml");
        let written = fs::write(&copy, text.replace(SCRATCH, &self.path("files").display().to_string()));
        written.map_err(|source| CliError::File { path: copy.clone(), source })?;
        Ok(copy)
    }

    /// Waits until the daemon has compiled the plugin or refused it: the time for the volumes
    /// begins then.
    async fn loaded(&self) -> Result<(), CliError> {
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

    /// Applies the objects, waits for the volumes, and returns the path of the first.
    async fn mount(&self, arguments: &TryArguments, output: &mut Output) -> Result<PathBuf, CliError> {
        let apply = ApplyArguments::and_wait(self.objects(&arguments.volume)?, arguments.timeout.0);
        self.loaded().await?;
        apply::run(&apply, &self.socket(), output).await?;
        let socket = self.socket();
        let mut client = Client::connect(&socket).await?;
        let mut views = list::all(&mut client, &socket, Query::new(Kind::Volumes, None, None)).await?;
        let place = views.iter_mut().flat_map(View::volumes).map(|volume| self.path("root").join(&volume.path)).next();
        place.ok_or_else(|| {
            CliError::Failed(format!("{}: no container of a pod in it mounts a volume", arguments.volume.display()))
        })
    }

    async fn drain(&self, output: &mut Output) -> Result<(), CliError> {
        drain::run(&DrainArguments { timeout: HumanDuration(DRAIN_TIME), dry_run: false }, &self.socket(), output).await
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
        let path = self.0.path().to_owned();
        self.0.close().map_err(|source| CliError::File { path, source })
    }

    /// Keeps the folder, and reports it.
    fn left(self, error: &CliError) -> CliError {
        let end = self.end_of_log();
        let folder = self.0.keep();
        CliError::Failed(format!(
            "{error}\nnot everything could be unmounted; the mounts end with this program, and {} stays. The daemon's log ends with\n{end}",
            folder.display()
        ))
    }
}

/// Whether the daemon has reported that it serves.
fn serves(mut ready: PipeReader) -> bool {
    // Not to the end: the daemon keeps its input open.
    let mut byte = [0];
    ready.read_exact(&mut byte).is_ok()
}

/// Runs the command or the shell in the volume's folder. It fails as that fails.
fn shell(arguments: &TryArguments, place: &Path, socket: &Path) -> Result<(), CliError> {
    let mut words = arguments.command.iter();
    let program = words.next().cloned().unwrap_or_else(|| {
        std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| OsString::from("/bin/sh"))
    });
    // A volume that is mapped as a device is no folder.
    let folder = if place.is_dir() { place } else { Path::new("/") };
    let status = Command::new(&program)
        .args(words)
        .current_dir(folder)
        .env("VOLHOST_SOCKET", socket)
        .env("VOLUME", place)
        .status()
        .map_err(|source| CliError::File { path: PathBuf::from(&program), source })?;
    // A shell ends with the status of its last command, which is not the plugin's.
    if status.success() || arguments.command.is_empty() {
        return Ok(());
    }
    Err(CliError::Failed(format!("{} ended with {status}", program.display())))
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
