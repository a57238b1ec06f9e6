//! The fields of a `csi` source of the driver `s3.volhost.io`.

use core::fmt;

use volhost_plugin_sdk::prelude::*;

const ATTRIBUTES: &str = "volumeAttributes";
pub(crate) const BUCKET: &str = "volumeAttributes.bucket";
pub(crate) const PREFIX: &str = "volumeAttributes.prefix";
pub(crate) const ENDPOINT: &str = "volumeAttributes.endpoint";
pub(crate) const REGION: &str = "volumeAttributes.region";
pub(crate) const UID: &str = "volumeAttributes.uid";
pub(crate) const GID: &str = "volumeAttributes.gid";
/// The field that names the secret.
pub(crate) const SECRET: &str = "nodePublishSecretRef";
const READ_ONLY: &str = "readOnly";
/// The lengths of a bucket's name, in bytes: Amazon's rules.
const BUCKET_BYTES: core::ops::RangeInclusive<usize> = 3..=63;
/// The longest key of an object, in bytes.
const KEY_BYTES: usize = 1024;
/// The longest name of a region, in bytes.
const REGION_BYTES: usize = 64;
/// The longest URL of an endpoint, in bytes.
const ENDPOINT_BYTES: usize = 512;
/// Amazon's first region, which servers of others take for granted, too.
const DEFAULT_REGION: &str = "us-east-1";

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) bucket: String,
    /// Without slashes at its ends; none for the whole bucket.
    prefix: Option<String>,
    /// A URL.
    pub(crate) endpoint: String,
    pub(crate) region: String,
    /// The owner and group that every file is shown with.
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) read_only: bool,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&["driver", "volumeHandle", READ_ONLY, ATTRIBUTES, SECRET])?;
        volume.known_fields_at(ATTRIBUTES, &["bucket", "prefix", "endpoint", "region", "uid", "gid"])?;
        secret(volume)?;
        let region = region(volume)?;
        Ok(Self {
            bucket: bucket(volume)?,
            prefix: prefix(volume)?,
            endpoint: endpoint(volume)?.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com")),
            region,
            uid: volume.user_or_group(UID, "the number of a user")?,
            gid: volume.user_or_group(GID, "the number of a group")?,
            read_only: volume.boolean(READ_ONLY)?.unwrap_or(false) || volume.read_only(),
        })
    }

    /// The bucket, and the prefix if there is one: `BUCKET` or `BUCKET/PREFIX`.
    pub(crate) fn path(&self) -> String {
        match &self.prefix {
            Some(prefix) => format!("{}/{prefix}", self.bucket),
            None => self.bucket.clone(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.path(), self.endpoint)
    }
}

fn secret(volume: &Volume) -> Result<()> {
    match volume.kind(SECRET) {
        Some(FieldKind::Map) => {}
        Some(_) => return Err(volume.invalid(SECRET, "must be a map with `name`")),
        None => return Err(volume.invalid(SECRET, "is missing, and required: it names the secret with the access key")),
    }
    volume.known_fields_at(SECRET, &["name", "namespace"])?;
    volume.required(&format!("{SECRET}.name"))?;
    Ok(())
}

fn bucket(volume: &Volume) -> Result<String> {
    let name = volume.required(BUCKET)?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_bucket = BUCKET_BYTES.contains(&name.len())
        && name.starts_with(plain)
        && name.ends_with(plain)
        && name.chars().all(|c| plain(c) || ".-".contains(c))
        && !name.contains("..");
    if is_bucket {
        return Ok(name);
    }
    Err(volume.invalid(
        BUCKET,
        format_args!(
            "{} is no name of a bucket: 3 to 63 lower-case letters, digits, `-` and `.`, a letter or digit at both ends",
            quoted(&name)
        ),
    ))
}

fn prefix(volume: &Volume) -> Result<Option<String>> {
    let Some(written) = volume.short(PREFIX)? else { return Ok(None) };
    let prefix = written.strip_suffix('/').unwrap_or(&written);
    let plain = |c: char| c.is_alphanumeric() || "._-/@+%~".contains(c);
    let why = if prefix.len() > KEY_BYTES {
        "is longer than 1024 bytes, which a key may have"
    } else if prefix.split('/').any(|part| matches!(part, "" | "." | "..")) {
        "must be names with `/` between them, none of them empty, `.` or `..`"
    } else if !prefix.chars().all(plain) {
        "may have letters, digits and `._-/@+%~` only"
    } else {
        return Ok(Some(prefix.to_owned()));
    };
    Err(volume.invalid(PREFIX, format_args!("{} {why}", quoted(&written))))
}

fn endpoint(volume: &Volume) -> Result<Option<String>> {
    let Some(url) = volume.short(ENDPOINT)? else { return Ok(None) };
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    // No user, path or query: nothing but where the server is.
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    let is_server = |rest: &str| {
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        !rest.is_empty() && !rest.starts_with(['-', '.', ':']) && rest.chars().all(plain)
    };
    if url.len() <= ENDPOINT_BYTES && rest.is_some_and(is_server) {
        return Ok(Some(url));
    }
    Err(volume.invalid(
        ENDPOINT,
        format_args!("{} must be `https://` or `http://`, a server and perhaps a port", quoted(&url)),
    ))
}

fn region(volume: &Volume) -> Result<String> {
    let Some(region) = volume.short(REGION)? else { return Ok(DEFAULT_REGION.to_owned()) };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let is_name = region.starts_with(|c: char| c.is_ascii_alphanumeric()) && region.chars().all(plain);
    if is_name && region.len() <= REGION_BYTES {
        return Ok(region);
    }
    Err(volume.invalid(REGION, format_args!("{} is no name of a region", quoted(&region))))
}
