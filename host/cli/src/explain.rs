//! `volhost explain`: why a pod or volume is not ready, as one chain of sentences.

use std::path::Path;

use clap::Args;
use volhost_explain::NodeFacts;
use volhost_explain::sentences::of_pod;
use volhost_model::view::{PodView, VolumeView};

use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::{now_us, printable};
use super::list::{self, Query, View};
use super::output::Output;
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

/// Explains the named pod or volume; all of them, if the name matches several.
pub(super) async fn run(arguments: &ExplainArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let (kind, word, name) = target(&arguments.what)?;
    let mut client = Client::connect(socket).await?;
    let query = Query::new(kind, arguments.namespace.as_deref(), Some(&name));
    let found = list::all(&mut client, socket, query).await?;
    if found.is_empty() {
        return Err(CliError::Failed(format!("no {word} {name} found; `volhost get {word}s` lists all")));
    }
    let facts = facts(&mut client, socket).await?;
    let texts: Vec<String> = found
        .iter()
        .filter_map(|view| match view {
            View::Pod(pod) => Some(of_whole_pod(&facts, pod)),
            View::Volume(volume) => Some(of_volume(&facts, volume)),
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

async fn facts(client: &mut Client, socket: &Path) -> Result<NodeFacts, CliError> {
    let status = within(ANSWER_TIME, socket, client.inspect.status(pb::StatusRequest {})).await?;
    let mut facts = NodeFacts { is_drained: status.draining, ..NodeFacts::default() };
    for kind in [Kind::Claims, Kind::PersistentVolumes, Kind::Plugins, Kind::Operations] {
        for view in list::all(client, socket, Query::new(kind, None, None)).await? {
            match view {
                View::Claim(claim) => facts.claims.push(claim),
                View::PersistentVolume(volume) => facts.persistent_volumes.push(volume),
                View::Plugin(plugin) => facts.plugins.push(plugin),
                View::Operation(operation) => facts.operations.push(operation),
                View::Pod(_) | View::Volume(_) | View::Driver(_) | View::Event(_) => {}
            }
        }
    }
    Ok(facts)
}

/// The pod in a sentence, and the chain of each volume that is not ready.
fn of_whole_pod(facts: &NodeFacts, pod: &PodView) -> String {
    let mut text = of_pod(pod) + "\n";
    for volume in NodeFacts::waiting_volumes(pod) {
        text.push('\n');
        text.push_str(&of_volume(facts, volume));
    }
    text
}

fn of_volume(facts: &NodeFacts, volume: &VolumeView) -> String {
    facts.of_volume(volume, now_us()).into_iter().map(|sentence| printable(&sentence) + "\n").collect()
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
