//! The daemon's recording.

use std::path::Path;

use serde_json::{Value, json};
use volhost_api::pb;
use volhost_recording::RecordingFile;

use super::redact::redacted;
use crate::client::{ANSWER_TIME, Client, within};
use crate::error::CliError;

/// Returns the file of the daemon's recording.
///
/// # Errors
/// [`CliError`] if the daemon does not send all of it.
pub(super) async fn of_daemon(client: &mut Client, socket: &Path) -> Result<Vec<u8>, CliError> {
    let mut parts = within(ANSWER_TIME, socket, client.inspect.recording(pb::RecordingRequest {})).await?;
    let mut file = Vec::new();
    while let Some(pb::RecordingPart { bytes }) = parts.message().await.map_err(|status| client.failed(&status))? {
        file.extend_from_slice(&bytes);
    }
    Ok(file)
}

/// Returns the file with secrets replaced in each of its texts, as in the other files of a bundle.
///
/// # Errors
/// [`CliError::Failed`] if it is no recording.
pub(super) fn redacted_recording(file: &[u8]) -> Result<String, CliError> {
    let failed = |why: String| CliError::Failed(format!("the daemon's recording cannot be read: {why}"));
    let file = RecordingFile::read(file).map_err(|error| failed(error.to_string()))?;
    let bytes = file.rewritten(&without_secret).map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| failed(error.to_string()))
}

/// The text of this field without its secrets; none if it has none.
fn without_secret(field: &str, text: &str) -> Option<String> {
    let line = json!({field: text}).to_string();
    let shown = redacted(&line);
    if shown == line {
        return None;
    }
    let value: Option<Value> = serde_json::from_str(&shown).ok();
    // What is no JSON any more was a secret as a whole.
    Some(value.and_then(|value| value.get(field)?.as_str().map(str::to_owned)).unwrap_or_else(|| "REDACTED".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_texts_are_replaced() {
        let shown = |field: &str, text: &str| without_secret(field, text).unwrap_or_else(|| text.to_owned());
        assert_eq!(shown("password", "hunter2"), "REDACTED");
        assert_eq!(shown("options", "ro,password=hunter2,x"), "ro,password=REDACTED,x");
        assert_eq!(shown("server", "nfs://me:hunter2@host/a"), "nfs://REDACTED@host/a");
        assert_eq!(shown("message", "secret \"login\" is missing"), "secret \"login\" is missing");
        assert_eq!(shown("key", "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----"), "REDACTED");
    }
}
