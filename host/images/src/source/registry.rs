//! Registries. The daemon does not speak to them: a child of volhost's command line does, which has
//! become nobody, with the request on its input, the content on its output, and what failed on its
//! error output. What it writes is checked here against digests.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use volhost_model::images::{ImageError, PullWatch};
use volhost_model::oci::{Digest, Reference};
use volhost_model::text::printable;
use volhost_process::{OutputVerdict, ProcessWatch, Program, WatchEnd};

use super::Source;
use crate::layer::{BlobFile, LayerError};
use crate::manifest::{ACCEPTED, Blob, MANIFEST_BYTES};

/// The arguments by which the command line becomes the child.
const ARGUMENTS: [&str; 2] = ["internal", "fetch-image"];
/// How long a manifest may take, with its redirects and logins. The child gives a silent registry up
/// after 30 s.
const MANIFEST_TIME: Duration = Duration::from_secs(300);
/// What a registry must at least send, in bytes a second.
const SLOWEST: u64 = 16 << 10;
/// How much of the child's error output is kept, in bytes.
const ERROR_BYTES: usize = 16 << 10;

/// A user and a password. Never shown.
#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password or token.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// What the child is to fetch, as JSON on its input.
#[derive(Debug, Serialize, Deserialize)]
pub struct FetchRequest {
    /// The image, by tag or digest.
    pub reference: String,
    /// The blob of this digest and size; none: the manifest. Its first line of output is the index
    /// of the login that was used, or `-`.
    pub blob: Option<(String, u64)>,
    /// The types of manifests that are understood.
    pub accept: Vec<String>,
    /// Logins to try, one after the other; without any, none.
    pub logins: Vec<Login>,
}

/// Why the child did not fetch it, as JSON in the last line of its error output.
#[derive(Debug, Serialize, Deserialize)]
pub enum FetchFailure {
    /// There is no such image, or it is hidden from this login.
    NotFound(String),
    /// The registry refuses the login, or wants one.
    Refused(String),
    /// Any other.
    Failed(String),
}

/// The program that becomes the child.
#[derive(Debug, Clone)]
pub struct RegistryProgram {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl RegistryProgram {
    /// volhost's command line at this path, with these variables (`SSL_CERT_FILE`).
    #[must_use]
    pub fn new(program: PathBuf, environment: Vec<(OsString, OsString)>) -> Self {
        Self { program, environment }
    }

    fn run(
        &self,
        request: &FetchRequest,
        time: Duration,
        watch: &dyn PullWatch,
        mut take: impl FnMut(&[u8]) -> OutputVerdict,
    ) -> Result<(), ImageError> {
        // Texts and numbers are always JSON.
        let input = serde_json::to_vec(request).unwrap_or_default();
        let mut program = Program::new(&self.program).with_arguments(ARGUMENTS).with_own_group();
        for (name, value) in &self.environment {
            program = program.with_variable(name, value);
        }
        let started = Instant::now();
        let mut child = program.start().map_err(|error| {
            let text = format!("{} speaks to registries, and cannot be started: {error}", self.program.display());
            ImageError::NotReady(text)
        })?;
        let mut errors = Vec::new();
        let mut cancelled = false;
        let (to, out, said) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut watching = ProcessWatch::new(child.process());
        let lost = |error: std::io::Error| ImageError::Retryable(format!("the registry's client: {error}"));
        if let Some(to) = to {
            watching = watching.with_input(to, &input).map_err(lost)?;
        }
        if let Some(out) = out {
            watching = watching.with_output(out, &mut take).map_err(lost)?;
        }
        if let Some(said) = said {
            // It writes something all the time, so that this is called.
            let keep = |bytes: &[u8]| {
                let words = bytes.iter().filter(|byte| **byte != b'\n');
                errors.extend(words.take(ERROR_BYTES.saturating_sub(errors.len())));
                cancelled = watch.is_cancelled();
                if cancelled { OutputVerdict::TooMuch } else { OutputVerdict::Continue }
            };
            watching = watching.with_output(said, keep).map_err(lost)?;
        }
        let end = watching.until_end(started.checked_add(time));
        if matches!(end, Ok(WatchEnd::Exited)) {
            let status = child.wait().map_err(lost)?;
            return if status.success() { Ok(()) } else { Err(failure(&errors)) };
        }
        child.end();
        Err(match end {
            _ if cancelled => ImageError::Cancelled,
            Ok(WatchEnd::Deadline) => {
                ImageError::Retryable(format!("{}: it has not sent it within {} s", request.reference, time.as_secs()))
            }
            Ok(_) => ImageError::Corrupt(format!("{}: it sends more than it may", request.reference)),
            Err(error) => lost(error),
        })
    }
}

fn failure(errors: &[u8]) -> ImageError {
    match serde_json::from_slice(errors) {
        Ok(FetchFailure::NotFound(text)) => ImageError::NotFound(text),
        Ok(FetchFailure::Refused(text)) => ImageError::Refused(text),
        Ok(FetchFailure::Failed(text)) => ImageError::Retryable(text),
        Err(_) => {
            let words = printable(&String::from_utf8_lossy(errors));
            ImageError::Retryable(format!("the registry's client has failed: {words}"))
        }
    }
}

/// A repository of a registry.
#[derive(Debug)]
pub(crate) struct Registry<'a> {
    program: &'a RegistryProgram,
    image: &'a Reference,
    logins: Vec<Login>,
    used_login: bool,
}

impl<'a> Registry<'a> {
    pub(crate) fn new(program: &'a RegistryProgram, image: &'a Reference, logins: Vec<Login>) -> Self {
        Self { program, image, logins, used_login: false }
    }

    fn request(&self, reference: String, blob: Option<(String, u64)>) -> FetchRequest {
        let accept = ACCEPTED.map(str::to_owned).to_vec();
        FetchRequest { reference, blob, accept, logins: self.logins.clone() }
    }
}

impl Source for Registry<'_> {
    fn manifest(&mut self, digest: Option<&Digest>, watch: &dyn PullWatch) -> Result<Vec<u8>, ImageError> {
        let reference = digest.map_or_else(|| self.image.clone(), |digest| self.image.pinned(digest.clone()));
        let request = self.request(reference.to_string(), None);
        let most = usize::try_from(MANIFEST_BYTES).unwrap_or(usize::MAX).saturating_add(16);
        let mut output = Vec::new();
        self.program.run(&request, MANIFEST_TIME, watch, |bytes| {
            output.extend_from_slice(bytes);
            if output.len() > most { OutputVerdict::TooMuch } else { OutputVerdict::Continue }
        })?;
        let line = output.iter().position(|byte| *byte == b'\n').unwrap_or(0);
        let manifest = output.split_off(line.saturating_add(1).min(output.len()));
        let used = String::from_utf8_lossy(&output).trim().parse::<usize>().ok();
        if let Some(login) = used.and_then(|used| self.logins.get(used).cloned()) {
            self.used_login = true;
            self.logins = vec![login];
        }
        Ok(manifest)
    }

    fn blob(
        &mut self,
        blob: &Blob,
        file: &mut BlobFile,
        progress: &mut dyn FnMut(u64),
        watch: &dyn PullWatch,
    ) -> Result<(), ImageError> {
        let request = self.request(self.image.to_string(), Some((blob.digest.to_string(), blob.size)));
        let time = MANIFEST_TIME.saturating_add(Duration::from_secs(blob.size / SLOWEST));
        let mut wrong: Option<LayerError> = None;
        let ran = self.program.run(&request, time, watch, |bytes| match file.take(bytes) {
            Ok(()) => {
                progress(file.bytes());
                OutputVerdict::Continue
            }
            Err(error) => {
                wrong = Some(error);
                OutputVerdict::TooMuch
            }
        });
        match wrong {
            Some(error) => Err(error.of_image(&blob.digest.to_string())),
            None => ran,
        }
    }

    fn used_login(&self) -> bool {
        self.used_login
    }
}
