//! `volhost plugin sign`: signatures of plugin files, as minisign makes them.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use minisign::{PublicKey, SecretKey};
use volhost_model::text::error_chain;
use volhost_plugin_build::publish::stage;

use super::file::{digest, read_plugin, signature_of};
use super::password::PasswordSource;
use super::{identity, key};
use crate::arguments::SignArguments;
use crate::error::CliError;
use crate::format::printable;
use crate::output::Output;

/// The time of a build that can be repeated, in seconds since the Unix epoch.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// A plugin that is to be signed.
struct Unsigned {
    file: PathBuf,
    content: Vec<u8>,
    /// The name and version that the plugin gives.
    name: String,
    version: String,
}

/// Signs every file, or none: the signatures get their names when all of them are written.
pub(super) fn run(arguments: &SignArguments, output: &mut Output) -> Result<(), CliError> {
    if !arguments.force {
        arguments.files.iter().try_for_each(|file| check_unsigned(file))?;
    }
    let plugins = arguments.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let secret = &arguments.secret;
    let key = key::open(&secret.key, PasswordSource::of(secret.password_file.as_deref()))?;
    let time = signing_time()?;
    let failed = |error: volhost_plugin_build::publish::PublishError| CliError::Failed(error_chain(&error));
    let mut staged = Vec::new();
    for plugin in &plugins {
        let signature = signature_of(&plugin.file);
        let (Some(folder), Some(name)) = (signature.parent(), signature.file_name().and_then(|name| name.to_str()))
        else {
            return Err(CliError::Failed(format!("{}: its name is not text", plugin.file.display())));
        };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        staged.push(stage(folder, name, plugin.sign(&key, time)?.as_bytes()).map_err(failed)?);
    }
    for (plugin, signature) in plugins.iter().zip(staged) {
        let (path, _) = signature.put().map_err(failed)?;
        output.line(&format!("{}: {} {}", path.display(), printable(&plugin.name), printable(&plugin.version)))?;
    }
    Ok(())
}

fn check_unsigned(file: &Path) -> Result<(), CliError> {
    let signature = signature_of(file);
    if signature.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(CliError::Failed(format!(
        "{} exists and is kept; --force replaces it. Nothing was signed",
        signature.display()
    )))
}

fn read(file: &Path) -> Result<Unsigned, CliError> {
    let content = read_plugin(file)?;
    // Only for its name: whether it would be loaded is for those who get it.
    let description = identity::ask(file, volhost_config::grants(None)?, None);
    let (Some(name), Some(version)) = (description.name, description.version) else {
        let why = description.problem.unwrap_or_default();
        return Err(CliError::Failed(format!("{}: {why}", file.display())));
    };
    Ok(Unsigned { file: file.to_owned(), content, name, version })
}

impl Unsigned {
    /// The signature's text.
    fn sign(&self, key: &SecretKey, time: u64) -> Result<String, CliError> {
        let failed = |error: minisign::PError| CliError::Failed(format!("{}: {error}", self.file.display()));
        let comment = format!(
            "timestamp:{time}\tplugin:{}\tversion:{}\tsha256:{}",
            printable(&self.name),
            printable(&self.version),
            digest(&self.content)
        );
        let public = PublicKey::from_secret_key(key).map_err(failed)?;
        let untrusted = "signature of a volhost plugin";
        minisign::sign(Some(&public), key, Cursor::new(&self.content), Some(&comment), Some(untrusted))
            .map(|signature| signature.into_string())
            .map_err(failed)
    }
}

/// Now, or the time of a build that can be repeated.
fn signing_time() -> Result<u64, CliError> {
    match std::env::var(EPOCH) {
        Ok(text) => text
            .parse()
            .map_err(|_| CliError::Usage(format!("{EPOCH} is '{}', and not a number of seconds", printable(&text)))),
        Err(_) => Ok(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())),
    }
}
