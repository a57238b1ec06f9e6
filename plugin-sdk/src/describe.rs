//! A plugin's descriptions of itself and of one volume.

use std::fmt;

use crate::backend;
use crate::settings::SettingKind;

/// A plugin's description of itself, in [`VolumePlugin::describe`](crate::VolumePlugin::describe).
///
/// ```
/// # use volhost_plugin_sdk::prelude::*;
/// fn describe(about: &mut Description) {
///     about.name("example.com/scratch").version(env!("CARGO_PKG_VERSION")).serves("scratch");
/// }
/// ```
pub struct Description<'call>(&'call backend::Description);

impl<'call> Description<'call> {
    pub(crate) fn new(handle: &'call backend::Description) -> Self {
        Self(handle)
    }

    /// The plugin's name, `vendor/name`: exactly one slash, each side of lower-case letters,
    /// digits, `.` and `-`. It becomes the folder `vendor~name` of a pod.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.0.name(name);
        self
    }

    /// The plugin's own version, for people. `env!("CARGO_PKG_VERSION")` is a good one.
    pub fn version(&mut self, version: &str) -> &mut Self {
        self.0.version(version);
        self
    }

    /// A volume source this plugin serves: the field's name in a Pod's volume or a
    /// PersistentVolume, such as `emptyDir`. Call it once a source. No other loaded plugin may
    /// serve the same.
    pub fn serves(&mut self, source: &str) -> &mut Self {
        self.0.serves(source);
        self
    }

    /// PersistentVolume mount options are passed on. Without this the host refuses a volume that
    /// has some.
    pub fn accepts_mount_options(&mut self) -> &mut Self {
        self.0.accepts_mount_options();
        self
    }

    /// The content follows its source: the host calls `publish` again on a mounted volume when the
    /// source may have changed.
    pub fn follows_its_source(&mut self) -> &mut Self {
        self.0.follows_its_source();
        self
    }

    /// Pods can only read the content: the host treats each volume as read-only, and reports that
    /// to the container runtime.
    pub fn read_only(&mut self) -> &mut Self {
        self.0.read_only();
        self
    }

    /// A value that the operator may give to the plugin; see [`settings`](crate::settings). The
    /// name is lower-case letters, digits and `-`. `help` tells the operator in one line what it is
    /// for, and what is used without it.
    pub fn setting(&mut self, name: &str, kind: SettingKind, help: &str) -> &mut Self {
        self.0.setting(name, backend::setting_kind(kind), help);
        self
    }

    /// As [`setting`](Self::setting), for a value that the operator must give: the host does not
    /// load the plugin without it.
    pub fn required_setting(&mut self, name: &str, kind: SettingKind, help: &str) -> &mut Self {
        self.0.required_setting(name, backend::setting_kind(kind), help);
        self
    }
}

impl fmt::Debug for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Description")
    }
}

/// A plugin's description of one volume, in
/// [`VolumePlugin::identify`](crate::VolumePlugin::identify).
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// struct Shares;
///
/// impl VolumePlugin for Shares {
///     fn describe(about: &mut Description) {
///         about.name("example.com/shares").serves("shares").accepts_mount_options().follows_its_source().read_only();
///     }
///
///     fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
///         id.name(&volume.required("share")?);
///         // This volume is on the node already, and is bound for each pod.
///         id.attachable(false);
///         id.stageable(false);
///         id.attach_limit(16);
///         // The storage limits the volumes of this server separately, and the host
///         // calls `publish` again from time to time.
///         id.attach_limit_of("share", 4);
///         id.refreshed();
///         id.selinux_mount(true);
///         if let Some(base) = volume.short("base")? {
///             id.needs_volume(&base);
///         }
///         Ok(())
///     }
/// #   fn publish(_: &Volume, _: &Pod, _: &MountTarget) -> Result<()> { Ok(()) }
/// #   fn unpublish(_: &MountTarget) -> Result<()> { Ok(()) }
/// }
///
/// let host = volhost_plugin_sdk::testing::TestHost::new();
/// let identity = host.identity::<Shares>(&Volume::builder("shares").field("share", "a").field("base", "b"))?;
/// assert_eq!((identity.name.as_deref(), identity.needs), (Some("a"), vec!["b".to_owned()]));
/// # Ok::<(), Error>(())
/// ```
pub struct Identity<'call>(&'call backend::Identity);

impl<'call> Identity<'call> {
    pub(crate) fn new(handle: &'call backend::Identity) -> Self {
        Self(handle)
    }

    /// The volume's stable name: equal for two specifications of the same storage, whatever pod
    /// uses it. At most 1,024 bytes, no control characters. Volumes without a name are named by
    /// their pod.
    pub fn name(&mut self, name: &str) {
        self.0.name(name);
    }

    /// Sets whether this volume must be attached. Without this, it must if the plugin is an
    /// [`Attacher`](crate::Attacher).
    pub fn attachable(&mut self, attachable: bool) {
        self.0.attachable(attachable);
    }

    /// Sets whether this volume is staged before it is published. Without this, it is if the plugin
    /// is a
    /// [`Stager`](crate::Stager).
    pub fn stageable(&mut self, stageable: bool) {
        self.0.stageable(stageable);
    }

    /// The volume is made of the pod's other volume of this name: the host publishes that one first
    /// and keeps it as long as this one may be mounted.
    /// [`pod_volumes::open`](crate::pod_volumes::open) gives it to `publish`. It must be neither a
    /// device, nor a volume that [follows its source](Description::follows_its_source), nor made of
    /// other volumes itself.
    pub fn needs_volume(&mut self, name: &str) {
        self.0.needs_volume(name);
    }

    /// Sets whether this volume can be mounted with an SELinux label for everything in it. Without
    /// this it is not.
    pub fn selinux_mount(&mut self, selinux_mount: bool) {
        self.0.selinux_mount(selinux_mount);
    }

    /// Limits how many volumes of this plugin may be attached to this node at once; further ones
    /// wait. The operator may set a limit too: the smaller one applies.
    pub fn attach_limit(&mut self, limit: u32) {
        self.0.attach_limit(limit);
    }

    /// As [`Identity::attach_limit`], for the volumes of this plugin whose names have this prefix
    /// only. This volume's own name must begin with it.
    pub fn attach_limit_of(&mut self, names: &str, limit: u32) {
        self.0.attach_limit_of(names, limit);
    }

    /// `publish` is called again on the mounted volume from time to time, besides when its source
    /// may have changed. Only for a plugin that
    /// [follows its source](Description::follows_its_source).
    pub fn refreshed(&mut self) {
        self.0.refreshed();
    }
}

impl fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

/// Usage and health of one volume, in [`Stats::measure`](crate::Stats::measure). The host measures
/// what the plugin does not set.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// fn measure(_volume_name: &str, _target: Option<&MountTarget>, into: &mut Measurement) -> Result<()> {
///     into.capacity(64 << 20);
///     into.used(60 << 20);
///     into.available(4 << 20);
///     into.inodes(1000);
///     into.inodes_used(10);
///     into.inodes_free(990);
///     into.abnormal("one of two paths is down");
///     Ok(())
/// }
/// # let _ = measure;
/// ```
pub struct Measurement<'call>(&'call backend::Measurement);

impl<'call> Measurement<'call> {
    pub(crate) fn new(handle: &'call backend::Measurement) -> Self {
        Self(handle)
    }

    /// Bytes in all.
    pub fn capacity(&mut self, bytes: u64) {
        self.0.capacity(bytes);
    }

    /// Bytes that the pod may still write.
    pub fn available(&mut self, bytes: u64) {
        self.0.available(bytes);
    }

    /// Bytes in use.
    pub fn used(&mut self, bytes: u64) {
        self.0.used(bytes);
    }

    /// Files and folders in all.
    pub fn inodes(&mut self, count: u64) {
        self.0.inodes(count);
    }

    /// Files and folders that may still be made.
    pub fn inodes_free(&mut self, count: u64) {
        self.0.inodes_free(count);
    }

    /// Files and folders in use.
    pub fn inodes_used(&mut self, count: u64) {
        self.0.inodes_used(count);
    }

    /// The volume is not well, and why: one line for the person who reads `volhost describe`.
    pub fn abnormal(&mut self, reason: &str) {
        self.0.abnormal(reason);
    }
}

impl fmt::Debug for Measurement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Measurement")
    }
}
