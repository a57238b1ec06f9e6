//! The fields of a `csi` source of the driver `overlay.volhost.io`.

use volhost_plugin_sdk::MountOptions;
use volhost_plugin_sdk::prelude::*;

const ATTRIBUTES: &str = "volumeAttributes";
const BASE: &str = "volumeAttributes.base";
const TOP: &str = "volumeAttributes.top";
const TOP_SIZE: &str = "volumeAttributes.topSize";
/// The most folders of one base: a plugin holds few handles at a time.
const MOST_BASES: usize = 16;

/// Where what is written goes.
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
    /// The shared folders, the uppermost first.
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
        volume.known_fields_at(ATTRIBUTES, &["base", "top", "topSize"])?;
        let read_only = volume.boolean("readOnly")?.unwrap_or(false);
        let bases = bases(volume)?;
        let top = top(volume)?;
        if read_only && volume.string(TOP).is_some() && !matches!(top, Top::Kept(_)) {
            return Err(
                volume.invalid(TOP, "a volume that is read-only has nothing to write; leave out readOnly, or this")
            );
        }
        if !matches!(top, Top::Memory { .. }) && volume.string(TOP_SIZE).is_some() {
            return Err(volume.invalid(TOP_SIZE, "only a top in memory has a size; add `top: memory`"));
        }
        if let Top::Kept(top) = &top
            && let Some(base) = bases.iter().find(|base| is_within(top, base) || is_within(base, top))
        {
            let why = format!("{} and the base {} lie in one another", quoted(top), quoted(base));
            return Err(volume.invalid(TOP, why));
        }
        Ok(Self { bases, top, mount_options: MountOptions::read(volume).of_mount_alone()? })
    }

    /// Whether the top outlives the pod.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.top, Top::Kept(_))
    }

    /// Opens the shared folders.
    ///
    /// # Errors
    /// `not-found` and `precondition` with the way out, `permission-denied` outside the grant.
    pub(crate) fn open_bases(&self) -> Result<Vec<MountSource>> {
        self.bases.iter().map(|base| open_base(base)).collect()
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
    let twice = bases.iter().enumerate().find(|(index, base)| bases.iter().take(*index).any(|other| other == *base));
    if let Some((_, base)) = twice {
        return Err(volume.invalid(BASE, format_args!("names {} twice", quoted(base))));
    }
    Ok(bases)
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

/// Whether the path is the folder or below it, as they are written; what links make of it, the kernel refuses.
fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
