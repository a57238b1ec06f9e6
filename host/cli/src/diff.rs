//! `volhost diff`: what `apply` would change.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::apply::Validation;
use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::printable;
use super::line_edits::unified;
use super::manifest_file::{files_of, named, read};
use super::output::Output;
use super::structured;
use volhost_api::pb;
use volhost_table::Colour;

/// The name of an object that does not exist.
const NOTHING: &str = "/dev/null";

/// `diff`.
#[derive(Debug, Args)]
pub(super) struct DiffArguments {
    /// File with objects in YAML or JSON, or a folder of such files; `-` reads standard input; give
    /// it several times
    #[arg(short, long = "file", value_name = "FILE|FOLDER", required = true)]
    files: Vec<PathBuf>,
    /// What to do about unknown and misspelt fields
    #[arg(long, value_name = "LEVEL", default_value = "strict")]
    validate: Validation,
}

/// Prints a unified diff for each object that `apply` would add or change. The daemon checks the
/// files as for `apply --dry-run=server`, and adds nothing.
///
/// # Errors
/// [`CliError::Differs`] if something would change; [`CliError::NotCompared`] if a file cannot be
/// applied or no daemon answers.
pub(super) async fn run(arguments: &DiffArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let differs = compare(arguments, socket, output).await.map_err(CliError::not_compared)?;
    if differs { Err(CliError::Differs) } else { Ok(()) }
}

async fn compare(arguments: &DiffArguments, socket: &Path, output: &mut Output) -> Result<bool, CliError> {
    let mut client = Client::connect(socket).await?;
    let mut differs = false;
    // Every file is checked before the first difference is printed.
    let mut texts = Vec::new();
    for file in files_of(&arguments.files)? {
        let manifest = read(&file)?;
        let field_validation = pb::FieldValidation::from(arguments.validate).into();
        let request = pb::CompareObjectsRequest { manifest, field_validation };
        let answer = within(ANSWER_TIME, socket, client.manager.compare_objects(request)).await;
        let compared = answer.map_err(|error| match error {
            CliError::Refused(why) => CliError::Refused(named(&why, &file)),
            other => other,
        })?;
        for warning in &compared.warnings {
            output.note(&format!("Warning: {}", printable(&named(warning, &file))));
        }
        for object in &compared.objects {
            texts.push(difference(object)?);
        }
    }
    for text in texts {
        differs |= !text.is_empty();
        output.write(&painted(&text, output.colour()))?;
    }
    Ok(differs)
}

/// The unified diff of an object as YAML; empty if it would not change.
fn difference(object: &pb::ComparedObject) -> Result<String, CliError> {
    let yaml = |json: &str| {
        let value: Value = serde_json::from_str(json).map_err(|error| CliError::Encode(error.to_string()))?;
        structured::yaml(&value).map(|text| text + "\n")
    };
    let present = object.present.as_deref().map(yaml).transpose()?;
    let applied = yaml(&object.applied)?;
    let name = if object.namespace.is_empty() {
        format!("{}/{}", object.kind, object.name)
    } else {
        format!("{}/{}/{}", object.kind, object.namespace, object.name)
    };
    let old_name = if present.is_some() { format!("present/{name}") } else { NOTHING.to_owned() };
    Ok(unified(&old_name, &format!("applied/{name}"), present.as_deref().unwrap_or_default(), &applied))
}

/// The diff in colours, if colours are wanted.
fn painted(text: &str, colour: bool) -> String {
    let line = |line: &str| match line.chars().next() {
        Some('+') => Colour::Green.paint(line, colour),
        Some('-') => Colour::Red.paint(line, colour),
        _ => line.to_owned(),
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(present: Option<&str>, applied: &str) -> String {
        let object = pb::ComparedObject {
            kind: "ConfigMap".into(),
            namespace: "shop".into(),
            name: "settings".into(),
            present: present.map(str::to_owned),
            applied: applied.to_owned(),
        };
        difference(&object).unwrap()
    }

    #[test]
    fn an_object_is_compared_as_yaml() {
        let old = r#"{"kind":"ConfigMap","data":{"a":"1"}}"#;
        // The order of keys says nothing.
        assert_eq!(compared(Some(old), r#"{"data":{"a":"1"},"kind":"ConfigMap"}"#), "");
        let text = compared(Some(old), r#"{"kind":"ConfigMap","data":{"a":"2"}}"#);
        assert!(
            text.starts_with("--- present/ConfigMap/shop/settings\n+++ applied/ConfigMap/shop/settings\n"),
            "{text}"
        );
        assert!(text.contains("\n-  a: ") && text.contains("\n+  a: "), "{text}");
        let new = compared(None, old);
        assert!(new.starts_with("--- /dev/null\n+++ applied/") && new.contains("\n+kind: ConfigMap\n"), "{new}");
    }

    #[test]
    fn colours_are_only_added() {
        assert_eq!(painted("--- a\n+b\n c\n", false), "--- a\n+b\n c\n");
        assert!(painted("+b\n", true).contains("\u{1b}[32m+b"));
    }
}
