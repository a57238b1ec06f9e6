//! `volhost delete`.

use std::path::Path;

use super::arguments::{DeleteArguments, RemovedKind};
use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::names;
use super::output::Output;
use volhost_api::pb;

/// Removes an object that `apply` added.
pub(super) async fn run(arguments: &DeleteArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    match arguments.kind {
        RemovedKind::Pod => pod(&arguments.name, socket, output).await,
        RemovedKind::Claim => {
            let named = names::pod(&arguments.name, None)
                .map_err(|_| CliError::Usage(format!("{:?} names no claim; write NAMESPACE/NAME", arguments.name)))?;
            let (namespace, name) = (named.namespace, named.name);
            object("PersistentVolumeClaim", "claim", namespace, name, socket, output).await
        }
        RemovedKind::PersistentVolume => {
            object("PersistentVolume", "PersistentVolume", String::new(), arguments.name.clone(), socket, output).await
        }
        RemovedKind::StorageClass => {
            object("StorageClass", "StorageClass", String::new(), arguments.name.clone(), socket, output).await
        }
        RemovedKind::ConfigMap => namespaced("ConfigMap", &arguments.name, socket, output).await,
        RemovedKind::Secret => namespaced("Secret", &arguments.name, socket, output).await,
        RemovedKind::ServiceAccount => namespaced("ServiceAccount", &arguments.name, socket, output).await,
        RemovedKind::VolumeSnapshot => namespaced("VolumeSnapshot", &arguments.name, socket, output).await,
        RemovedKind::VolumeSnapshotContent => cluster("VolumeSnapshotContent", &arguments.name, socket, output).await,
        RemovedKind::CsiDriver => cluster("CSIDriver", &arguments.name, socket, output).await,
        RemovedKind::VolumeAttachment => cluster("VolumeAttachment", &arguments.name, socket, output).await,
        RemovedKind::ClusterTrustBundle => cluster("ClusterTrustBundle", &arguments.name, socket, output).await,
    }
}

/// An object of a kind that lives in namespaces.
async fn namespaced(kind: &str, name: &str, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let named = names::pod(name, None)
        .map_err(|_| CliError::Usage(format!("{name:?} names no {kind}; write NAMESPACE/NAME")))?;
    object(kind, kind, named.namespace, named.name, socket, output).await
}

/// An object of a kind that lives in no namespace.
async fn cluster(kind: &str, name: &str, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    object(kind, kind, String::new(), name.to_owned(), socket, output).await
}

async fn pod(name: &str, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let pod = names::pod(name, None)?;
    let name = format!("{}/{}", pod.namespace, pod.name);
    let mut client = Client::connect(socket).await?;
    within(ANSWER_TIME, socket, client.manager.remove_pod(pb::RemovePodRequest { pod: Some(pod) })).await?;
    output
        .line(&format!("pod {name} removed; its volumes are being unmounted (volhost wait pod {name} --for unmounted)"))
}

async fn object(
    kind: &str,
    word: &str,
    namespace: String,
    name: String,
    socket: &Path,
    output: &mut Output,
) -> Result<(), CliError> {
    let shown = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
    let request = pb::RemoveObjectRequest { kind: kind.to_owned(), namespace, name };
    let mut client = Client::connect(socket).await?;
    let answer = within(ANSWER_TIME, socket, client.manager.remove_object(request)).await?;
    output.line(&format!("{word} {shown} {}", answer.outcome))
}
