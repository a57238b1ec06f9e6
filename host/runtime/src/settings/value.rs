//! A value, as the configuration file has it.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::declared::SettingKind;

/// The longest text, in bytes.
const TEXT_BYTES: usize = 4096;
/// Texts of one list.
const MOST_TEXTS: usize = 256;
/// The key of a secret's file.
const FILE: &str = "file";

/// A value that the operator gives.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingValue {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Another finite number.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// A list of texts.
    Texts(Vec<String>),
    /// A secret: the absolute path of its file.
    SecretFile(PathBuf),
}

impl SettingValue {
    /// The kind of setting that may have it.
    pub(super) const fn kind(&self) -> SettingKind {
        match self {
            Self::Text(_) => SettingKind::Text,
            Self::Integer(_) | Self::Float(_) => SettingKind::Number,
            Self::Boolean(_) => SettingKind::Boolean,
            Self::Texts(_) => SettingKind::Texts,
            Self::SecretFile(_) => SettingKind::Secret,
        }
    }

    /// Returns what the plugin reads as one text; none for a list and a secret.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Integer(number) => Some(number.to_string()),
            Self::Float(number) => serde_json::Number::from_f64(*number).map(|number| number.to_string()),
            Self::Boolean(boolean) => Some(boolean.to_string()),
            Self::Texts(_) | Self::SecretFile(_) => None,
        }
    }

    /// Returns the texts of a list; none of them of another value.
    pub(crate) fn texts(&self) -> &[String] {
        if let Self::Texts(texts) = self { texts } else { &[] }
    }
}

impl fmt::Display for SettingValue {
    /// As the configuration file may have it. A secret is its file's path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Texts(texts) => write!(f, "{texts:?}"),
            Self::SecretFile(file) => write!(f, "{{ {FILE} = {:?} }}", file.display().to_string()),
            other => f.write_str(&other.text().unwrap_or_default()),
        }
    }
}

impl<'de> Deserialize<'de> for SettingValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

/// Not serde's untagged enum, whose errors name no alternative.
struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = SettingValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true, false, a list of texts, or for a secret { file = \"/PATH\" }")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<SettingValue, E> {
        Ok(SettingValue::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<SettingValue, E> {
        Ok(SettingValue::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<SettingValue, E> {
        let number = i64::try_from(value).map_err(|_| E::custom(format!("{value} is larger than {}", i64::MAX)))?;
        Ok(SettingValue::Integer(number))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<SettingValue, E> {
        if value.is_finite() { Ok(SettingValue::Float(value)) } else { Err(E::custom("a number must be finite")) }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<SettingValue, E> {
        bounded(value.to_owned()).map(SettingValue::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SettingValue, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            if texts.len() == MOST_TEXTS {
                return Err(A::Error::custom(format!("a list may have {MOST_TEXTS} texts")));
            }
            texts.push(bounded(text)?);
        }
        Ok(SettingValue::Texts(texts))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<SettingValue, A::Error> {
        let mut file = None;
        while let Some(key) = table.next_key::<String>()? {
            // TOML's reader passes a date on as such a table.
            if key.starts_with("$__toml") {
                return Err(A::Error::custom("a date is no value; write it as a text, in quotation marks"));
            }
            if key != FILE {
                return Err(A::Error::unknown_field(&key, &[FILE]));
            }
            file = Some(table.next_value::<PathBuf>()?);
        }
        let file = file.ok_or_else(|| A::Error::missing_field(FILE))?;
        if file.is_absolute() {
            return Ok(SettingValue::SecretFile(file));
        }
        Err(A::Error::custom(format!("{} is not an absolute path", file.display())))
    }
}

fn bounded<E: Error>(text: String) -> Result<String, E> {
    if text.len() <= TEXT_BYTES && !text.contains('\0') {
        return Ok(text);
    }
    Err(E::custom(format!("a text has at most {TEXT_BYTES} bytes, none of them NUL")))
}
