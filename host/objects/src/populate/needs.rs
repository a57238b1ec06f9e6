//! Volumes that are made of other volumes of their pod.

use std::collections::BTreeMap;

use volhost_core::DesiredVolume;
use volhost_model::{NeededVolume, OuterName};

use super::catalog::NoChoice;
use crate::PodObject;

/// A resolved volume, and the names of those that it is made of.
#[derive(Debug, Clone)]
pub(super) struct Resolved {
    pub(super) volume: DesiredVolume,
    pub(super) needs: Vec<String>,
}

/// Every volume that the pod's containers name, then those that only another volume is made of; each with what it is made of, or the
/// reason why it cannot be resolved.
pub(super) fn resolve_all(
    pod: &PodObject,
    resolve: impl Fn(&OuterName) -> Result<Resolved, NoChoice>,
) -> Vec<(OuterName, Result<DesiredVolume, NoChoice>)> {
    let mut order = pod.pod.used_volumes.clone();
    let mut all: BTreeMap<OuterName, Result<Resolved, NoChoice>> =
        order.iter().map(|name| (name.clone(), resolve(name))).collect();
    let named: Vec<String> = all.values().flatten().flat_map(|one| one.needs.clone()).collect();
    for name in named.iter().filter_map(|name| OuterName::new(name.as_str()).ok()) {
        // One that the pod lacks is told of the volume that needs it.
        if pod.volume(&name).is_some() && !all.contains_key(&name) {
            all.insert(name.clone(), resolve(&name));
            order.push(name);
        }
    }
    order.into_iter().filter_map(|name| Some((name.clone(), with_needs(pod, all.get(&name)?, &all)))).collect()
}

fn with_needs(
    pod: &PodObject,
    one: &Result<Resolved, NoChoice>,
    all: &BTreeMap<OuterName, Result<Resolved, NoChoice>>,
) -> Result<DesiredVolume, NoChoice> {
    let Resolved { volume, needs } = one.clone()?;
    let needs = needs.iter().map(|name| needed(pod, name, all)).collect::<Result<_, NoChoice>>()?;
    Ok(DesiredVolume { needs, ..volume })
}

fn needed(
    pod: &PodObject,
    name: &str,
    all: &BTreeMap<OuterName, Result<Resolved, NoChoice>>,
) -> Result<NeededVolume, NoChoice> {
    let found = all.iter().find(|(outer_name, _)| outer_name.as_str() == name);
    let Some((outer_name, below)) = found else {
        if OuterName::new(name).is_ok_and(|name| pod.volume(&name).is_some()) {
            return Err(format!(
                "it is made of the volume \"{name}\" of the pod, and another volume is made of it; only one level is possible"
            )
            .into());
        }
        return Err(format!("it is made of the volume \"{name}\" of the pod, but {}", super::has_only(pod)).into());
    };
    let Resolved { volume, needs } = match below {
        Ok(below) => below,
        Err(NoChoice { reason, is_pending }) => {
            let reason = format!("it is made of the volume \"{name}\" of the pod, which waits: {reason}");
            return Err(NoChoice { reason, is_pending: *is_pending });
        }
    };
    let why = if volume.spec.is_block() {
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
    Err(format!("it cannot be made of the volume \"{name}\" of the pod: that one {why}").into())
}
