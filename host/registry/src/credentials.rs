//! Credentials for a registry: from the environment, or from docker's configuration, which every
//! registry tool reads.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use thiserror::Error;

/// The variable with the user, for the registry of the command.
pub const USER: &str = "VOLHOST_REGISTRY_USER";
/// The password or token that goes with [`USER`].
pub const PASSWORD: &str = "VOLHOST_REGISTRY_PASSWORD";

/// The largest configuration that is read, in bytes.
const CONFIG_BYTES: u64 = 1 << 20;
/// Part of a credential helper's message if it has no credentials for a registry.
const UNKNOWN: &str = "credentials not found";

/// A name and a password. Never shown.
#[derive(Clone)]
pub struct Credentials {
    user: String,
    password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials(...)")
    }
}

/// Why there are no usable credentials. No message contains a secret.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// Half of the two variables.
    #[error("VOLHOST_REGISTRY_USER and VOLHOST_REGISTRY_PASSWORD go together, and one of them is not set")]
    Half,
    /// The configuration cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It cannot be parsed. The message names the place only: the text may be secret.
    #[error("{path} is no configuration of docker: line {line}, column {column}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where.
        line: usize,
        /// Where.
        column: usize,
    },
    /// Its entry for this registry is not a name and a password.
    #[error(
        "{path}: `auths.\"{host}\".auth` is not NAME:PASSWORD in Base64; log in again, or set {USER} and {PASSWORD}"
    )]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The registry.
        host: String,
    },
    /// A login of a kind that is not known here.
    #[error("{path} has an identity token for {host}, which volhost cannot use; set {USER} and {PASSWORD}")]
    IdentityToken {
        /// The file.
        path: PathBuf,
        /// The registry.
        host: String,
    },
    /// The helper cannot be asked.
    #[error("{program}, which {path} names for {host}, cannot be asked")]
    Helper {
        /// The file.
        path: PathBuf,
        /// The program.
        program: String,
        /// The registry.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The helper refuses, or its answer is malformed.
    #[error("{program}, which {path} names for {host}, gives no credentials ({how})")]
    HelperAnswer {
        /// The file.
        path: PathBuf,
        /// The program.
        program: String,
        /// The registry.
        host: String,
        /// What it did instead.
        how: String,
    },
}

impl Credentials {
    /// A name and a password.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: password.into() }
    }

    /// Finds the credentials for a registry: [`USER`] and [`PASSWORD`], else docker's configuration
    /// (`config.json` in `DOCKER_CONFIG`, else in `~/.docker`), with its credential helpers. None
    /// without a login.
    ///
    /// `variable` reads the environment.
    ///
    /// # Errors
    /// [`CredentialsError`]: credentials that cannot be used are no reason to continue anonymously.
    pub fn find(host: &str, variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>, CredentialsError> {
        let text = |name| variable(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty());
        match (text(USER), text(PASSWORD)) {
            (Some(user), Some(password)) => return Ok(Some(Self { user, password })),
            (None, None) => {}
            _ => return Err(CredentialsError::Half),
        }
        let home = || variable("HOME").map(|home| Path::new(&home).join(".docker"));
        let Some(folder) = variable("DOCKER_CONFIG").map(PathBuf::from).or_else(home) else { return Ok(None) };
        let path = folder.join("config.json");
        match read(&path) {
            Err(CredentialsError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(config) => config.credentials(&path, host),
        }
    }

    /// The value of the header `Authorization`.
    pub fn basic(&self) -> String {
        format!("Basic {}", BASE64.encode(format!("{}:{}", self.user, self.password)))
    }
}

/// docker's configuration, as far as it is about logins.
#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Login>,
    #[serde(default, rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

#[derive(Deserialize)]
struct Login {
    #[serde(default)]
    auth: String,
    #[serde(default, rename = "identitytoken")]
    identity_token: String,
}

/// A credential helper's answer.
#[derive(Deserialize)]
struct HelperAnswer {
    #[serde(rename = "Username")]
    user: String,
    #[serde(rename = "Secret")]
    secret: String,
}

fn read(path: &Path) -> Result<DockerConfig, CredentialsError> {
    let failed = |source| CredentialsError::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    File::open(path).map_err(failed)?.take(CONFIG_BYTES).read_to_end(&mut text).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|error| CredentialsError::Malformed {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
    })
}

impl DockerConfig {
    fn credentials(&self, path: &Path, host: &str) -> Result<Option<Credentials>, CredentialsError> {
        if let Some(helper) = self.helpers.get(host) {
            return ask(path, helper, host);
        }
        let login = self.auths.iter().find(|(name, _)| same_registry(name, host)).map(|(_, login)| login);
        if let Some(login) = login.filter(|login| !login.auth.is_empty()) {
            let unfit = || CredentialsError::Unfit { path: path.to_owned(), host: host.to_owned() };
            let plain =
                BASE64.decode(&login.auth).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(unfit)?;
            let (user, password) = plain.split_once(':').ok_or_else(unfit)?;
            return Ok(Some(Credentials::new(user, password)));
        }
        if login.is_some_and(|login| !login.identity_token.is_empty()) {
            return Err(CredentialsError::IdentityToken { path: path.to_owned(), host: host.to_owned() });
        }
        self.store.as_ref().map_or(Ok(None), |store| ask(path, store, host))
    }
}

/// Whether a login's key, a host or an address with `https://` and a path, means this registry.
fn same_registry(name: &str, host: &str) -> bool {
    let rest = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://")).unwrap_or(name);
    // Logins to Docker's own registry have another name.
    let host = if host == "docker.io" { "index.docker.io" } else { host };
    rest.split('/').next() == Some(host)
}

/// Asks docker's credential helper `docker-credential-NAME`.
fn ask(path: &Path, helper: &str, host: &str) -> Result<Option<Credentials>, CredentialsError> {
    let program = format!("docker-credential-{helper}");
    let answer = |how: &str| CredentialsError::HelperAnswer {
        path: path.to_owned(),
        program: program.clone(),
        host: host.to_owned(),
        how: volhost_model::text::printable(how),
    };
    // A name with a slash would be a path of the configuration's choice.
    if helper.contains('/') {
        return Err(answer("its name is none"));
    }
    let output = run(&program, host).map_err(|source| CredentialsError::Helper {
        path: path.to_owned(),
        program: program.clone(),
        host: host.to_owned(),
        source,
    })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stdout);
        return if message.contains(UNKNOWN) { Ok(None) } else { Err(answer(&output.status.to_string())) };
    }
    let HelperAnswer { user, secret } =
        serde_json::from_slice(&output.stdout).map_err(|_| answer("what it prints is not what helpers print"))?;
    Ok(Some(Credentials::new(user, secret)))
}

fn run(program: &str, host: &str) -> io::Result<std::process::Output> {
    let mut child =
        Command::new(program).arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(host.as_bytes()) {
            // It answered without reading the question.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            other => other?,
        }
    }
    child.wait_with_output()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(config: &str, host: &str) -> Result<Option<Credentials>, CredentialsError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), config).unwrap();
        Credentials::find(host, |name| (name == "DOCKER_CONFIG").then(|| folder.path().as_os_str().to_owned()))
    }

    #[test]
    fn the_environment_comes_before_the_login_and_half_of_it_is_an_error() {
        let both = |name: &str| match name {
            USER => Some(OsString::from("me")),
            PASSWORD => Some(OsString::from("open")),
            _ => None,
        };
        let found = Credentials::find("r.example", both).unwrap().unwrap();
        assert_eq!(found.basic(), "Basic bWU6b3Blbg==");
        assert!(!format!("{found:?}").contains("open"));
        let half = |name: &str| (name == USER).then(|| OsString::from("me"));
        assert!(matches!(Credentials::find("r.example", half), Err(CredentialsError::Half)));
    }

    #[test]
    fn a_login_is_found_by_its_registry_alone() {
        let config = r#"{"auths":{"https://r.example/v1/":{"auth":"bWU6b3Blbg=="},"b.example":{"auth":"%%secret"},"c.example":{"identitytoken":"t"}}}"#;
        assert_eq!(find(config, "r.example").unwrap().unwrap().basic(), "Basic bWU6b3Blbg==");
        assert!(find(config, "r.example:5000").unwrap().is_none());
        let wrong = find(config, "b.example").unwrap_err().to_string();
        assert!(wrong.contains("b.example") && !wrong.contains("secret"), "{wrong}");
        assert!(matches!(find(config, "c.example"), Err(CredentialsError::IdentityToken { .. })));
        let malformed = find("{\"auths\": secret}", "r.example").unwrap_err().to_string();
        assert!(malformed.contains("line 1") && !malformed.contains("secret"), "{malformed}");
        assert!(Credentials::find("r.example", |_| None).unwrap().is_none());
    }

    #[test]
    fn a_helper_that_is_not_there_is_named() {
        let gone = find(r#"{"credHelpers":{"r.example":"volhost-has-none"}}"#, "r.example").unwrap_err().to_string();
        assert!(gone.contains("docker-credential-volhost-has-none") && gone.contains("r.example"), "{gone}");
        assert!(matches!(find(r#"{"credsStore":"../x"}"#, "r.example"), Err(CredentialsError::HelperAnswer { .. })));
    }
}
