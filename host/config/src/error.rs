//! Errors in options.

use std::path::PathBuf;

use thiserror::Error;

/// An option that cannot be used: where it was given, which one, and what would be right.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {file}: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// The kernel's message.
        source: std::io::Error,
    },
    /// The file is not TOML, has a key that does not exist, or a value that does not fit.
    #[error("the configuration file {file}, line {line}{key}: {message}")]
    File {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// `, key NAME`, if it is about one.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// A variable of the environment has a value that does not fit.
    #[error("the environment variable {variable}: {message}")]
    Variable {
        /// The variable.
        variable: String,
        /// What is wrong.
        message: String,
    },
    /// A value that is well-formed but cannot be used.
    #[error("{option}: {message}")]
    Value {
        /// The option.
        option: &'static str,
        /// What is wrong, and what would be right.
        message: String,
    },
}
