//! The server on a socket of its own, and the command line against it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use volhost_api_server::ApiServeError;

use crate::world::{Fake, World};

pub(crate) struct Daemon {
    pub(crate) fake: Fake,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: JoinHandle<Result<(), ApiServeError>>,
    folder: tempfile::TempDir,
}

/// What a command printed.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Daemon {
    pub(crate) fn start(world: World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (fake, handle) = Fake::start(world);
        let stop = CancellationToken::new();
        let listener = volhost_api_server::bind(&folder.path().join("s.sock")).unwrap();
        let serving = tokio::spawn(volhost_api_server::serve(listener, handle, None, stop.clone()));
        Self { fake, stop, serving, folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("s.sock")
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Ran {
        run_at(&self.socket(), arguments).await
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = command(arguments);
        command.env("VOLHOST_SOCKET", self.socket());
        command
    }
}

pub(crate) fn command(arguments: &[impl AsRef<OsStr>]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_volhost"));
    command
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

pub(crate) async fn run_at(socket: &Path, arguments: &[&str]) -> Ran {
    let mut command = command(arguments);
    command.env("VOLHOST_SOCKET", socket);
    finish(command).await
}

pub(crate) async fn finish(mut command: tokio::process::Command) -> Ran {
    let output = command.output().await.unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
