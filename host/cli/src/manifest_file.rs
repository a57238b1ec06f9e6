//! Files with objects, as `apply` and `delete` take them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::CliError;
use volhost_api::MAX_MANIFEST_BYTES;

/// The namespace of an object that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// The extensions of the files of a folder that are manifests, as kubectl has them.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// An object that a file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedObject {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The file's name, for messages.
pub(super) fn shown(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// The files that are named, and those of the folders that are named, by name; not of folders below.
///
/// # Errors
/// [`CliError::File`] for a folder that cannot be read, [`CliError::Failed`] for one without
/// manifests.
pub(super) fn files_of(named: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed = |source| CliError::File { path: path.clone(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            let extension = file.extension().and_then(|extension| extension.to_str());
            if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && file.is_file() {
                found.push(file);
            }
        }
        if found.is_empty() {
            return Err(CliError::Failed(format!(
                "{}: there is no manifest in it; their names end with .yaml, .yml or .json",
                path.display()
            )));
        }
        found.sort();
        files.append(&mut found);
    }
    Ok(files)
}

/// A message of the daemon, which calls the file `request`, with the file's name on each line.
pub(super) fn named(message: &str, file: &Path) -> String {
    let file = shown(file);
    let lines = message.lines().map(|line| match line.strip_prefix("request:") {
        Some(place) => format!("{file}:{place}"),
        None => format!("{file}: {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The text of a file; of standard input for `-`.
///
/// # Errors
/// [`CliError::File`], or [`CliError::Failed`] if it is too large or no text.
pub(super) fn read(file: &Path) -> Result<String, CliError> {
    let failed = |source| CliError::File { path: shown(file).into(), source };
    let source: Box<dyn Read> =
        if file == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(file).map_err(failed)?) };
    let mut bytes = Vec::new();
    source.take(MAX_MANIFEST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_MANIFEST_BYTES {
        return Err(CliError::Failed(format!(
            "{}: it has more than {MAX_MANIFEST_BYTES} bytes; apply its objects in several files",
            shown(file)
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        CliError::Failed(format!(
            "{}: it is not text in UTF-8 (byte {}); is it the right file?",
            shown(file),
            error.utf8_error().valid_up_to()
        ))
    })
}

/// The objects of a manifest in its order, those of lists too, each with its place for messages.
///
/// # Errors
/// [`CliError::Failed`] names the file, if it is neither YAML nor JSON.
pub(super) fn documents(file: &Path, text: &str) -> Result<Vec<(String, Value)>, CliError> {
    let documents: Vec<Value> = match serde_json::from_str(text) {
        Ok(document) => vec![document],
        Err(_) => {
            serde_saphyr::from_multiple(text).map_err(|error| CliError::Failed(format!("{}: {error}", shown(file))))?
        }
    };
    let mut objects = Vec::new();
    for (at, mut document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
        let place = format!("{}: document {}", shown(file), at + 1);
        let is_list = document.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
        match document.get_mut("items").filter(|items| is_list && items.is_array()).map(Value::take) {
            Some(Value::Array(items)) => {
                let items = items.into_iter().enumerate();
                objects.extend(items.map(|(index, item)| (format!("{place}: items[{index}]"), item)));
            }
            _ => objects.push((place, document)),
        }
    }
    Ok(objects)
}

/// The objects that a manifest names, in its order.
///
/// # Errors
/// [`CliError::Failed`] names the file, and the document that is no object.
pub(super) fn objects(file: &Path, text: &str) -> Result<Vec<NamedObject>, CliError> {
    let documents = documents(file, text)?;
    if documents.is_empty() {
        return Err(CliError::Failed(format!("{}: there is no object in it", shown(file))));
    }
    documents.iter().map(|(place, document)| named_object(document, place)).collect()
}

fn named_object(document: &Value, place: &str) -> Result<NamedObject, CliError> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let missing = |field: &str| CliError::Failed(format!("{place}: {field}: is missing or no text"));
    Ok(NamedObject {
        kind: text("/kind").ok_or_else(|| missing("kind"))?.to_owned(),
        namespace: text("/metadata/namespace").unwrap_or(DEFAULT_NAMESPACE).to_owned(),
        name: text("/metadata/name").ok_or_else(|| missing("metadata.name"))?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let objects = objects(Path::new("a.yaml"), text).map_err(|error| error.to_string())?;
        Ok(objects.into_iter().map(|one| format!("{} {}/{}", one.kind, one.namespace, one.name)).collect())
    }

    #[test]
    fn every_object_of_a_manifest_is_named() {
        let yaml = "# none\n---\nkind: Pod\nmetadata: { name: a, namespace: shop }\n---\n---\nkind: List\nitems: [{ kind: Secret, metadata: { name: b } }]\n";
        assert_eq!(read(yaml), Ok(vec!["Pod shop/a".to_owned(), "Secret default/b".to_owned()]));
        assert_eq!(read("{\"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}"), Ok(vec!["Pod default/a".to_owned()]));
    }

    #[test]
    fn a_folder_stands_for_its_manifests() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let listed = || files_of(&[path("alone"), folder.path().to_path_buf()]);
        assert!(listed().unwrap_err().to_string().contains("there is no manifest in it"));
        for name in ["b.yaml", "a.json", "c.yml", "notes.txt"] {
            fs::write(path(name), "").unwrap();
        }
        fs::create_dir(path("below.yaml")).unwrap();
        assert_eq!(listed().unwrap(), ["alone", "a.json", "b.yaml", "c.yml"].map(path));
        assert_eq!(files_of(&[PathBuf::from("-")]).unwrap(), [PathBuf::from("-")]);
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_place() {
        for (text, said) in [
            ("", "a.yaml: there is no object in it"),
            ("kind: Pod\n", "a.yaml: document 1: metadata.name: is missing"),
            ("kind: Pod\nmetadata: { name: a }\n---\nmetadata: { name: b }\n", "a.yaml: document 2: kind: is missing"),
            ("kind: List\nitems: [1]\n", "a.yaml: document 1: items[0]: kind: is missing"),
            ("kind: [\n", "a.yaml: "),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}
