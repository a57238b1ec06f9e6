//! `volhost explain`: why a pod or volume is not ready, as one chain of sentences.

mod sentences;

use std::path::Path;

use clap::Args;
use volhost_model::view::{
    ClaimView, OperationView, PersistentVolumeView, PluginView, PodView, VolumeState, VolumeView,
};

use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::{now_us, printable};
use super::list::{self, Query, View};
use super::output::Output;
use sentences::{Facts, explanation, of_pod};
use volhost_api::pb;
use volhost_api::pb::Kind;

/// `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// What to explain: pod NAME, volume NAME, pod/NAME or volume/NAME; a pod's NAME or NS/NAME, a
    /// volume's NAME or NS/POD/NAME
    #[arg(required = true, num_args = 1..=2, value_name = "TYPE NAME")]
    what: Vec<String>,
    /// The pod's namespace
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
}

/// Everything that explanations are made of.
struct Node {
    claims: Vec<ClaimView>,
    persistent_volumes: Vec<PersistentVolumeView>,
    plugins: Vec<PluginView>,
    operations: Vec<OperationView>,
    is_drained: bool,
}

/// Explains the named pod or volume; all of them, if the name matches several.
pub(super) async fn run(arguments: &ExplainArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let (kind, word, name) = target(&arguments.what)?;
    let mut client = Client::connect(socket).await?;
    let query = Query::new(kind, arguments.namespace.as_deref(), Some(&name));
    let found = list::all(&mut client, socket, query).await?;
    if found.is_empty() {
        return Err(CliError::Failed(format!("no {word} {name} found; `volhost get {word}s` lists all")));
    }
    let node = Node::read(&mut client, socket).await?;
    let texts: Vec<String> = found
        .iter()
        .filter_map(|view| match view {
            View::Pod(pod) => Some(node.pod(pod)),
            View::Volume(volume) => Some(node.volume(volume)),
            _ => None,
        })
        .collect();
    output.write(&texts.join("\n"))
}

/// The kind, its word, and the name.
fn target(what: &[String]) -> Result<(Kind, &'static str, String), CliError> {
    let (of, name) = match what {
        [of, name] => (of.as_str(), name.as_str()),
        [both] => both.split_once('/').unwrap_or((both, "")),
        _ => ("", ""),
    };
    let (kind, word) = match of.to_lowercase().as_str() {
        "pod" | "pods" | "po" => (Kind::Pods, "pod"),
        "volume" | "volumes" | "vol" => (Kind::Volumes, "volume"),
        _ => return Err(CliError::Usage(format!("{of:?} is nothing to explain; there are pod and volume"))),
    };
    match name {
        "" => Err(CliError::Usage(format!("which {word}? Write {word} NAME, or {word}/NAME"))),
        name => Ok((kind, word, name.to_owned())),
    }
}

impl Node {
    async fn read(client: &mut Client, socket: &Path) -> Result<Self, CliError> {
        let status = within(ANSWER_TIME, socket, client.inspect.status(pb::StatusRequest {})).await?;
        let mut node = Self {
            claims: Vec::new(),
            persistent_volumes: Vec::new(),
            plugins: Vec::new(),
            operations: Vec::new(),
            is_drained: status.draining,
        };
        for kind in [Kind::Claims, Kind::PersistentVolumes, Kind::Plugins, Kind::Operations] {
            for view in list::all(client, socket, Query::new(kind, None, None)).await? {
                match view {
                    View::Claim(claim) => node.claims.push(claim),
                    View::PersistentVolume(volume) => node.persistent_volumes.push(volume),
                    View::Plugin(plugin) => node.plugins.push(plugin),
                    View::Operation(operation) => node.operations.push(operation),
                    View::Pod(_) | View::Volume(_) | View::Driver(_) | View::Event(_) => {}
                }
            }
        }
        Ok(node)
    }

    /// The pod in a sentence, and the chain of each volume that is not ready.
    fn pod(&self, pod: &PodView) -> String {
        let mut text = of_pod(pod) + "\n";
        let is_ready = |volume: &VolumeView| volume.state == VolumeState::Mounted && volume.failure.is_none();
        for volume in pod.volumes.iter().filter(|volume| !is_ready(volume)) {
            text.push('\n');
            text.push_str(&self.volume(volume));
        }
        text
    }

    fn volume(&self, volume: &VolumeView) -> String {
        let claim = self.claims.iter().find(|claim| format!("{}/{}", claim.namespace, claim.name) == volume.claim);
        let persistent_volume =
            claim.and_then(|claim| self.persistent_volumes.iter().find(|pv| pv.name == claim.volume));
        // Of a volume that pods share, those of this pod and those of the volume alone.
        let is_ours = |one: &&OperationView| {
            one.running && one.volume == volume.unique_name && (one.pod.is_empty() || one.pod == volume.pod)
        };
        let facts = Facts {
            volume,
            claim,
            persistent_volume,
            plugins: &self.plugins,
            running: self.operations.iter().find(is_ours).filter(|_| !volume.unique_name.is_empty()),
            is_drained: self.is_drained,
            now_us: now_us(),
        };
        explanation(&facts).into_iter().map(|sentence| printable(&sentence) + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_explained_is_typed_as_for_get() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            target(&words).map(|(_, word, name)| (word, name)).map_err(|error| error.to_string())
        };
        assert_eq!(read(&["pod", "web"]), Ok(("pod", "web".to_owned())));
        assert_eq!(read(&["vol/shop/web/data"]), Ok(("volume", "shop/web/data".to_owned())));
        assert!(read(&["pod"]).unwrap_err().contains("which pod?"));
        assert!(read(&["plugin", "a/b"]).unwrap_err().contains("nothing to explain"));
    }
}
