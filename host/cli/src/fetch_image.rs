//! The child of the daemon that speaks to a registry: it becomes nobody, reads what to fetch, and
//! writes the content. The daemon checks it.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use volhost_images::{FetchFailure, FetchRequest};
use volhost_process::{Privileges, ProcessLimits};
use volhost_registry::image::{FetchError, ImageClient};
use volhost_registry::{Credentials, Reference};

/// The user without rights.
const NOBODY: u32 = 65534;
/// Memory that it maps, in bytes: manifests and pieces of blobs pass through it.
const MEMORY: u64 = 1 << 30;
/// Open files: a connection, and what resolving a name takes.
const OPEN_FILES: u64 = 64;
/// The largest request, in bytes.
const REQUEST_BYTES: u64 = 1 << 20;
/// How often it shows that it lives, so that the daemon looks whether it is still wanted.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// Fetches, and reports a failure on standard error.
pub(crate) fn run() -> ExitCode {
    match fetch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Texts are always JSON; the daemon may have ended.
            let text = serde_json::to_string(&failure).unwrap_or_default();
            let _ = writeln!(io::stderr(), "{text}");
            ExitCode::FAILURE
        }
    }
}

fn failed(text: impl std::fmt::Display) -> FetchFailure {
    FetchFailure::Failed(text.to_string())
}

fn fetch() -> Result<(), FetchFailure> {
    let is_root = rustix::process::geteuid().is_root();
    let privileges = Privileges {
        user: is_root.then_some(NOBODY),
        group: None,
        capabilities: Some(0),
        no_new_privileges: true,
        no_namespaces: true,
        limits: ProcessLimits {
            memory: Some(MEMORY),
            cpu_seconds: None,
            open_files: Some(OPEN_FILES),
            file_bytes: Some(0),
            processes: None,
            core_bytes: Some(0),
        },
    };
    privileges.enforce().map_err(failed)?;
    let mut input = Vec::new();
    io::stdin().take(REQUEST_BYTES).read_to_end(&mut input).map_err(failed)?;
    let request: FetchRequest = serde_json::from_slice(&input).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let fetched = runtime.block_on(async {
        let living = tokio::spawn(async {
            let mut ticks = tokio::time::interval(SIGN_OF_LIFE);
            loop {
                ticks.tick().await;
                // Without the daemon there is no one to fetch for.
                if io::stderr().write_all(b"\n").is_err() {
                    std::process::exit(1);
                }
            }
        });
        let fetched = serve(&request).await;
        living.abort();
        fetched
    });
    fetched.map_err(|failure| redacted(failure, &request))
}

async fn serve(request: &FetchRequest) -> Result<(), FetchFailure> {
    let reference: Reference = request.reference.parse().map_err(failed)?;
    let logins = request.logins.iter().map(|login| Credentials::new(&login.user, &login.password)).collect();
    let client = ImageClient::new(reference, logins);
    let mut output = io::stdout();
    let fetched = match &request.blob {
        None => match client.manifest(&request.accept).await {
            Ok((manifest, login)) => {
                let used = login.map_or_else(|| "-".to_owned(), |login| login.to_string());
                let written = writeln!(output, "{used}").and_then(|()| output.write_all(&manifest));
                return written.and_then(|()| output.flush()).map_err(failed);
            }
            Err(error) => Err(error),
        },
        Some((digest, size)) => {
            let digest = digest.parse().map_err(failed)?;
            client.blob(&digest, *size, &mut |piece| output.write_all(piece)).await
        }
    };
    fetched.map_err(|error| match error {
        FetchError::NotFound(text) => FetchFailure::NotFound(text),
        FetchError::Refused(text) => FetchFailure::Refused(text),
        FetchError::Failed(text) => FetchFailure::Failed(text),
    })
}

/// A registry's message may repeat what was sent to it.
fn redacted(failure: FetchFailure, request: &FetchRequest) -> FetchFailure {
    let hide = |text: String| {
        let secrets = request.logins.iter().flat_map(|login| {
            let basic = Credentials::new(&login.user, &login.password).basic();
            let encoded = basic.rsplit(' ').next().unwrap_or_default().to_owned();
            [login.password.clone(), encoded]
        });
        secrets.filter(|secret| !secret.is_empty()).fold(text, |text, secret| text.replace(&secret, "[redacted]"))
    };
    match failure {
        FetchFailure::NotFound(text) => FetchFailure::NotFound(hide(text)),
        FetchFailure::Refused(text) => FetchFailure::Refused(hide(text)),
        FetchFailure::Failed(text) => FetchFailure::Failed(hide(text)),
    }
}
