//! Values that are checked when they are parsed, wherever they come from.

use std::str::FromStr;

use clap::ValueEnum;
use serde::Deserialize;
use thiserror::Error;
use tracing_subscriber::EnvFilter;

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Where the metrics' listener serves the status page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatusPage {
    /// Nowhere.
    Off,
    /// If the listener's address is a loopback one, to clients that name it so.
    #[default]
    Loopback,
    /// At any address of the listener.
    Everywhere,
}

/// A node label, `key=value`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Label {
    /// The key.
    pub key: String,
    /// The value; may be empty.
    pub value: String,
}

/// The text is no label.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no label; write key=value")]
pub struct LabelTextError(String);

impl FromStr for Label {
    type Err = LabelTextError;
    fn from_str(text: &str) -> Result<Self, LabelTextError> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self { key: key.to_owned(), value: value.to_owned() }),
            _ => Err(LabelTextError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Label {
    type Error = LabelTextError;
    fn try_from(text: String) -> Result<Self, LabelTextError> {
        text.parse()
    }
}

/// What is logged: a level, or levels by module as tracing's filters write them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LogFilter(String);

impl LogFilter {
    /// The filter's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

/// The text is no log filter.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no log level; write error, warn, info, debug or trace, or levels by module: info,volhost=debug")]
pub struct LogFilterError(String);

impl FromStr for LogFilter {
    type Err = LogFilterError;
    fn from_str(text: &str) -> Result<Self, LogFilterError> {
        match EnvFilter::builder().parse(text) {
            // A bare word that is no level would be read as a module's name, and silence everything else.
            Ok(_) if !text.is_empty() && (text.contains('=') || is_level(text)) => Ok(Self(text.to_owned())),
            _ => Err(LogFilterError(text.to_owned())),
        }
    }
}

fn is_level(text: &str) -> bool {
    ["off", "error", "warn", "info", "debug", "trace"].contains(&text)
}

impl TryFrom<String> for LogFilter {
    type Error = LogFilterError;
    fn try_from(text: String) -> Result<Self, LogFilterError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_filters_are_checked() {
        assert_eq!("a/b=c=d".parse::<Label>().unwrap(), Label { key: "a/b".into(), value: "c=d".into() });
        assert!("ab".parse::<Label>().is_err());
        assert!("=b".parse::<Label>().is_err());
        for good in ["info", "off", "info,volhost=debug"] {
            assert!(good.parse::<LogFilter>().is_ok(), "{good}");
        }
        for bad in ["", "loud", "volhost=loud"] {
            assert!(bad.parse::<LogFilter>().is_err(), "{bad}");
        }
    }
}
