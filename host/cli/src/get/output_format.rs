//! `-o`: how to print objects.

use thiserror::Error;

use super::json_path::{JsonPathError, Path, Template, split_at_commas};

/// How to print objects.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OutputFormat {
    /// A table with more columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// `TYPE/NAME`, one a line.
    Name,
    /// What a template selects.
    JsonPath(Template),
    /// A table of what paths select.
    CustomColumns(Vec<CustomColumn>),
}

/// A column of `-o custom-columns`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CustomColumn {
    pub(super) header: String,
    pub(super) path: Path,
}

/// A text that is no output format.
#[derive(Debug, Error)]
pub(crate) enum OutputFormatError {
    #[error("there is json, yaml, wide, name, jsonpath=TEMPLATE and custom-columns=HEADER:PATH,...")]
    Unknown,
    #[error("it has no template: jsonpath='{{.items[*].metadata.name}}'")]
    NoTemplate,
    #[error("it has no columns: custom-columns=NAME:.metadata.name,PHASE:.status.phase")]
    NoColumns,
    #[error("{0:?} is no column; write HEADER:PATH, as NAME:.metadata.name")]
    Column(String),
    #[error(transparent)]
    JsonPath(#[from] JsonPathError),
}

impl OutputFormat {
    /// Reads what was typed after `-o`.
    ///
    /// # Errors
    /// [`OutputFormatError`].
    pub(crate) fn parse(text: &str) -> Result<Self, OutputFormatError> {
        let (format, argument) = match text.split_once('=') {
            Some((format, argument)) => (format, Some(argument).filter(|argument| !argument.is_empty())),
            None => (text, None),
        };
        match (format, argument) {
            ("wide", None) => Ok(Self::Wide),
            ("json", None) => Ok(Self::Json),
            ("yaml", None) => Ok(Self::Yaml),
            ("name", None) => Ok(Self::Name),
            ("jsonpath", None) => Err(OutputFormatError::NoTemplate),
            ("jsonpath", Some(template)) => Ok(Self::JsonPath(Template::parse(template)?)),
            ("custom-columns", None) => Err(OutputFormatError::NoColumns),
            ("custom-columns", Some(columns)) => {
                split_at_commas(columns).into_iter().map(column).collect::<Result<_, _>>().map(Self::CustomColumns)
            }
            _ => Err(OutputFormatError::Unknown),
        }
    }
}

fn column(text: &str) -> Result<CustomColumn, OutputFormatError> {
    let (header, path) = text.split_once(':').ok_or_else(|| OutputFormatError::Column(text.to_owned()))?;
    if header.is_empty() || path.is_empty() {
        return Err(OutputFormatError::Column(text.to_owned()));
    }
    Ok(CustomColumn { header: header.to_owned(), path: Path::relaxed(path)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_typed_as_for_kubectl() {
        assert_eq!(OutputFormat::parse("json").unwrap(), OutputFormat::Json);
        assert!(matches!(OutputFormat::parse("jsonpath={.a}"), Ok(OutputFormat::JsonPath(_))));
        let columns = OutputFormat::parse("custom-columns=A:.a,B:.b[?(@.c==\"x,y\")]").unwrap();
        let OutputFormat::CustomColumns(columns) = columns else { panic!("{columns:?}") };
        assert_eq!(columns.iter().map(|column| column.header.as_str()).collect::<Vec<_>>(), ["A", "B"]);
        for (text, said) in [
            ("jason", "there is json"),
            ("json=x", "there is json"),
            ("jsonpath", "no template"),
            ("jsonpath=", "no template"),
            ("jsonpath=.a", "in braces"),
            ("custom-columns=", "no columns"),
            ("custom-columns=A", "\"A\" is no column"),
            ("custom-columns=A:.a,:.b", "\":.b\" is no column"),
            ("custom-columns=A:.a[", "no closing bracket"),
        ] {
            let error = OutputFormat::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
