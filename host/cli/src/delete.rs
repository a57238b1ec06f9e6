//! `volhost delete`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::printable;
use super::manifest_file::{self, NamedObject};
use super::output::Output;
use volhost_api::pb;

/// What can be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RemovedKind {
    /// A pod
    #[value(aliases = ["pods", "po"])]
    Pod,
    /// A PersistentVolumeClaim
    #[value(name = "pvc", aliases = ["pvcs", "claim", "claims", "persistentvolumeclaim", "persistentvolumeclaims"])]
    Claim,
    /// A PersistentVolume: one that was added, or a released one that was provisioned for a claim
    #[value(name = "pv", aliases = ["pvs", "persistentvolume", "persistentvolumes"])]
    PersistentVolume,
    /// A StorageClass
    #[value(name = "sc", aliases = ["storageclass", "storageclasses"])]
    StorageClass,
    /// A ConfigMap
    #[value(name = "configmap", aliases = ["cm", "configmaps"])]
    ConfigMap,
    /// A Secret
    #[value(name = "secret", aliases = ["secrets"])]
    Secret,
    /// A ServiceAccount
    #[value(name = "serviceaccount", aliases = ["sa", "serviceaccounts"])]
    ServiceAccount,
    /// A CSIDriver
    #[value(name = "csidriver")]
    CsiDriver,
    /// A VolumeAttachment
    #[value(name = "volumeattachment")]
    VolumeAttachment,
    /// A VolumeSnapshot
    #[value(name = "volumesnapshot")]
    VolumeSnapshot,
    /// A VolumeSnapshotContent
    #[value(name = "volumesnapshotcontent")]
    VolumeSnapshotContent,
    /// A ClusterTrustBundle
    #[value(name = "clustertrustbundle")]
    ClusterTrustBundle,
}

impl RemovedKind {
    /// The kind in a manifest, and whether its objects are in namespaces.
    const fn in_manifests(self) -> (&'static str, bool) {
        match self {
            Self::Pod => ("Pod", true),
            Self::Claim => ("PersistentVolumeClaim", true),
            Self::PersistentVolume => ("PersistentVolume", false),
            Self::StorageClass => ("StorageClass", false),
            Self::ConfigMap => ("ConfigMap", true),
            Self::Secret => ("Secret", true),
            Self::ServiceAccount => ("ServiceAccount", true),
            Self::CsiDriver => ("CSIDriver", false),
            Self::VolumeAttachment => ("VolumeAttachment", false),
            Self::VolumeSnapshot => ("VolumeSnapshot", true),
            Self::VolumeSnapshotContent => ("VolumeSnapshotContent", false),
            Self::ClusterTrustBundle => ("ClusterTrustBundle", false),
        }
    }

    /// The kind in messages.
    const fn word(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Claim => "claim",
            other => other.in_manifests().0,
        }
    }

    /// The kinds that can be removed, for messages.
    fn all() -> String {
        let kinds = Self::value_variants().iter().map(|kind| kind.in_manifests().0);
        kinds.collect::<Vec<_>>().join(", ")
    }
}

/// `delete`.
#[derive(Debug, Args)]
pub(super) struct DeleteArguments {
    /// What to remove: TYPE NAME..., or TYPE/NAME...; types are pod, pvc, pv, sc, configmap, secret
    /// and the other kinds in lower case. NAME is NS/NAME, or NAME in the namespace `default`; a
    /// PersistentVolume, for example, has no namespace
    #[arg(value_name = "TYPE[/NAME]", required_unless_present = "files", conflicts_with = "files")]
    what: Vec<String>,
    /// Remove the objects that this file names; `-` reads standard input; give it several times
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The namespace of names without one [default: default]
    #[arg(short, long, value_name = "NS", conflicts_with = "files")]
    namespace: Option<String>,
}

/// An object to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    kind: RemovedKind,
    /// Empty if the kind has none.
    namespace: String,
    name: String,
}

impl Target {
    /// As messages name it.
    fn shown(&self) -> String {
        let place = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        format!("{} {place}{}", self.kind.word(), printable(&self.name))
    }
}

/// Removes objects that `apply` added. Nothing is removed if an argument or a file is wrong; an
/// object that cannot be removed keeps no other one from it.
///
/// # Errors
/// [`CliError::Failed`] has a line for each object that was not removed.
pub(super) async fn run(arguments: &DeleteArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let targets = if arguments.files.is_empty() {
        of_words(&arguments.what, arguments.namespace.as_deref())?
    } else {
        of_files(&arguments.files)?
    };
    let mut client = Client::connect(socket).await?;
    let mut failures = Vec::new();
    for target in &targets {
        match remove(target, &mut client, socket).await {
            Ok(outcome) => output.line(&format!("{} {outcome}", target.shown()))?,
            Err(CliError::Refused(why)) => failures.push(why),
            Err(error) => return Err(error),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(CliError::Refused(failures.join("\n"))) }
}

/// Removes an object, and returns what happens now.
async fn remove(target: &Target, client: &mut Client, socket: &Path) -> Result<String, CliError> {
    let Target { kind, namespace, name } = target.clone();
    if kind == RemovedKind::Pod {
        let pod = pb::PodSelector { uid: String::new(), namespace: namespace.clone(), name: name.clone() };
        let request = pb::RemovePodRequest { pod: Some(pod) };
        within(ANSWER_TIME, socket, client.manager.remove_pod(request)).await?;
        return Ok(format!(
            "removed; its volumes are being unmounted (volhost wait pod {namespace}/{name} --for unmounted)"
        ));
    }
    let request = pb::RemoveObjectRequest { kind: kind.in_manifests().0.to_owned(), namespace, name };
    Ok(within(ANSWER_TIME, socket, client.manager.remove_object(request)).await?.outcome)
}

/// `TYPE NAME...` or `TYPE/NAME...`.
fn of_words(words: &[String], namespace: Option<&str>) -> Result<Vec<Target>, CliError> {
    let Some((first, names)) = words.split_first() else { return Ok(Vec::new()) };
    if first.contains('/') {
        let target = |word: &String| match word.split_once('/') {
            Some((kind, name)) => target(self::kind(kind)?, name, namespace),
            None => {
                Err(CliError::Usage(format!("{word:?} is no TYPE/NAME; write one for each object: pod/web pvc/data")))
            }
        };
        return words.iter().map(target).collect();
    }
    let kind = kind(first)?;
    match names {
        [] => Err(CliError::Usage(format!("which {}? Write {first} NAME, or {first}/NAME", kind.word()))),
        names => names.iter().map(|name| target(kind, name, namespace)).collect(),
    }
}

fn kind(word: &str) -> Result<RemovedKind, CliError> {
    RemovedKind::from_str(word, true).map_err(|_| {
        CliError::Usage(format!(
            "{word:?} is nothing that can be removed. What `apply` added can be: {}. A pod's volumes go with the pod, a named volume with `volhost volume rm`, a plugin with its file",
            RemovedKind::all()
        ))
    })
}

fn target(kind: RemovedKind, name: &str, namespace: Option<&str>) -> Result<Target, CliError> {
    let (_, has_namespace) = kind.in_manifests();
    let (namespace, own) = match name.split_once('/') {
        Some((namespace, own)) if has_namespace => (namespace, own),
        _ => (namespace.unwrap_or("default"), name),
    };
    if namespace.is_empty() || own.is_empty() || own.contains('/') {
        let form = if has_namespace { "NAMESPACE/NAME" } else { "NAME" };
        return Err(CliError::Usage(format!("{name:?} names no {}; write {form}", kind.word())));
    }
    let namespace = if has_namespace { namespace.to_owned() } else { String::new() };
    Ok(Target { kind, namespace, name: own.to_owned() })
}

/// The objects of files: pods first, so that no pod misses an object that goes before it.
fn of_files(files: &[PathBuf]) -> Result<Vec<Target>, CliError> {
    let mut targets = Vec::new();
    for file in files {
        let text = manifest_file::read(file)?;
        for NamedObject { kind: name_of_kind, namespace, name } in manifest_file::objects(file, &text)? {
            let mut kinds = RemovedKind::value_variants().iter();
            let Some(kind) = kinds.find(|kind| kind.in_manifests().0 == name_of_kind).copied() else {
                return Err(CliError::Failed(format!(
                    "{}: {} {} is nothing that can be removed, and nothing was; what `apply` added can be: {}",
                    manifest_file::shown(file),
                    printable(&name_of_kind),
                    printable(&name),
                    RemovedKind::all()
                )));
            };
            let namespace = if kind.in_manifests().1 { namespace } else { String::new() };
            let target = Target { kind, namespace, name };
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }
    targets.sort_by_key(|target| target.kind != RemovedKind::Pod);
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str], namespace: Option<&str>) -> Result<Vec<String>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let targets = of_words(&words, namespace).map_err(|error| error.to_string())?;
        Ok(targets.iter().map(Target::shown).collect())
    }

    #[test]
    fn objects_are_named_by_type_and_name() {
        let named = |words: &[&str], namespace| shown(words, namespace).unwrap();
        assert_eq!(named(&["pod", "web", "shop/db"], None), ["pod default/web", "pod shop/db"]);
        assert_eq!(named(&["pod/shop/web", "pvc/data"], Some("x")), ["pod shop/web", "claim x/data"]);
        assert_eq!(named(&["pv", "disk"], Some("x")), ["PersistentVolume disk"]);
        assert_eq!(named(&["Secrets", "pin"], None), ["Secret default/pin"]);
        for (words, said) in [
            (&["pod"][..], "which pod? Write pod NAME"),
            (&["volume", "a"], "\"volume\" is nothing that can be removed"),
            (&["pod/a", "b"], "\"b\" is no TYPE/NAME"),
            (&["pod/"], "\"\" names no pod; write NAMESPACE/NAME"),
            (&["pv", "a/b"], "\"a/b\" names no PersistentVolume; write NAME"),
            (&["pod", "a/b/c"], "\"a/b/c\" names no pod"),
        ] {
            let error = shown(words, None).unwrap_err();
            assert!(error.contains(said), "{words:?}: {error}");
        }
    }
}
