//! Options from the environment. The environment is read once and handed in: no test has to change
//! the process's own.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Command, FromArgMatches};

use super::error::ConfigError;
use super::settings::Settings;

/// The variables of the environment that are ours. An empty one counts as not set.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentVariables {
    variables: BTreeMap<OsString, OsString>,
}

impl EnvironmentVariables {
    /// The process's environment.
    pub fn of_process() -> Self {
        Self::from_variables(std::env::vars_os())
    }

    /// These variables.
    pub fn from_variables(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { variables: variables.into_iter().filter(|(_, value)| !value.is_empty()).collect() }
    }

    /// The value for an option, by its long name.
    pub fn get(&self, option: &str) -> Option<&OsString> {
        self.variables.get(&OsString::from(variable(option)))
    }

    /// The layer of the environment.
    ///
    /// # Errors
    /// [`ConfigError::Variable`] names the variable whose value does not fit.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        let command = Settings::augment_args(Command::new("volhost").no_binary_name(true));
        let mut arguments = Vec::new();
        for option in command.get_arguments().filter_map(|argument| argument.get_long()) {
            let Some(value) = self.get(option) else {
                continue;
            };
            let mut argument = OsString::from(format!("--{option}="));
            argument.push(value);
            // One by one first, so that the message can name the variable.
            if let Err(error) = command.clone().try_get_matches_from([&argument]) {
                return Err(ConfigError::Variable { variable: variable(option), message: describe(&error, value) });
            }
            arguments.push(argument);
        }
        let parsed = command.try_get_matches_from(arguments).and_then(|matches| Settings::from_arg_matches(&matches));
        let mut settings = parsed
            .map_err(|error| ConfigError::Variable { variable: "VOLHOST_*".into(), message: error.to_string() })?;
        settings.socket = self.get("socket").map(Into::into);
        Ok(settings)
    }
}

/// The variable of an option, by its long name: `root-dir` is `VOLHOST_ROOT_DIR`.
pub fn variable(option: &str) -> String {
    format!("VOLHOST_{}", option.to_uppercase().replace('-', "_"))
}

/// clap's complaint without the option's name, which the user did not type.
fn describe(error: &clap::Error, value: &OsString) -> String {
    let shown = value.display();
    if let Some(source) = std::error::Error::source(error) {
        return format!("the value {shown:?} does not fit: {source}");
    }
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) => {
            format!("the value {shown:?} does not fit: it must be one of {}", values.join(", "))
        }
        _ => format!("the value {shown:?} does not fit"),
    }
}
