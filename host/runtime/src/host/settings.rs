//! `settings`: the values that the operator has given to the plugin.

use wasmtime::component::Resource;

use super::State;
use crate::abort::Abort;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::settings::Host;
use crate::bindings::volhost::plugin::types;
use crate::call_error::Function;
use crate::handles::Content;
use crate::settings::{SecretFileError, SettingValue, read_secret};

impl State {
    /// The value that the operator has given.
    fn setting(&self, name: &str) -> Result<Option<&SettingValue>, Abort> {
        if self.asked == Some(Function::Describe) {
            return Err(Abort::contract("it asked for a setting in describe, whose answer is always the same"));
        }
        Ok(self.reach.settings.get(name))
    }
}

impl Host for State {
    fn value(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        self.count()?;
        Ok(self.setting(&name)?.and_then(SettingValue::text))
    }

    fn texts(&mut self, name: String) -> wasmtime::Result<Vec<String>> {
        self.count()?;
        Ok(self.setting(&name)?.map(|value| value.texts().to_vec()).unwrap_or_default())
    }

    fn secret(&mut self, name: String) -> Result<Option<Resource<Content>>, HostError> {
        let file = match self.setting(&name)? {
            Some(SettingValue::SecretFile(file)) => file.clone(),
            _ => {
                self.count()?;
                return Ok(None);
            }
        };
        self.step("settings.secret", |state| {
            let bytes = read_secret(&file).map_err(|error| {
                let text = format!("the secret of the setting {name}: {} {error}", file.display());
                HostError::Plugin(match error {
                    SecretFileError::Open { .. } => types::Error::PermissionDenied(text),
                    SecretFileError::Read(_) | SecretFileError::NotAFile | SecretFileError::TooLarge => {
                        types::Error::Precondition(text)
                    }
                })
            })?;
            state.secrets.use_value(&bytes);
            Ok(Some(state.push(Content::of_object(format!("setting {name}"), bytes))?))
        })
    }
}
