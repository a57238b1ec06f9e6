//! Fields of a pod as text, by the paths that `downwardAPI` volumes name them with.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use thiserror::Error;

use crate::pod::Pod;

/// Why a field was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PodFieldError {
    /// No field of this path can be shown in a volume.
    #[error(
        "{0:?} is no field that a volume can show; there is metadata.name, metadata.namespace, metadata.uid, metadata.labels, metadata.annotations, metadata.labels['KEY'] and metadata.annotations['KEY']"
    )]
    Unknown(String),
    /// The brackets are not of the form `['KEY']`.
    #[error("{0:?} does not name its key well: write metadata.labels['KEY'] or metadata.annotations['KEY']")]
    Key(String),
}

impl Pod {
    /// One field as text: `metadata.name`, `.namespace`, `.uid`; all of `metadata.labels` or
    /// `.annotations`, one a line as `KEY="VALUE"`, sorted, the value quoted as Go quotes text,
    /// without a line break at the end; or one of them by key, `metadata.labels['KEY']`, which is
    /// empty when the pod has no such key. The form is Kubernetes'.
    ///
    /// # Errors
    /// [`PodFieldError`] names the path and what there is.
    pub fn field(&self, path: &str) -> Result<String, PodFieldError> {
        let shown = || path.chars().take(128).collect::<String>();
        match path {
            "metadata.name" => return Ok(self.name.clone()),
            "metadata.namespace" => return Ok(self.namespace.clone()),
            "metadata.uid" => return Ok(self.uid.as_str().to_owned()),
            "metadata.labels" => return Ok(lines(&self.labels)),
            "metadata.annotations" => return Ok(lines(&self.annotations)),
            _ => {}
        }
        let (map, brackets) = if let Some(rest) = path.strip_prefix("metadata.labels") {
            (&self.labels, rest)
        } else if let Some(rest) = path.strip_prefix("metadata.annotations") {
            (&self.annotations, rest)
        } else {
            return Err(PodFieldError::Unknown(shown()));
        };
        if !brackets.starts_with('[') {
            return Err(PodFieldError::Unknown(shown()));
        }
        let key = brackets.strip_prefix("['").and_then(|rest| rest.strip_suffix("']"));
        match key {
            Some(key) if !key.is_empty() && !key.contains('\'') => Ok(map.get(key).cloned().unwrap_or_default()),
            _ => Err(PodFieldError::Key(shown())),
        }
    }
}

fn lines(map: &BTreeMap<String, String>) -> String {
    let lines: Vec<String> = map.iter().map(|(key, value)| format!("{key}={}", quote(value))).collect();
    lines.join("\n")
}

/// The text in double quotes, as Go's `strconv.Quote` writes it: who reads the file reads it with
/// that in mind.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            printable if is_printable(printable) => quoted.push(printable),
            other => {
                let code = u32::from(other);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..=0x7f => write!(quoted, "\\x{code:02x}"),
                    0x80..=0xffff => write!(quoted, "\\u{code:04x}"),
                    _ => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Whether the letter is printable. The standard library exposes its table only by escaping; after
/// another letter, so that it takes a combining mark for what it is.
fn is_printable(letter: char) -> bool {
    match letter {
        ' '..='~' => true,
        _ => {
            let mut escaped = ['a', letter].iter().collect::<String>();
            escaped = escaped.escape_debug().collect();
            escaped.chars().nth(1) == Some(letter)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::names::PodUid;

    pub(crate) fn pod() -> Pod {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Pod {
            uid: PodUid::new("uid-1").unwrap(),
            namespace: "shop".into(),
            name: "web".into(),
            service_account: String::new(),
            image_pull_secrets: Vec::new(),
            labels: map(&[("tier", "front"), ("app.kubernetes.io/name", "web")]),
            annotations: map(&[("note", "two\nlines \"quoted\" \\ ü \u{1} \u{200b} e\u{301}")]),
            fs_group: None,
            fs_group_change_policy: Default::default(),
            fs_user: None,
            supplemental_groups: Vec::new(),
            memory_limit: None,
            ephemeral_storage_limit: None,
            used_volumes: Vec::new(),
            containers: Vec::new(),
            resources: Default::default(),
            nested_mounts: BTreeMap::new(),
        }
    }

    #[test]
    fn every_field_reads_as_kubernetes_shows_it() {
        for (path, text) in [
            ("metadata.name", "web"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", "uid-1"),
            ("metadata.labels", "app.kubernetes.io/name=\"web\"\ntier=\"front\""),
            ("metadata.annotations", "note=\"two\\nlines \\\"quoted\\\" \\\\ ü \\x01 \\u200b e\u{301}\""),
            ("metadata.labels['app.kubernetes.io/name']", "web"),
            ("metadata.labels['missing']", ""),
            ("metadata.annotations['note']", "two\nlines \"quoted\" \\ ü \u{1} \u{200b} e\u{301}"),
        ] {
            assert_eq!(pod().field(path).as_deref(), Ok(text), "{path}");
        }
    }

    #[test]
    fn what_is_no_field_is_refused_with_what_there_is() {
        for path in ["", "status.podIP", "spec.nodeName", "metadata", "metadata.labelsx", "metadata.name['a']"] {
            assert!(matches!(pod().field(path), Err(PodFieldError::Unknown(_))), "{path}");
        }
        for path in ["metadata.labels[a]", "metadata.labels['a", "metadata.labels['']", "metadata.annotations['a'b']"] {
            assert!(matches!(pod().field(path), Err(PodFieldError::Key(_))), "{path}");
        }
    }
}
