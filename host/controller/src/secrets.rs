//! The Secrets that a class names, by templates.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, SecretReference};
use kube::{Api, Client};
use thiserror::Error;

/// Parameters with this prefix are for the controller, not for the driver.
pub(crate) const PREFIX: &str = "csi.storage.k8s.io/";
/// The file system type.
pub(crate) const FS_TYPE: &str = "csi.storage.k8s.io/fstype";

/// A Secret that a class may name: the part of its parameters' names, and the names that came
/// before the prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecretParameter {
    name: &'static str,
    deprecated: Option<&'static str>,
}

/// For `CreateVolume` and `DeleteVolume`.
pub(crate) const PROVISIONER: SecretParameter =
    SecretParameter { name: "provisioner-secret", deprecated: Some("csiProvisionerSecret") };
/// For `ControllerPublishVolume`.
pub(crate) const PUBLISH: SecretParameter =
    SecretParameter { name: "controller-publish-secret", deprecated: Some("csiControllerPublishSecret") };
/// For `NodeStageVolume`.
pub(crate) const NODE_STAGE: SecretParameter =
    SecretParameter { name: "node-stage-secret", deprecated: Some("csiNodeStageSecret") };
/// For `NodePublishVolume`.
pub(crate) const NODE_PUBLISH: SecretParameter =
    SecretParameter { name: "node-publish-secret", deprecated: Some("csiNodePublishSecret") };
/// For `ControllerExpandVolume`.
pub(crate) const EXPAND: SecretParameter = SecretParameter { name: "controller-expand-secret", deprecated: None };
/// For `NodeExpandVolume`.
pub(crate) const NODE_EXPAND: SecretParameter = SecretParameter { name: "node-expand-secret", deprecated: None };
/// For `ControllerModifyVolume`.
pub(crate) const MODIFY: SecretParameter = SecretParameter { name: "controller-modify-secret", deprecated: None };
/// For `CreateSnapshot` and `DeleteSnapshot`.
pub(crate) const SNAPSHOTTER: SecretParameter = SecretParameter { name: "snapshotter-secret", deprecated: None };
/// For `ListSnapshots` and `GetSnapshot`.
pub(crate) const SNAPSHOTTER_LIST: SecretParameter =
    SecretParameter { name: "snapshotter-list-secret", deprecated: None };
/// For the calls for groups of snapshots.
const GROUP_SNAPSHOTTER: SecretParameter = SecretParameter { name: "group-snapshotter-secret", deprecated: None };
/// Where none of the others is named.
const DEFAULT: SecretParameter = SecretParameter { name: "secret", deprecated: None };

const ALL: [SecretParameter; 8] =
    [PROVISIONER, PUBLISH, NODE_STAGE, NODE_PUBLISH, EXPAND, NODE_EXPAND, MODIFY, DEFAULT];

/// Why a Secret cannot be named or read.
#[derive(Debug, Error)]
pub(crate) enum SecretError {
    /// Half a name.
    #[error(
        "the class has one of the parameters {PREFIX}{0}-name and {PREFIX}{0}-namespace; both are needed, not empty"
    )]
    Half(&'static str),
    /// Two names.
    #[error("the class names the {0} twice, by an old and by a new parameter")]
    Twice(&'static str),
    /// A template with an unknown word.
    #[error("the class's template {template:?} has the unknown or absent value ${{{word}}}")]
    Word {
        /// The template.
        template: String,
        /// The word.
        word: String,
    },
    /// What a template gives is no name.
    #[error("{template:?} gives {value:?}, which is no name of a {what}")]
    Name {
        /// The template.
        template: String,
        /// Its value.
        value: String,
        /// Of what.
        what: &'static str,
    },
    /// The Secret cannot be read.
    #[error("cannot read Secret {namespace}/{name}: {source}")]
    Read {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: kube::Error,
    },
    /// A value is no text, which CSI requires.
    #[error("the key {key} of Secret {namespace}/{name} is no UTF-8")]
    NotText {
        /// The Secret's namespace.
        namespace: String,
        /// The Secret's name.
        name: String,
        /// The key.
        key: String,
    },
}

/// Whether a parameter with the prefix is known.
pub(crate) fn is_known(parameter: &str) -> bool {
    let is_of = |secret: &SecretParameter| {
        parameter
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_prefix(secret.name))
            .is_some_and(|end| end == "-name" || end == "-namespace")
    };
    parameter == FS_TYPE || ALL.iter().any(is_of)
}

/// The Secret that the class names for this, if any.
///
/// # Errors
/// [`SecretError`], without reading the Secret.
pub(crate) fn reference(
    secret: SecretParameter,
    parameters: &BTreeMap<String, String>,
    volume: &str,
    claim: &PersistentVolumeClaim,
) -> Result<Option<SecretReference>, SecretError> {
    let templates = match templates(secret, parameters)? {
        Some(templates) => templates,
        None => match self::templates(DEFAULT, parameters)? {
            Some(templates) => templates,
            None => return Ok(None),
        },
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let values = HashMap::from([
        ("pv.name".to_owned(), volume.to_owned()),
        ("pvc.namespace".to_owned(), text(&claim.metadata.namespace)),
    ]);
    let name = [("pvc.name".to_owned(), text(&claim.metadata.name))];
    let annotations = claim.metadata.annotations.iter().flatten();
    let chosen =
        name.into_iter().chain(annotations.map(|(key, value)| (format!("pvc.annotations['{key}']"), value.clone())));
    filled(templates, values, chosen).map(Some)
}

/// The Secret that the class of a snapshot names for this, if any. `snapshot`: its namespace and
/// name, where its author may choose among Secrets.
///
/// # Errors
/// [`SecretError`], without reading the Secret.
pub(crate) fn of_snapshot(
    secret: SecretParameter,
    parameters: &BTreeMap<String, String>,
    content: &str,
    snapshot: Option<(&str, &str)>,
) -> Result<Option<SecretReference>, SecretError> {
    let Some(templates) = templates(secret, parameters)? else { return Ok(None) };
    let mut values = HashMap::from([("volumesnapshotcontent.name".to_owned(), content.to_owned())]);
    let mut chosen = None;
    if let Some((namespace, name)) = snapshot {
        values.insert("volumesnapshot.namespace".to_owned(), namespace.to_owned());
        chosen = Some(("volumesnapshot.name".to_owned(), name.to_owned()));
    }
    filled(templates, values, chosen).map(Some)
}

/// The Secret that the class of a group of snapshots names, if any. `group`: its namespace and name.
///
/// # Errors
/// [`SecretError`], without reading the Secret.
pub(crate) fn of_group(
    parameters: &BTreeMap<String, String>,
    content: &str,
    (namespace, name): (&str, &str),
) -> Result<Option<SecretReference>, SecretError> {
    let Some(templates) = templates(GROUP_SNAPSHOTTER, parameters)? else { return Ok(None) };
    let values = HashMap::from([
        ("volumegroupsnapshotcontent.name".to_owned(), content.to_owned()),
        ("volumegroupsnapshot.namespace".to_owned(), namespace.to_owned()),
    ]);
    filled(templates, values, [("volumegroupsnapshot.name".to_owned(), name.to_owned())]).map(Some)
}

/// The Secret of these templates, for its name and its namespace. `chosen`: what the author of the
/// claim or of the snapshot chooses, who so may choose among Secrets of that namespace alone.
fn filled(
    templates: (&str, &str),
    mut values: HashMap<String, String>,
    chosen: impl IntoIterator<Item = (String, String)>,
) -> Result<SecretReference, SecretError> {
    let namespace = resolve(templates.1, &values)?;
    check(templates.1, &namespace, "namespace", is_label)?;
    values.extend(chosen);
    let name = resolve(templates.0, &values)?;
    check(templates.0, &name, "Secret", is_subdomain)?;
    Ok(SecretReference { name: Some(name), namespace: Some(namespace) })
}

fn templates(
    secret: SecretParameter,
    parameters: &BTreeMap<String, String>,
) -> Result<Option<(&str, &str)>, SecretError> {
    let find = |end: &str, old_end: &str| {
        let new = parameters.get(&format!("{PREFIX}{}-{end}", secret.name));
        let old = secret.deprecated.and_then(|name| parameters.get(&format!("{name}{old_end}")));
        match (new, old) {
            (Some(_), Some(_)) => Err(SecretError::Twice(secret.name)),
            (new, old) => Ok(new.or(old).map(String::as_str)),
        }
    };
    match (find("name", "Name")?, find("namespace", "Namespace")?) {
        (None, None) => Ok(None),
        (Some(name), Some(namespace)) if !name.is_empty() && !namespace.is_empty() => Ok(Some((name, namespace))),
        _ => Err(SecretError::Half(secret.name)),
    }
}

fn resolve(template: &str, values: &HashMap<String, String>) -> Result<String, SecretError> {
    let mut resolved = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        let unknown = |word: &str| SecretError::Word { template: template.to_owned(), word: word.to_owned() };
        let (word, after) = after.split_once('}').ok_or_else(|| unknown(after))?;
        resolved.push_str(before);
        resolved.push_str(values.get(word).ok_or_else(|| unknown(word))?);
        rest = after;
    }
    resolved.push_str(rest);
    Ok(resolved)
}

fn check(template: &str, value: &str, what: &'static str, is_name: fn(&str) -> bool) -> Result<(), SecretError> {
    let error = || SecretError::Name { template: template.to_owned(), value: value.to_owned(), what };
    if is_name(value) { Ok(()) } else { Err(error()) }
}

fn is_label(name: &str) -> bool {
    name.len() <= 63 && is_part(name)
}

fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_part)
}

fn is_part(name: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_lowercase() || end.is_ascii_digit());
    is_end(name.chars().next())
        && is_end(name.chars().last())
        && name.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-')
}

/// The values of the Secret: none without a reference.
///
/// # Errors
/// [`SecretError`].
pub(crate) async fn read(
    client: &Client,
    reference: Option<&SecretReference>,
) -> Result<HashMap<String, String>, SecretError> {
    let Some(SecretReference { name: Some(name), namespace: Some(namespace) }) = reference else {
        return Ok(HashMap::new());
    };
    let secret = Api::<Secret>::namespaced(client.clone(), namespace)
        .get(name)
        .await
        .map_err(|source| SecretError::Read { namespace: namespace.clone(), name: name.clone(), source })?;
    let text = |(key, value): (String, k8s_openapi::ByteString)| match String::from_utf8(value.0) {
        Ok(value) => Ok((key, value)),
        Err(_) => Err(SecretError::NotText { namespace: namespace.clone(), name: name.clone(), key }),
    };
    secret.data.into_iter().flatten().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> PersistentVolumeClaim {
        let mut claim = PersistentVolumeClaim::default();
        claim.metadata.name = Some("data".to_owned());
        claim.metadata.namespace = Some("shop".to_owned());
        claim.metadata.annotations = Some([("team.example/secret".to_owned(), "keys".to_owned())].into());
        claim
    }

    fn parameters(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn found(pairs: &[(&str, &str)]) -> Result<Option<(String, String)>, String> {
        let reference = reference(PROVISIONER, &parameters(pairs), "pvc-1", &claim());
        let names = |one: SecretReference| (one.namespace.unwrap_or_default(), one.name.unwrap_or_default());
        reference.map(|found| found.map(names)).map_err(|error| error.to_string())
    }

    const NAME: &str = "csi.storage.k8s.io/provisioner-secret-name";
    const NAMESPACE: &str = "csi.storage.k8s.io/provisioner-secret-namespace";

    #[test]
    fn templates_are_resolved_from_the_claim_and_the_volume() {
        let pairs = [(NAME, "${pvc.annotations['team.example/secret']}-${pv.name}"), (NAMESPACE, "${pvc.namespace}")];
        assert_eq!(found(&pairs), Ok(Some(("shop".to_owned(), "keys-pvc-1".to_owned()))));
        let default = [("csi.storage.k8s.io/secret-name", "all"), ("csi.storage.k8s.io/secret-namespace", "kept")];
        assert_eq!(found(&default), Ok(Some(("kept".to_owned(), "all".to_owned()))));
        let old = [("csiProvisionerSecretName", "old"), ("csiProvisionerSecretNamespace", "kept")];
        assert_eq!(found(&old), Ok(Some(("kept".to_owned(), "old".to_owned()))));
        assert_eq!(found(&[]), Ok(None));
    }

    #[test]
    fn a_claim_chooses_no_namespace_and_no_strange_name() {
        assert!(found(&[(NAME, "a"), (NAMESPACE, "${pvc.name}")]).unwrap_err().contains("${pvc.name}"));
        assert!(found(&[(NAME, "A_b"), (NAMESPACE, "kept")]).unwrap_err().contains("no name of a Secret"));
        assert!(found(&[(NAME, "a"), (NAMESPACE, "../kept")]).unwrap_err().contains("no name of a namespace"));
        assert!(found(&[(NAME, "a")]).unwrap_err().contains("both are needed"));
        assert!(found(&[(NAME, "${pv.name"), (NAMESPACE, "kept")]).is_err());
        let twice = [(NAME, "a"), ("csiProvisionerSecretName", "b"), (NAMESPACE, "kept")];
        assert!(found(&twice).unwrap_err().contains("twice"));
    }

    #[test]
    fn a_snapshot_s_author_chooses_no_namespace() {
        let found = |name: &str, namespace: &str, snapshot| {
            let pairs = [
                ("csi.storage.k8s.io/snapshotter-secret-name", name),
                ("csi.storage.k8s.io/snapshotter-secret-namespace", namespace),
            ];
            of_snapshot(SNAPSHOTTER, &parameters(&pairs), "snapcontent-1", snapshot)
                .map(|found| found.and_then(|one| one.namespace.zip(one.name)))
                .map_err(|error| error.to_string())
        };
        let chosen = found("${volumesnapshot.name}", "${volumesnapshot.namespace}", Some(("shop", "daily")));
        assert_eq!(chosen, Ok(Some(("shop".to_owned(), "daily".to_owned()))));
        let own = found("${volumesnapshotcontent.name}", "kept", None);
        assert_eq!(own, Ok(Some(("kept".to_owned(), "snapcontent-1".to_owned()))));
        assert!(found("a", "${volumesnapshot.name}", Some(("shop", "daily"))).unwrap_err().contains("absent value"));
        assert!(found("${volumesnapshot.name}", "kept", None).is_err());
        assert_eq!(found("a", "kept", None), Ok(Some(("kept".to_owned(), "a".to_owned()))));
        let none = of_snapshot(SNAPSHOTTER_LIST, &parameters(&[]), "snapcontent-1", None);
        assert!(none.unwrap().is_none());
    }

    #[test]
    fn known_parameters_are_those_of_secrets_and_the_file_system() {
        assert!(is_known(NAME) && is_known(FS_TYPE) && is_known("csi.storage.k8s.io/secret-namespace"));
        assert!(!is_known("csi.storage.k8s.io/provisioner-secret") && !is_known("csi.storage.k8s.io/other"));
    }
}
