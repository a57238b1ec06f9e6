//! Options from the TOML file.

use std::fs;
use std::path::Path;

use super::error::ConfigError;
use super::settings::Settings;

/// The largest file read, in bytes. A configuration is a few hundred; what is larger is another
/// file named by mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The layer of the file.
///
/// # Errors
/// [`ConfigError::Read`], or [`ConfigError::File`], which names line and key.
pub(super) fn settings(path: &Path) -> Result<Settings, ConfigError> {
    let read = |source| ConfigError::Read { file: path.to_path_buf(), source };
    if fs::metadata(path).map_err(read)?.len() > MAX_FILE_BYTES {
        return Err(read(std::io::Error::other(format!(
            "it has more than {MAX_FILE_BYTES} bytes; is it the right file?"
        ))));
    }
    parse(path, &fs::read_to_string(path).map_err(read)?)
}

/// Parses the file's text.
pub(super) fn parse(path: &Path, text: &str) -> Result<Settings, ConfigError> {
    let invalid = |key: Option<String>, error: &toml::de::Error| {
        let (line, found) = place(text, error);
        let key = key.filter(|key| key != ".").or(found);
        ConfigError::File {
            file: path.to_path_buf(),
            line,
            key: key.map(|key| format!(", key {key}")).unwrap_or_default(),
            message: error.message().trim().to_owned(),
        }
    };
    let document = toml::Deserializer::parse(text).map_err(|error| invalid(None, &error))?;
    serde_path_to_error::deserialize(document).map_err(|error| invalid(Some(error.path().to_string()), error.inner()))
}

/// The line of an error, from 1, and the key on it.
fn place(text: &str, error: &toml::de::Error) -> (usize, Option<String>) {
    let start = error.span().map_or(0, |span| span.start);
    let line = text.get(..start).unwrap_or(text).matches('\n').count() + 1;
    let key = text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map(|(key, _)| key.trim().to_owned());
    (line, key)
}
