//! Volumes that are made of other volumes of their pod.

use std::collections::BTreeMap;

use thiserror::Error;
use volhost_core::DesiredVolume;
use volhost_model::{NeededVolume, OuterName};

use super::catalog::NoChoice;
use super::error::known_volumes;
use crate::PodObject;

/// A volume that cannot be made of another volume of its pod.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
enum NeedError {
    /// The other volume is needed by a volume that is itself needed.
    #[error(
        "it is made of the volume \"{0}\" of the pod, and another volume is made of it; only one level is possible"
    )]
    Nested(String),
    /// The pod lacks the other volume.
    #[error("it is made of the volume \"{name}\" of the pod, but {known}")]
    Missing { name: String, known: String },
    /// The other volume cannot be used for it.
    #[error("it cannot be made of the volume \"{name}\" of the pod: that one {problem}")]
    Unusable { name: String, problem: &'static str },
}

impl From<NeedError> for NoChoice {
    fn from(error: NeedError) -> Self {
        error.to_string().into()
    }
}

/// A resolved volume, and the names of the volumes that it is made of.
#[derive(Debug, Clone)]
pub(super) struct ResolvedVolume {
    pub(super) volume: DesiredVolume,
    pub(super) needs: Vec<String>,
}

/// Returns every volume that the pod's containers name, then those that only another volume is made
/// of; each with the volumes that it is made of, or the reason why it cannot be resolved.
pub(super) fn resolve_all(
    pod: &PodObject,
    resolve: impl Fn(&OuterName) -> Result<ResolvedVolume, NoChoice>,
) -> Vec<(OuterName, Result<DesiredVolume, NoChoice>)> {
    let mut order = pod.pod.used_volumes.clone();
    let mut all: BTreeMap<OuterName, Result<ResolvedVolume, NoChoice>> =
        order.iter().map(|name| (name.clone(), resolve(name))).collect();
    let named: Vec<String> = all.values().flatten().flat_map(|one| one.needs.clone()).collect();
    for name in named.iter().filter_map(|name| OuterName::new(name.as_str()).ok()) {
        // A volume that the pod lacks is reported with the volume that needs it.
        if pod.volume(&name).is_some() && !all.contains_key(&name) {
            all.insert(name.clone(), resolve(&name));
            order.push(name);
        }
    }
    order.into_iter().filter_map(|name| Some((name.clone(), with_needs(pod, all.get(&name)?, &all)))).collect()
}

fn with_needs(
    pod: &PodObject,
    one: &Result<ResolvedVolume, NoChoice>,
    all: &BTreeMap<OuterName, Result<ResolvedVolume, NoChoice>>,
) -> Result<DesiredVolume, NoChoice> {
    let ResolvedVolume { volume, needs } = one.clone()?;
    let needs = needs.iter().map(|name| needed(pod, name, all)).collect::<Result<_, NoChoice>>()?;
    Ok(DesiredVolume { needs, ..volume })
}

fn needed(
    pod: &PodObject,
    name: &str,
    all: &BTreeMap<OuterName, Result<ResolvedVolume, NoChoice>>,
) -> Result<NeededVolume, NoChoice> {
    let found = all.iter().find(|(outer_name, _)| outer_name.as_str() == name);
    let Some((outer_name, below)) = found else {
        if OuterName::new(name).is_ok_and(|name| pod.volume(&name).is_some()) {
            return Err(NeedError::Nested(name.to_owned()).into());
        }
        return Err(NeedError::Missing { name: name.to_owned(), known: known_volumes(pod) }.into());
    };
    let ResolvedVolume { volume, needs } = match below {
        Ok(below) => below,
        Err(NoChoice { reason, is_pending }) => {
            let reason = format!("it is made of the volume \"{name}\" of the pod, which waits: {reason}");
            return Err(NoChoice { reason, is_pending: *is_pending });
        }
    };
    let problem = if volume.spec.is_block() {
        "is a device"
    } else if volume.follows_source {
        "changes with its source; use one that stays as it is"
    } else if !needs.is_empty() {
        "is itself made of another volume; only one level is possible"
    } else {
        return Ok(NeededVolume {
            name: outer_name.clone(),
            unique_name: volume.unique_name.clone(),
            plugin: volume.plugin.clone(),
            spec_name: volume.spec.name.clone(),
        });
    };
    Err(NeedError::Unusable { name: name.to_owned(), problem }.into())
}
