//! Servers on the network of the double, and what they export.

use super::host::TestHost;

impl TestHost {
    /// Lets a server export a folder, by these versions of the protocol. A mount of it has the
    /// source `SERVER:PATH`, or `//SERVER/PATH` with the type `cifs`, which needs no version; an
    /// option with a secret value has the value `secret`. A server that exports nothing can't be reached.
    pub fn share(&self, server: &str, path: &str, versions: &[&str]) -> &Self {
        let versions = versions.iter().map(|version| (*version).to_owned()).collect();
        self.change(|world| {
            world.shares.entry(server.to_owned()).or_default().insert(path.to_owned(), versions);
        })
    }
}

pub(crate) mod network_mounts {
    use crate::error::{Error, Result};
    use crate::testing::files::Content;
    use crate::testing::mount::{DetachedMount, FsOption, TestMount};
    use crate::testing::world::current;

    /// The types that the contract allows.
    const TYPES: &[&str] = &["cifs", "nfs"];
    const CIFS: &str = "cifs";
    /// The options with secret values, all of `cifs`.
    const SECRETS: &[&str] = &["domain", "password", "username"];
    /// Options that the host sets.
    const OF_THE_HOST: &[&str] = &["addr", "clientaddr", "ip", "mountaddr", "mounthost", "source"];
    /// The options that name the protocol's version.
    const VERSION: &[&str] = &["vers", "nfsvers"];

    /// An option with a secret value.
    pub(crate) struct SecretOption(String);

    pub(crate) fn secret_option(key: &str, _: &Content) -> SecretOption {
        SecretOption(key.to_owned())
    }

    pub(crate) fn mount(fs_type: &str, server: &str, path: &str, options: &[FsOption]) -> Result<DetachedMount> {
        mount_with_secrets(fs_type, server, path, options, &[])
    }

    pub(crate) fn mount_with_secrets(
        fs_type: &str,
        server: &str,
        path: &str,
        options: &[FsOption],
        secrets: &[SecretOption],
    ) -> Result<DetachedMount> {
        let world = current();
        world.borrow_mut().called("network-mounts.mount")?;
        if !TYPES.contains(&fs_type) {
            return Err(Error::unsupported(format!("no file system of type {fs_type:?} is mounted over the network")));
        }
        if !path.starts_with('/') || path.split('/').any(|name| name == "..") || path.chars().any(char::is_control) {
            return Err(Error::invalid_argument(format!("{path:?} must be an absolute path without `..`")));
        }
        let tricks = |option: &FsOption| {
            let value = option.value.as_deref().unwrap_or_default();
            OF_THE_HOST.contains(&option.key.as_str())
                || SECRETS.contains(&option.key.as_str())
                || value.contains(|c: char| c == ',' || c.is_whitespace() || c.is_control())
        };
        if let Some(option) = options.iter().find(|option| tricks(option)) {
            return Err(Error::invalid_argument(format!("option {:?} of {fs_type}: it is refused", option.key)));
        }
        let takes = |key: &str| fs_type == CIFS && SECRETS.contains(&key);
        if let Some(SecretOption(key)) = secrets.iter().find(|SecretOption(key)| !takes(key)) {
            return Err(Error::invalid_argument(format!("option {key:?} of {fs_type}: it takes no secret")));
        }
        let known = world.borrow().shares.get(server).cloned();
        let known = known.ok_or_else(|| Error::retryable(format!("the server {server} can't be reached")))?;
        let versions = known
            .get(path)
            .ok_or_else(|| Error::not_found(format!("{server}:{path}: the server exports no such folder")))?;
        let version = options.iter().rev().find(|option| VERSION.contains(&option.key.as_str()));
        let version = version.and_then(|option| option.value.as_deref()).unwrap_or_default();
        let negotiated = fs_type == CIFS && version.is_empty();
        if !negotiated && !versions.iter().any(|spoken| spoken == version) {
            let text = format!("mounting {server}:{path}: the server does not speak this version of the protocol");
            return Err(Error::unsupported(text));
        }
        let mut mount = TestMount::of_type(fs_type);
        let source = if fs_type == CIFS { format!("//{server}{path}") } else { format!("{server}:{path}") };
        mount.source = Some(source);
        mount.options = options.iter().map(|option| (option.key.clone(), option.value.clone())).collect();
        mount.options.extend(secrets.iter().map(|secret| (secret.0.clone(), Some("secret".to_owned()))));
        Ok(DetachedMount::new(&world, mount))
    }
}
