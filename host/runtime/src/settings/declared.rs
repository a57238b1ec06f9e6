//! The settings that a plugin declares when it describes itself.

use std::fmt;

use thiserror::Error;

/// The most settings of one plugin.
const MOST: usize = 64;
/// The longest name, in bytes.
const NAME_BYTES: usize = 63;
/// The longest help, in bytes.
const HELP_BYTES: usize = 1024;

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// A text.
    Text,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A list of texts.
    Texts,
    /// A secret, by its file.
    Secret,
}

impl fmt::Display for SettingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Texts => "list of texts",
            Self::Secret => "secret",
        })
    }
}

/// A setting of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredSetting {
    /// Its name in the configuration file.
    pub name: String,
    /// Its type.
    pub kind: SettingKind,
    /// The plugin is not loaded without it.
    pub is_required: bool,
    /// What it is for, in one line.
    pub help: String,
}

/// A declaration that breaks the contract.
#[derive(Debug, Error)]
pub(crate) enum DeclarationError {
    #[error("it declares more than {MOST} settings")]
    TooMany,
    #[error("it declares a setting {0:?}: a name is lower-case letters, digits and `-`, at most {NAME_BYTES}")]
    Name(String),
    #[error("it declares the setting {0} twice")]
    Twice(String),
    #[error("its setting {name} has a help of {bytes} bytes, {HELP_BYTES} at most")]
    Help { name: String, bytes: usize },
}

/// Adds a setting to those that are declared.
pub(crate) fn declare(declared: &mut Vec<DeclaredSetting>, setting: DeclaredSetting) -> Result<(), DeclarationError> {
    let name = &setting.name;
    let is_name_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(is_name_char) {
        let shown = name.chars().take(NAME_BYTES).collect();
        return Err(DeclarationError::Name(shown));
    }
    if setting.help.len() > HELP_BYTES {
        return Err(DeclarationError::Help { name: setting.name, bytes: setting.help.len() });
    }
    if declared.iter().any(|other| other.name == *name) {
        return Err(DeclarationError::Twice(setting.name));
    }
    if declared.len() >= MOST {
        return Err(DeclarationError::TooMany);
    }
    declared.push(setting);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str) -> DeclaredSetting {
        DeclaredSetting { name: name.to_owned(), kind: SettingKind::Text, is_required: false, help: String::new() }
    }

    #[test]
    fn declarations_without_measure_are_refused() {
        let mut declared = Vec::new();
        declare(&mut declared, setting("server")).unwrap();
        for name in ["", "Server", "a.b", "a b", "a\n", &"a".repeat(64)] {
            assert!(matches!(declare(&mut declared, setting(name)), Err(DeclarationError::Name(_))), "{name:?}");
        }
        assert!(matches!(declare(&mut declared, setting("server")), Err(DeclarationError::Twice(_))));
        let long = DeclaredSetting { help: "a".repeat(1025), ..setting("long") };
        assert!(matches!(declare(&mut declared, long), Err(DeclarationError::Help { .. })));
        for number in 1..MOST {
            declare(&mut declared, setting(&format!("s{number}"))).unwrap();
        }
        assert!(matches!(declare(&mut declared, setting("more")), Err(DeclarationError::TooMany)));
    }
}
