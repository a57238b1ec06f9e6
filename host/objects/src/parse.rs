//! The text of a manifest to checked objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use k8s_openapi::api::core::v1 as k8s;
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use volhost_model::names::{check_dns_label, check_dns_subdomain};
use volhost_model::quantity::parse_bytes;
use volhost_model::{PodUid, SpecName};

use super::error::{FieldError, ManifestError, shorten};
use super::key::{DEFAULT_NAMESPACE, Kind, ObjectKey, Origin, derived_uid};
use super::limits::{OBJECTS_PER_FILE, VOLUMES_PER_POD, check_count};
use super::nearest::nearest;
use super::object::{Object, ObjectContent};
use super::tree::{self, PathStep, TreeNode, TreeValue};
use super::unknown_fields::{UnknownField, UnknownFieldNotice, UnknownFields, unknown_fields};
use super::{claim, csi_driver, ephemeral, keyed, persistent_volume, pod, snapshot, storage_class, volume_attachment};
use crate::trust_bundle;

/// The content of a manifest.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The objects, in the order of the text.
    pub objects: Vec<Arc<Object>>,
    /// The fields that their kinds lack, with file and line: warnings or errors, as the reader
    /// decides.
    pub unknown_fields: Vec<UnknownFieldNotice>,
    /// Other parts that volhost does not use, with file, line and field: warnings, no errors.
    pub notices: Vec<String>,
    /// Objects that were passed over, with file and line: volhost does not know their kinds.
    pub unknown_kinds: Vec<String>,
    /// There is nothing in it but white space and comments.
    pub is_empty: bool,
}

/// Reads a manifest: YAML or JSON, one or several documents, each an object or a `List` of objects.
///
/// # Guarantees
/// All or nothing: an error anywhere yields no object. Never panics. An error shows no value of a
/// Secret.
///
/// # Errors
/// [`ManifestError`] names `file`, which is for messages only, line and field.
pub fn parse(file: &str, text: &str) -> Result<Parsed, ManifestError> {
    read(file, text, UnknownFieldSearch::Everywhere)
}

/// Reads a manifest as [`parse`] does, but reports no field that its kind lacks: the search for them
/// takes half of the time. For what was read before, or is read again by a program that reports them.
///
/// # Guarantees
/// As of [`parse`].
///
/// # Errors
/// As of [`parse`].
pub fn parse_quietly(file: &str, text: &str) -> Result<Parsed, ManifestError> {
    read(file, text, UnknownFieldSearch::Nowhere)
}

/// Where fields are searched for that a kind lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnknownFieldSearch {
    Everywhere,
    Nowhere,
}

fn read(file: &str, text: &str, search: UnknownFieldSearch) -> Result<Parsed, ManifestError> {
    let mut reader = ManifestReader { file: file.into(), search, parsed: Parsed::default() };
    let documents = tree::read(file, text)?;
    reader.parsed.is_empty = documents.is_empty();
    for document in documents {
        reader.document(&document, "")?;
    }
    let mut lines: BTreeMap<&ObjectKey, u32> = BTreeMap::new();
    for object in &reader.parsed.objects {
        if let Some(first) = lines.insert(&object.key, object.origin.line) {
            let (file, object, line) = (file.to_owned(), object.key.to_string(), object.origin.line);
            return Err(ManifestError::Twice { file, line, object, first });
        }
    }
    Ok(reader.parsed)
}

struct ManifestReader {
    file: Arc<str>,
    search: UnknownFieldSearch,
    parsed: Parsed,
}

impl ManifestReader {
    /// Returns the fields of an object that its kind lacks, if they are searched for.
    fn unknown_fields<T: Serialize + DeserializeOwned>(&self, raw: &Value, typed: &T, kind: Kind) -> UnknownFields {
        match self.search {
            UnknownFieldSearch::Everywhere => unknown_fields(raw, typed, kind),
            UnknownFieldSearch::Nowhere => UnknownFields::default(),
        }
    }

    /// Reads one object or list; `above` is its place in the document: empty, or `items[3].`.
    fn document(&mut self, node: &TreeNode, above: &str) -> Result<(), ManifestError> {
        let refuse = |error: FieldError| self.refuse(node, above, error);
        if !matches!(node.value, TreeValue::Map(_)) {
            return Err(refuse(FieldError::other(
                "",
                format!("expected an object with apiVersion and kind, found {}", node.kind()),
            )));
        }
        let text = |field: &str| match node.text(field) {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(refuse(FieldError::other(field, "is missing or no text; every object says apiVersion and kind"))),
        };
        let (version, kind_name) = (text("apiVersion")?, text("kind")?);
        if let Some(items) = node.get("items").filter(|_| kind_name.ends_with("List")) {
            return match &items.value {
                TreeValue::List(items) => items
                    .iter()
                    .enumerate()
                    .try_for_each(|(index, item)| self.document(item, &format!("{above}items[{index}]."))),
                TreeValue::Null => Ok(()),
                _ => Err(refuse(FieldError::other("items", format!("expected a list, found {}", items.kind())))),
            };
        }
        let Some(kind) = Kind::from_name(kind_name) else {
            if let Some(right) = misspelt(kind_name, version) {
                let written = shorten(kind_name);
                return Err(refuse(FieldError::other(
                    "kind",
                    format!("{written:?} is not known; did you mean {right}?"),
                )));
            }
            self.parsed.unknown_kinds.push(format!(
                "{}:{}: volhost does not use objects of kind {} ({})",
                self.file,
                node.line,
                shorten(kind_name),
                shorten(version)
            ));
            return Ok(());
        };
        if version != kind.api_version() {
            return Err(refuse(FieldError::other(
                "apiVersion",
                format!("{:?} has no {kind} that volhost knows; write {}", shorten(version), kind.api_version()),
            )));
        }
        if self.parsed.objects.len() >= OBJECTS_PER_FILE {
            let line = node.line;
            return Err(ManifestError::TooMany { file: self.file.to_string(), line, limit: OBJECTS_PER_FILE });
        }
        let mut object = self.object(node, kind).map_err(refuse)?;
        let line = |path: &str| node.line_of(&tree::steps(path));
        object.1.fields.sort_by_key(|field| line(&field.path));
        for UnknownField { path, meant } in object.1.fields {
            let place = format_args!("{}:{}: {above}{path}", self.file, line(&path));
            self.parsed.unknown_fields.push(UnknownFieldNotice::new(place, kind, meant));
        }
        if object.1.more > 0 {
            let place = format_args!("{}:{}", self.file, node.line);
            self.parsed.unknown_fields.push(UnknownFieldNotice::more(place, kind, object.1.more));
        }
        if matches!(&object.0.content, ObjectContent::VolumeSnapshot(snapshot) if snapshot.content.is_none()) {
            self.parsed.notices.push(format!(
                "{}:{}: {above}spec.source.persistentVolumeClaimName: volhost makes no snapshots; name the content of one that exists (volumeSnapshotContentName)",
                self.file,
                line("spec.source.persistentVolumeClaimName")
            ));
        }
        if matches!(&object.0.content, ObjectContent::VolumeSnapshotContent(content) if content.handle.is_none()) {
            self.parsed.notices.push(format!(
                "{}:{}: {above}spec.source.volumeHandle: volhost makes no snapshots; name one that exists (snapshotHandle)",
                self.file,
                line("spec.source.volumeHandle")
            ));
        }
        self.parsed.objects.push(Arc::new(object.0));
        Ok(())
    }

    /// Names file and line of what is wrong in the object at `node`.
    fn refuse(&self, node: &TreeNode, above: &str, error: FieldError) -> ManifestError {
        let path = format!("{above}{}", error.path);
        let line = node.line_of(&tree::steps(&error.path)).max(1);
        let path = path.trim_end_matches('.').to_owned();
        let path = if path.is_empty() { "document".to_owned() } else { path };
        ManifestError::Field { file: self.file.to_string(), line, path, message: error.problem.to_string() }
    }

    fn object(&self, node: &TreeNode, kind: Kind) -> Result<(Object, UnknownFields), FieldError> {
        let mut raw = node.to_json();
        if !matches!(kind, Kind::ConfigMap | Kind::Secret) {
            numbers_to_quantities(&mut raw);
        }
        let line_of = |path: &str| node.line_of(&tree::steps(path));
        let (content, identity, unknown) = match kind {
            Kind::Pod => {
                let typed: k8s::Pod = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                let volumes = raw_volumes(&mut raw);
                check_count("spec.volumes", "volumes", volumes.len(), VOLUMES_PER_POD)?;
                check_sizes(&volumes)?;
                ephemeral::check(&volumes)?;
                let ObjectIdentity { key, uid, given, .. } = &identity;
                let checked = pod::check(typed, uid, *given, key.namespace.clone(), &self.file, volumes, &line_of)?;
                (ObjectContent::Pod(Arc::new(checked)), identity, unknown)
            }
            Kind::PersistentVolume => {
                let typed: k8s::PersistentVolume = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                let name = SpecName::new(identity.key.name.clone()).map_err(|e| FieldError::new("metadata.name", e))?;
                let spec = match raw.get_mut("spec").map(Value::take) {
                    Some(Value::Object(spec)) => spec,
                    _ => Map::new(),
                };
                let checked = persistent_volume::check(typed, name, &self.file, spec, &line_of)?;
                (ObjectContent::PersistentVolume(Arc::new(checked)), identity, unknown)
            }
            Kind::PersistentVolumeClaim => {
                let typed: k8s::PersistentVolumeClaim = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                let ObjectIdentity { key, uid, given, .. } = &identity;
                let checked = claim::check(typed, uid.clone(), *given, key.namespace.clone(), &self.file)?;
                (ObjectContent::Claim(Arc::new(checked)), identity, unknown)
            }
            Kind::ConfigMap => {
                let typed: k8s::ConfigMap = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                keyed::check_config_map(&typed)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                (ObjectContent::ConfigMap(Arc::new(typed)), identity, unknown)
            }
            Kind::Secret => {
                let typed: k8s::Secret = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                keyed::check_secret(&typed)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                (ObjectContent::Secret(Arc::new(typed)), identity, unknown)
            }
            Kind::ServiceAccount => {
                let typed: k8s::ServiceAccount = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                (ObjectContent::ServiceAccount(Arc::new(typed)), identity, unknown)
            }
            Kind::ClusterTrustBundle => {
                let typed: ClusterTrustBundle = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                trust_bundle::check(&typed.spec.trust_bundle)
                    .map_err(|error| FieldError::new("spec.trustBundle", error))?;
                (ObjectContent::ClusterTrustBundle(Arc::new(typed)), identity, unknown)
            }
            Kind::CsiDriver => {
                let typed: CSIDriver = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                csi_driver::check(&typed.spec)?;
                (ObjectContent::CsiDriver(Arc::new(typed)), identity, unknown)
            }
            Kind::VolumeAttachment => {
                let typed: VolumeAttachment = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                let checked = volume_attachment::check(typed, identity.key.name.clone())?;
                (ObjectContent::VolumeAttachment(Arc::new(checked)), identity, unknown)
            }
            Kind::StorageClass => {
                let typed: StorageClass = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                let checked = storage_class::check(typed, identity.key.name.clone(), &self.file)?;
                (ObjectContent::StorageClass(Arc::new(checked)), identity, unknown)
            }
            Kind::VolumeSnapshot => {
                let typed: snapshot::VolumeSnapshot = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                (ObjectContent::VolumeSnapshot(Arc::new(snapshot::check(typed)?)), identity, unknown)
            }
            Kind::VolumeSnapshotContent => {
                let typed: snapshot::VolumeSnapshotContent = decode(&raw, kind)?;
                let identity = identify(&typed.metadata, kind)?;
                let unknown = self.unknown_fields(&raw, &typed, kind);
                (ObjectContent::VolumeSnapshotContent(Arc::new(snapshot::check_content(typed)?)), identity, unknown)
            }
        };
        let origin = Origin { file: Arc::clone(&self.file), line: node.line };
        let ObjectIdentity { key, uid, given, resource_version } = identity;
        Ok((Object { key, origin, uid, uid_given: given, resource_version, content }, unknown))
    }
}

/// The kind that was meant: one of the same API group with nearly the same name. Kinds of other
/// groups, and those with other names, are for other programs.
fn misspelt(name: &str, version: &str) -> Option<Kind> {
    let meant = |kind: &Kind| kind.api_version() == version || kind.name().eq_ignore_ascii_case(name);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(meant).collect();
    let right = nearest(name, kinds.iter().map(|kind| kind.name()))?;
    kinds.into_iter().find(|kind| kind.name() == right)
}

struct ObjectIdentity {
    key: ObjectKey,
    uid: String,
    given: bool,
    resource_version: String,
}

fn identify(metadata: &ObjectMeta, kind: Kind) -> Result<ObjectIdentity, FieldError> {
    let name = metadata.name.clone().unwrap_or_default();
    let resource_version = metadata.resource_version.clone().unwrap_or_default();
    if kind == Kind::ClusterTrustBundle {
        // The name of a bundle with a signer begins with the signer's, and a colon.
        for part in name.split(':') {
            check_dns_subdomain("ClusterTrustBundle name", part).map_err(|e| FieldError::new("metadata.name", e))?;
        }
        let key = ObjectKey::new(kind, "", name);
        return Ok(ObjectIdentity { given: false, uid: derived_uid(&key), key, resource_version });
    }
    let what = match kind {
        Kind::Pod => "pod name",
        Kind::PersistentVolume => "PersistentVolume name",
        Kind::PersistentVolumeClaim => "PersistentVolumeClaim name",
        Kind::ConfigMap => "ConfigMap name",
        Kind::Secret => "Secret name",
        Kind::ServiceAccount => "ServiceAccount name",
        Kind::ClusterTrustBundle => "ClusterTrustBundle name",
        Kind::CsiDriver => "CSIDriver name",
        Kind::VolumeAttachment => "VolumeAttachment name",
        Kind::StorageClass => "StorageClass name",
        Kind::VolumeSnapshot => "VolumeSnapshot name",
        Kind::VolumeSnapshotContent => "VolumeSnapshotContent name",
    };
    check_dns_subdomain(what, &name).map_err(|e| FieldError::new("metadata.name", e))?;
    let namespace = metadata
        .namespace
        .clone()
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    check_dns_label("namespace", &namespace).map_err(|e| FieldError::new("metadata.namespace", e))?;
    let key = ObjectKey::new(kind, namespace, name);
    let given = metadata.uid.clone().filter(|uid| !uid.is_empty());
    if let Some(uid) = &given {
        PodUid::new(uid.clone()).map_err(|e| FieldError::new("metadata.uid", e))?;
    }
    let (is_given, uid) = (given.is_some(), given.unwrap_or_else(|| derived_uid(&key)));
    Ok(ObjectIdentity { given: is_given, uid, key, resource_version })
}

fn decode<T: DeserializeOwned>(raw: &Value, kind: Kind) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(raw).map_err(|error| {
        let steps: Vec<PathStep> = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                serde_path_to_error::Segment::Seq { index } => Some(PathStep::Index(*index)),
                serde_path_to_error::Segment::Map { key } => Some(PathStep::Key(key.clone())),
                serde_path_to_error::Segment::Enum { variant } => Some(PathStep::Key(variant.clone())),
                serde_path_to_error::Segment::Unknown => None,
            })
            .collect();
        // The decoder's words repeat the value: not for a Secret.
        let message = match kind {
            Kind::Secret => {
                "is not of the form that a Secret has here (the value is not shown); `data` is base64, `stringData` text".to_owned()
            }
            _ => shorten(&error.inner().to_string()),
        };
        FieldError::other(tree::path_text(&steps), message)
    })
}

fn raw_volumes(raw: &mut Value) -> Vec<Map<String, Value>> {
    let volumes = raw.get_mut("spec").and_then(|spec| spec.get_mut("volumes")).map(Value::take);
    let Some(Value::Array(volumes)) = volumes else { return Vec::new() };
    volumes
        .into_iter()
        .filter_map(|volume| if let Value::Object(volume) = volume { Some(volume) } else { None })
        .collect()
}

/// The one quantity in a volume's source, checked here so that the error can name its line.
fn check_sizes(volumes: &[Map<String, Value>]) -> Result<(), FieldError> {
    for (index, volume) in volumes.iter().enumerate() {
        if let Some(Value::String(limit)) = volume.get("emptyDir").and_then(|source| source.get("sizeLimit")) {
            parse_bytes(limit).map_err(|e| FieldError::new(format!("spec.volumes[{index}].emptyDir.sizeLimit"), e))?;
        }
    }
    Ok(())
}

/// Kubernetes takes a bare number for a quantity (`cpu: 2`); the typed objects want text.
fn numbers_to_quantities(value: &mut Value) {
    fn to_text(value: &mut Value) {
        if let Value::Number(number) = value {
            *value = Value::String(number.to_string());
        }
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match key.as_str() {
                    "limits" | "requests" | "capacity" | "allocatedResources" | "overhead" => {
                        if let Value::Object(quantities) = value {
                            quantities.values_mut().for_each(to_text);
                        }
                    }
                    "sizeLimit" | "divisor" => to_text(value),
                    _ => numbers_to_quantities(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(numbers_to_quantities),
        _ => {}
    }
}
