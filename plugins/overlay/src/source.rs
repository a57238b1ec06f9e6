//! The fields of a `csi` source of the driver `overlay.volhost.io`.

use volhost_plugin_sdk::MountOptions;
use volhost_plugin_sdk::prelude::*;

const ATTRIBUTES: &str = "volumeAttributes";
const BASE: &str = "volumeAttributes.base";
const BASE_VOLUME: &str = "volumeAttributes.baseVolume";
const TOP: &str = "volumeAttributes.top";
const TOP_SIZE: &str = "volumeAttributes.topSize";
/// The most layers of one base: the number of a plugin's handles is limited.
const MOST_BASES: usize = 16;
/// As long as a volume's name in a pod can be, in bytes.
const LONGEST_NAME: usize = 63;

/// Where the pod's changes go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Top {
    /// Beside the volume, on disk.
    Disk,
    /// Into memory, of this many bytes at most.
    Memory { size: Option<u64> },
    /// Into this folder of the node.
    Kept(String),
}

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The volumes of the pod that lie below the top, the uppermost first.
    pub(crate) volumes: Vec<String>,
    /// The shared folders below those, the uppermost first.
    pub(crate) bases: Vec<String>,
    pub(crate) top: Top,
    pub(crate) mount_options: Vec<String>,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&["driver", "volumeHandle", "readOnly", ATTRIBUTES])?;
        volume.known_fields_at(ATTRIBUTES, &["base", "baseVolume", "top", "topSize"])?;
        let read_only = volume.boolean("readOnly")?.unwrap_or(false);
        let volumes = base_volumes(volume)?;
        let bases = if volumes.is_empty() || volume.string(BASE).is_some() { bases(volume)? } else { Vec::new() };
        let layers = volumes.len().saturating_add(bases.len());
        if layers > MOST_BASES {
            return Err(
                volume.invalid(BASE, format_args!("and baseVolume have {layers} layers; {MOST_BASES} is the most"))
            );
        }
        let top = top(volume)?;
        if read_only && volume.string(TOP).is_some() && !matches!(top, Top::Kept(_)) {
            return Err(volume.invalid(TOP, "a read-only volume needs no top; leave out readOnly, or this"));
        }
        if !matches!(top, Top::Memory { .. }) && volume.string(TOP_SIZE).is_some() {
            return Err(volume.invalid(TOP_SIZE, "only a top in memory has a size; add `top: memory`"));
        }
        if matches!(top, Top::Kept(_)) && !volumes.is_empty() {
            let why =
                "a top that is kept is shared by pods, and a volume of the pod is not; leave out baseVolume, or this";
            return Err(volume.invalid(TOP, why));
        }
        if let Top::Kept(top) = &top
            && let Some(base) = bases.iter().find(|base| is_within(top, base) || is_within(base, top))
        {
            let why = format!("{} and the base {} lie in one another", quoted(top), quoted(base));
            return Err(volume.invalid(TOP, why));
        }
        Ok(Self { volumes, bases, top, mount_options: MountOptions::read(volume).of_mount_alone()? })
    }

    /// Whether the top outlives the pod.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.top, Top::Kept(_))
    }

    /// Opens the layers below the top: the pod's volumes, then the shared folders.
    ///
    /// # Errors
    /// `not-found` and `precondition` with the way out, `permission-denied` outside the grant.
    pub(crate) fn open_layers(&self, target: &MountTarget) -> Result<Vec<MountSource>> {
        let volumes = self.volumes.iter().map(|name| open_volume(target, name));
        volumes.chain(self.bases.iter().map(|base| open_base(base))).collect()
    }
}

fn open_volume(target: &MountTarget, name: &str) -> Result<MountSource> {
    const FIELD: &str = "csi.volumeAttributes.baseVolume";
    let source = pod_volumes::open(target, name).context(FIELD)?;
    match source.kind() {
        SourceKind::Directory => Ok(source),
        other => Err(Error::precondition(format!("{FIELD}: volume {name} is {other}; it must be a directory"))),
    }
}

fn open_base(base: &str) -> Result<MountSource> {
    const FIELD: &str = "csi.volumeAttributes.base";
    let source = match host_paths::open(base) {
        Err(Error::NotFound(why)) => {
            return Err(Error::not_found(format!(
                "{FIELD}: {base} does not exist on node {}. Is its disk mounted? ({why})",
                node::name()
            )));
        }
        opened => opened.context(FIELD)?,
    };
    match source.kind() {
        SourceKind::Directory => Ok(source),
        other => Err(Error::precondition(format!("{FIELD}: {base} is {other}; it must be a directory"))),
    }
}

fn bases(volume: &Volume) -> Result<Vec<String>> {
    let text = volume.required(BASE)?;
    let bases: Vec<String> = text.split(':').map(|base| base.trim_end_matches('/').to_owned()).collect();
    if bases.len() > MOST_BASES {
        return Err(volume.invalid(BASE, format_args!("has {} folders; {MOST_BASES} is the most", bases.len())));
    }
    for base in &bases {
        check_path(volume, BASE, base)?;
    }
    no_layer_twice(volume, BASE, &bases)?;
    Ok(bases)
}

fn base_volumes(volume: &Volume) -> Result<Vec<String>> {
    let Some(text) = volume.string(BASE_VOLUME) else { return Ok(Vec::new()) };
    let names: Vec<String> = text.split(':').map(str::to_owned).collect();
    let is_name = |name: &&String| {
        (1..=LONGEST_NAME).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        return Err(
            volume.invalid(BASE_VOLUME, format_args!("{} is not the name of a volume of the pod", quoted(name)))
        );
    }
    no_layer_twice(volume, BASE_VOLUME, &names)?;
    Ok(names)
}

fn no_layer_twice(volume: &Volume, field: &str, layers: &[String]) -> Result<()> {
    let twice =
        layers.iter().enumerate().find(|(index, layer)| layers.iter().take(*index).any(|other| other == *layer));
    match twice {
        Some((_, layer)) => Err(volume.invalid(field, format_args!("names {} twice", quoted(layer)))),
        None => Ok(()),
    }
}

fn top(volume: &Volume) -> Result<Top> {
    match volume.string(TOP).as_deref() {
        None | Some("disk") => Ok(Top::Disk),
        Some("memory") => Ok(Top::Memory { size: volume.bytes(TOP_SIZE)? }),
        Some(path) if path.starts_with('/') => {
            let path = path.trim_end_matches('/');
            check_path(volume, TOP, path)?;
            Ok(Top::Kept(path.to_owned()))
        }
        Some(other) => {
            Err(volume.invalid(TOP, format_args!("{} must be disk, memory, or an absolute path", quoted(other))))
        }
    }
}

fn check_path(volume: &Volume, field: &str, path: &str) -> Result<()> {
    let why = if !path.starts_with('/') {
        "must be an absolute path, and not the root folder"
    } else if path.split('/').any(|name| name == "..") {
        r#"must not contain "..""#
    } else if path.chars().any(char::is_control) {
        "has a control character"
    } else {
        return Ok(());
    };
    Err(volume.invalid(field, format_args!("{} {why}", quoted(path))))
}

/// Whether the path is the folder or below it, as they are written. The kernel refuses what links
/// make of it.
fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
