//! Provisioning: volumes as folders of a share.

use volhost_plugin_sdk::prelude::*;

use crate::Nfs;
use crate::handle::{Handle, Share};
use crate::made::Volumes;
use crate::parameters::Parameters;
use crate::record::Record;
use crate::source::{PATH, SERVER};

/// The setting with the shares whose volumes are listed.
pub(crate) const SHARES: &str = "shares";
pub(crate) const SHARES_HELP: &str =
    "shares, as SERVER:/PATH, whose made volumes are listed; without it none are, and everything else works";
/// The size of a volume that no size is asked for, in bytes.
const DEFAULT_BYTES: u64 = 1 << 30;
/// The largest size of a volume, in bytes: more is a mistake in writing.
const LARGEST_BYTES: u64 = 1 << 60;

fn out_of_range(message: String) -> Error {
    Error::other("OUT_OF_RANGE", message)
}

/// The size to record for a request.
fn size(required: Option<u64>, limit: Option<u64>) -> Result<u64> {
    let wanted = required.unwrap_or_else(|| limit.map_or(DEFAULT_BYTES, |limit| limit.min(DEFAULT_BYTES)));
    if wanted > LARGEST_BYTES {
        return Err(out_of_range(format!("{wanted} bytes are requested, and a volume has {LARGEST_BYTES} at most")));
    }
    match limit {
        Some(limit) if limit < wanted => {
            Err(out_of_range(format!("at least {wanted} bytes are requested, and at most {limit}")))
        }
        _ => Ok(wanted),
    }
}

fn answer(into: &mut VolumeAnswer, handle: &Handle, record: &Record) {
    let share = &handle.share;
    let path = format!("{}/{}", share.path.trim_end_matches('/'), record.folder);
    into.id(&handle.to_string()).capacity(record.bytes).attribute(SERVER, &share.server).attribute(PATH, &path);
}

/// The record of a volume that was made.
fn made(volumes: &Volumes, handle: &Handle) -> Result<Record> {
    volumes
        .record(&handle.name)?
        .filter(|record| record.made)
        .ok_or_else(|| Error::not_found(format!("there is no volume {}", quoted(&handle.to_string()))))
}

impl Controller for Nfs {
    fn create(wanted: &VolumeRequest, into: &mut VolumeAnswer) -> Result<()> {
        let Parameters { share, folder, on_delete, mode } = Parameters::read(wanted)?;
        if wanted.as_device() {
            return Err(Error::invalid_argument("volumeMode: a folder of a share is no device; use Filesystem"));
        }
        if wanted.source_volume().is_some() || wanted.source_snapshot().is_some() {
            return Err(Error::invalid_argument("dataSource: a volume of a share begins empty"));
        }
        let (required, limit) = (wanted.required_bytes(), wanted.limit_bytes());
        let bytes = size(required, limit)?;
        let handle = Handle::new(share, wanted.name())?;
        let volumes = Volumes::of(&handle.share)?;
        let record = match volumes.record(&handle.name)? {
            Some(record) if record.made => {
                let fits = required.is_none_or(|required| record.bytes >= required)
                    && limit.is_none_or(|limit| record.bytes <= limit);
                if !fits {
                    return Err(Error::conflict(format!(
                        "there is a volume {} of {} bytes, which does not fit the request",
                        quoted(&handle.to_string()),
                        record.bytes
                    )));
                }
                record
            }
            _ => volumes.make(&handle.name, Record { folder, bytes, on_delete, made: false }, mode)?,
        };
        answer(into, &handle, &record);
        Ok(())
    }

    fn delete(volume_id: &str) -> Result<()> {
        let handle = Handle::read(volume_id)?;
        let volumes = Volumes::of(&handle.share)?;
        match volumes.record(&handle.name)? {
            Some(record) => volumes.delete(&handle.name, &record),
            None => Ok(()),
        }
    }

    fn find(volume_id: &str, into: &mut VolumeAnswer) -> Result<()> {
        let handle = Handle::read(volume_id)?;
        let record = made(&Volumes::of(&handle.share)?, &handle)?;
        answer(into, &handle, &record);
        Ok(())
    }

    fn expand(volume_id: &str, to: u64, limit: Option<u64>) -> Result<u64> {
        let handle = Handle::read(volume_id)?;
        let volumes = Volumes::of(&handle.share)?;
        let record = made(&volumes, &handle)?;
        if record.bytes >= to {
            return match limit {
                Some(limit) if record.bytes > limit => {
                    Err(out_of_range(format!("the volume has {} bytes already, and none shrinks", record.bytes)))
                }
                _ => Ok(record.bytes),
            };
        }
        let bytes = size(Some(to), limit)?;
        volumes.write(&handle.name, &Record { bytes, ..record })?;
        Ok(bytes)
    }

    fn list_volumes(start: &str, most: u32, into: &mut VolumePage) -> Result<()> {
        let shares = shares()?;
        let mut after = (!start.is_empty()).then(|| token(start, &shares)).transpose()?;
        let mut left = most;
        let mut last = String::new();
        for share in &shares {
            // The shares before the token's were listed.
            let from = match &after {
                Some(handle) if handle.share != *share => continue,
                _ => after.take().map(|handle| handle.name),
            };
            let volumes = Volumes::of(share)?;
            for name in volumes.names()?.into_iter().filter(|name| from.as_ref().is_none_or(|from| name > from)) {
                let Some(record) = volumes.record(&name)?.filter(|record| record.made) else { continue };
                if left == 0 {
                    into.next(&last);
                    return Ok(());
                }
                last = volumes.handle(&name).to_string();
                into.add(&last, record.bytes);
                left -= 1;
            }
        }
        Ok(())
    }
}

/// The shares of the setting.
fn shares() -> Result<Vec<Share>> {
    let read = |text: &String| Share::read(text).map_err(|why| Error::precondition(format!("setting {SHARES}: {why}")));
    settings::texts(SHARES).iter().map(read).collect()
}

/// The handle that a page ended with.
fn token(start: &str, shares: &[Share]) -> Result<Handle> {
    let given = Handle::read(start).ok().filter(|handle| shares.contains(&handle.share));
    given.ok_or_else(|| Error::invalid_argument(format!("{} is no token of a page", quoted(start))))
}
