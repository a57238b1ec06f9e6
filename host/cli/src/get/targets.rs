//! What is listed: `pods`, `pods,volumes`, `pod web`, `pod/web volume/data`.

use clap::ValueEnum;
use volhost_api::pb::Kind;

use crate::error::CliError;

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListKind {
    /// Pods and how many of their volumes are ready
    #[value(aliases = ["pod", "po"])]
    Pods,
    /// Volumes and their states
    #[value(aliases = ["volume", "vol"])]
    Volumes,
    /// Plugins, their exports and imports
    #[value(aliases = ["plugin"])]
    Plugins,
    /// External drivers: FlexVolume executables, CSI drivers
    #[value(aliases = ["driver"])]
    Drivers,
    /// Operations that run or wait for their next try
    #[value(aliases = ["operation", "op", "ops"])]
    Operations,
    /// PersistentVolumeClaims, and which volume each has
    #[value(name = "pvc", aliases = ["pvcs", "claim", "claims", "persistentvolumeclaims", "persistentvolumeclaim"])]
    Claims,
    /// PersistentVolumes, and which claim has each
    #[value(name = "pv", aliases = ["pvs", "persistentvolumes", "persistentvolume"])]
    PersistentVolumes,
}

impl ListKind {
    /// The kind in the API, its plural, and its type before a name.
    pub(super) const fn words(self) -> (Kind, &'static str, &'static str) {
        match self {
            Self::Pods => (Kind::Pods, "pods", "pod"),
            Self::Volumes => (Kind::Volumes, "volumes", "volume"),
            Self::Plugins => (Kind::Plugins, "plugins", "plugin"),
            Self::Drivers => (Kind::Drivers, "drivers", "driver"),
            Self::Operations => (Kind::Operations, "operations", "operation"),
            Self::Claims => (Kind::Claims, "claims", "claim"),
            Self::PersistentVolumes => (Kind::PersistentVolumes, "persistentvolumes", "persistentvolume"),
        }
    }
}

/// Objects of a kind: all, or those of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: ListKind,
    pub(super) name: Option<String>,
}

/// What the words name.
///
/// # Errors
/// [`CliError::Usage`] for a word that is no type, or has none.
pub(super) fn targets(words: &[String]) -> Result<Vec<Target>, CliError> {
    let Some((first, rest)) = words.split_first() else { return Ok(Vec::new()) };
    if first.contains('/') {
        return words.iter().map(|word| named(word)).collect();
    }
    let kinds = first.split(',').map(kind).collect::<Result<Vec<_>, _>>()?;
    Ok(match rest {
        [] => kinds.into_iter().map(|kind| Target { kind, name: None }).collect(),
        names => {
            let of_kind = |kind| names.iter().map(move |name| Target { kind, name: Some(name.clone()) });
            kinds.into_iter().flat_map(of_kind).collect()
        }
    })
}

/// `TYPE/NAME`.
fn named(word: &str) -> Result<Target, CliError> {
    match word.split_once('/') {
        Some((of, name)) if !name.is_empty() => Ok(Target { kind: kind(of)?, name: Some(name.to_owned()) }),
        _ => Err(CliError::Usage(format!("{word:?} is no TYPE/NAME; write one for each object: pod/web volume/data"))),
    }
}

fn kind(word: &str) -> Result<ListKind, CliError> {
    ListKind::from_str(word, true).map_err(|_| {
        CliError::Usage(format!(
            "{word:?} is no type; there are pods, volumes, plugins, drivers, operations, pvc and pv"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Vec<(ListKind, Option<String>)>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let targets = targets(&words).map_err(|error| error.to_string())?;
        Ok(targets.into_iter().map(|target| (target.kind, target.name)).collect())
    }

    #[test]
    fn types_and_names_are_typed_as_for_kubectl() {
        use ListKind::{Pods, Volumes};
        let name = |name: &str| Some(name.to_owned());
        for (words, wanted) in [
            (&["pods"][..], vec![(Pods, None)]),
            (&["po,Volumes"], vec![(Pods, None), (Volumes, None)]),
            (&["pod", "web", "shop/db"], vec![(Pods, name("web")), (Pods, name("shop/db"))]),
            (&["pod,volume", "a"], vec![(Pods, name("a")), (Volumes, name("a"))]),
            (&["pod/web", "vol/shop/db/data"], vec![(Pods, name("web")), (Volumes, name("shop/db/data"))]),
        ] {
            assert_eq!(read(words), Ok(wanted), "{words:?}");
        }
        for (words, said) in [
            (&["pds"][..], "\"pds\" is no type"),
            (&["pods,"], "\"\" is no type"),
            (&["pod/a", "b"], "\"b\" is no TYPE/NAME"),
            (&["pod/"], "\"pod/\" is no TYPE/NAME"),
            (&["pds/a"], "\"pds\" is no type"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.contains(said), "{words:?}: {error}");
        }
    }
}
