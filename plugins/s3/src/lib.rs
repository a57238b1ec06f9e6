#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod source;
#[cfg(test)]
mod tests;

use source::Source;
use volhost_plugin_sdk::objects::{Keyed, Secret};
use volhost_plugin_sdk::prelude::*;

/// The plugin `volhost.io/s3`.
#[derive(Debug)]
pub struct S3;

/// The name of the FUSE server in the grant.
const SERVER: &str = "s3";
/// The keys of the secret, and the slots that they go into.
const SECRET_SLOTS: [(&str, &str); 2] = [("accessKeyID", "access-key-id"), ("secretAccessKey", "secret-access-key")];

impl VolumePlugin for S3 {
    fn describe(about: &mut Description) {
        about.name("volhost.io/s3").version(env!("CARGO_PKG_VERSION")).serves("csi:s3.volhost.io");
    }

    /// Sets no name: each pod has a server of its own, with the secret of its own namespace.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read(volume).map(|_| ())
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let mount = serve(&source, volume, pod).with_context(|| format!("s3: {source}"))?;
        target.attach(mount)
    }

    /// Returns when the FUSE server has ended: then the bucket has all that was written.
    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

/// Starts the FUSE server, and returns its mount once it serves.
fn serve(source: &Source, volume: &Volume, pod: &Pod) -> Result<DetachedMount> {
    let secret = Secret::of_mount(volume, source::SECRET).with_context(|| volume.place(source::SECRET))?;
    let server = FuseServer::open(SERVER)?;
    let set = |slot: &str, field: &str, text: &str| server.set(slot, text).with_context(|| volume.place(field));
    set("bucket", source::BUCKET, &source.bucket)?;
    set("path", source::PREFIX, &source.path())?;
    set("endpoint", source::ENDPOINT, &source.endpoint)?;
    set("region", source::REGION, &source.region)?;
    if let Some(uid) = source.uid.or_else(|| pod.fs_user()) {
        set("uid", source::UID, &uid.to_string())?;
    }
    if let Some(gid) = source.gid.or_else(|| pod.fs_group()) {
        set("gid", source::GID, &gid.to_string())?;
    }
    for (key, slot) in SECRET_SLOTS {
        let Some(content) = secret.content(key) else {
            return Err(Error::precondition(format!("{} has no key {key}", secret.label())));
        };
        server.set_secret(slot, &content).with_context(|| format!("{}, key {key}", secret.label()))?;
    }
    server.serve(source.read_only)
}

export_plugin!(S3);
