//! What a browser asks for.

use volhost_model::view::{PodView, VolumeView};

use crate::document::{full_name, volume_name};

/// The most characters of a search that count: a name of Kubernetes has 253.
const MAX_CHARACTERS: usize = 512;

/// A request for the page's data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// The pod whose timeline is wanted, by `namespace/name` or uid.
    pub pod: Option<String>,
    /// Words, each of which a pod or volume must have in its names, its plugin or its state to be
    /// listed, in any case. Empty: all are listed.
    pub find: String,
}

/// The words of a search.
#[derive(Debug)]
pub(crate) struct Words(Vec<String>);

impl Words {
    pub(crate) fn of(find: &str) -> Self {
        let bounded: String = find.chars().take(MAX_CHARACTERS).collect();
        Self(bounded.split_whitespace().map(str::to_lowercase).collect())
    }

    pub(crate) fn has_pod(&self, pod: &PodView) -> bool {
        self.are_in(&[&full_name(pod), &pod.uid, pod.phase.as_str()])
            || pod.volumes.iter().any(|volume| self.has_volume(volume))
    }

    pub(crate) fn has_volume(&self, volume: &VolumeView) -> bool {
        self.are_in(&[
            &volume.pod,
            &volume.pod_uid,
            volume_name(volume),
            &volume.unique_name,
            &volume.plugin,
            &volume.claim,
            volume.state.as_str(),
        ])
    }

    fn are_in(&self, texts: &[&str]) -> bool {
        // Without a search, which is usual, nothing is written anew.
        self.0.is_empty() || {
            let texts: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
            self.0.iter().all(|word| texts.iter().any(|text| text.contains(word)))
        }
    }
}
