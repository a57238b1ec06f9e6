//! The double itself.

use std::cell::RefCell;
use std::rc::Rc;

use super::clients::{TestEvent, TestLine};
use super::identity::{self, TestDescription, TestIdentity};
use super::objects::{Data, TrustBundle};
use super::pod::TestPod;
use super::target::{MountTarget, TestTarget};
use super::tree::Node;
use super::volume::TestVolume;
use super::world::{self, CALLS, Fault, Setting, Shared, World};
use crate::error::{Error, Result};
use crate::plugin::VolumePlugin;

/// A node in memory. It is this thread's host until it is dropped; a thread has one at a time.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::testing::{TestEvent, TestHost, TestLine};
/// # struct Mine;
/// # impl VolumePlugin for Mine {
/// #     fn describe(about: &mut Description) { about.name("example.com/mine").serves("mine"); }
/// #     fn identify(volume: &Volume, id: &mut Identity) -> Result<()> { id.name(&volume.spec_name()); Ok(()) }
/// #     fn publish(_: &Volume, _: &Pod, target: &MountTarget) -> Result<()> { log::info("published"); events::normal("Made", "it"); target.attach(Tmpfs::new().create()?) }
/// #     fn unpublish(target: &MountTarget) -> Result<()> { target.detach() }
/// # }
///
/// // A node: its name, memory, features, paths and objects.
/// let host = TestHost::new();
/// host.node_name("worker-3").node_label("zone", "b").allocatable_memory(16 << 30);
/// host.huge_pages(&[2 << 20]).folder_quotas().without_tmpfs_option("noswap");
/// host.grant("/srv").directory("/srv/data").file("/srv/f").socket("/srv/s").fifo("/srv/p").symlink("/srv/l", "/srv/data");
/// host.char_device("/dev/zero").block_device("/dev/sda");
/// host.config_map("app", &[("a.conf", b"x")]).secret("key", &[("password", b"x")]);
/// host.trust_bundle("ca", None, "PEM").issues_tokens().csi_driver("csi.example.com", "{}");
/// host.remove_config_map("app").remove_secret("key");
/// assert!(host.has_path("/srv/data"));
///
/// // Calls of the plugin, as the real host makes them.
/// let (volume, pod) = (Volume::builder("mine").named("data"), Pod::builder().with_uid("uid-1"));
/// assert_eq!(host.describe::<Mine>().name, "example.com/mine");
/// assert_eq!(host.identify::<Mine>(&volume)?.as_deref(), Some("data"));
/// host.publish::<Mine>(&volume, &pod)?;
/// assert!(host.target_of(&pod, "data").mount().is_some());
///
/// // Its log lines and events.
/// let lines: Vec<TestLine> = host.lines();
/// assert_eq!(lines[0].message, "published");
/// let events: Vec<TestEvent> = host.events();
/// assert_eq!((events[0].reason.as_str(), events[0].warning), ("Made", false));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct TestHost {
    pub(super) world: Shared,
}

impl TestHost {
    /// A node `node-1` with 8 GiB of allocatable memory, every tmpfs option, no label, no host path
    /// and no grant.
    ///
    /// # Panics
    /// If this thread has a host already.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it becomes the thread's host, which a default should not")]
    pub fn new() -> Self {
        let world = Rc::new(RefCell::new(World::new()));
        world::install(&world);
        Self { world }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut World)) -> &Self {
        change(&mut self.world.borrow_mut());
        self
    }

    // The node.

    /// Names the node.
    pub fn node_name(&self, name: &str) -> &Self {
        self.change(|world| world.node_name = name.to_owned())
    }

    /// Sets the memory that pods may use, in bytes.
    pub fn allocatable_memory(&self, bytes: u64) -> &Self {
        self.change(|world| world.allocatable_memory = bytes)
    }

    /// Labels the node.
    pub fn node_label(&self, key: &str, value: &str) -> &Self {
        self.change(|world| {
            world.node_labels.insert(key.to_owned(), value.to_owned());
        })
    }

    /// Gives the plugin this value of a setting: a text, number or boolean.
    pub fn setting(&self, name: &str, value: impl ToString) -> &Self {
        self.set(name, Setting::Value(value.to_string()))
    }

    /// Gives the plugin these texts of a setting that is a list.
    pub fn list_setting(&self, name: &str, texts: &[&str]) -> &Self {
        self.set(name, Setting::Texts(texts.iter().map(|text| (*text).to_owned()).collect()))
    }

    /// Gives the plugin a secret.
    pub fn secret_setting(&self, name: &str, secret: &[u8]) -> &Self {
        self.set(name, Setting::Secret(secret.to_owned()))
    }

    fn set(&self, name: &str, value: Setting) -> &Self {
        self.change(|world| {
            world.settings.insert(name.to_owned(), value);
        })
    }

    /// Makes the kernel lack an option of tmpfs, such as `noswap`.
    pub fn without_tmpfs_option(&self, option: &str) -> &Self {
        self.change(|world| {
            world.unsupported_tmpfs_options.insert(option.to_owned());
        })
    }

    /// Lets the node have huge pages of these sizes, in bytes; else it has 2 MiB and 1 GiB.
    pub fn huge_pages(&self, sizes: &[u64]) -> &Self {
        self.change(|world| world.huge_pages = sizes.to_vec())
    }

    /// Lets folders at targets have quotas.
    pub fn folder_quotas(&self) -> &Self {
        self.change(|world| world.folder_quotas = true)
    }

    // Its paths.

    /// Grants the plugin a folder of the host, with all below.
    pub fn grant(&self, folder: &str) -> &Self {
        self.change(|world| world.grants.push(folder.to_owned()))
    }

    /// Puts a folder on the host, with its parents.
    pub fn directory(&self, path: &str) -> &Self {
        self.change(|world| world.tree.put(path, Node::Directory))
    }

    /// Puts a regular file on the host, with its parents.
    pub fn file(&self, path: &str) -> &Self {
        self.change(|world| world.tree.put(path, Node::File))
    }

    /// Puts a socket on the host, with its parents.
    pub fn socket(&self, path: &str) -> &Self {
        self.change(|world| world.tree.put(path, Node::Socket))
    }

    /// Puts a named pipe on the host, with its parents.
    pub fn fifo(&self, path: &str) -> &Self {
        self.change(|world| world.tree.put(path, Node::Fifo))
    }

    /// Puts a character device on the host, with its parents.
    pub fn char_device(&self, path: &str) -> &Self {
        self.change(|world| world.tree.put(path, Node::CharDevice))
    }

    /// Puts a block device on the host, with its parents.
    pub fn block_device(&self, path: &str) -> &Self {
        self.change(|world| world.tree.put(path, Node::BlockDevice))
    }

    /// Puts a symbolic link to an absolute path on the host, with its parents.
    pub fn symlink(&self, path: &str, to: &str) -> &Self {
        self.change(|world| world.tree.put(path, Node::Link(to.to_owned())))
    }

    /// Whether this path of the host exists.
    #[must_use]
    pub fn has_path(&self, path: &str) -> bool {
        self.world.borrow().tree.resolve(path).is_ok()
    }

    // Objects.

    /// Makes a config map of the namespace `default`, in place of one of the same name.
    pub fn config_map(&self, name: &str, data: &[(&str, &[u8])]) -> &Self {
        self.change(|world| {
            world.objects.config_maps.insert(("default".to_owned(), name.to_owned()), keyed(data));
        })
    }

    /// Removes a config map of the namespace `default`.
    pub fn remove_config_map(&self, name: &str) -> &Self {
        self.change(|world| {
            world.objects.config_maps.remove(&("default".to_owned(), name.to_owned()));
        })
    }

    /// Makes a secret of the namespace `default`, in place of one of the same name.
    pub fn secret(&self, name: &str, data: &[(&str, &[u8])]) -> &Self {
        self.change(|world| {
            world.objects.secrets.insert(("default".to_owned(), name.to_owned()), keyed(data));
        })
    }

    /// Makes a CSIDriver object with this `spec`, as JSON.
    pub fn csi_driver(&self, name: &str, spec: &str) -> &Self {
        self.change(|world| {
            world.objects.csi_drivers.insert(name.to_owned(), spec.to_owned());
        })
    }

    /// Removes a secret of the namespace `default`.
    pub fn remove_secret(&self, name: &str) -> &Self {
        self.change(|world| {
            world.objects.secrets.remove(&("default".to_owned(), name.to_owned()));
        })
    }

    /// Lets the node issue tokens. A token's text contains the request.
    pub fn issues_tokens(&self) -> &Self {
        self.change(|world| world.objects.issues_tokens = true)
    }

    /// Makes a ClusterTrustBundle, of a signer or of none.
    pub fn trust_bundle(&self, name: &str, signer: Option<&str>, pem: &str) -> &Self {
        let bundle = TrustBundle { signer: signer.map(str::to_owned), pem: pem.to_owned() };
        self.change(|world| {
            world.objects.trust_bundles.insert(name.to_owned(), bundle);
        })
    }

    // Faults.

    /// Makes the next such call fail and change nothing. Several for one call are used up in turn.
    ///
    /// # Panics
    /// If `call` is not one of [`CALLS`].
    pub fn fail(&self, call: &str, error: Error) -> &Self {
        self.fault(call, error, true)
    }

    /// Makes every such call fail and change nothing.
    ///
    /// # Panics
    /// If `call` is not one of [`CALLS`].
    pub fn fail_always(&self, call: &str, error: Error) -> &Self {
        self.fault(call, error, false)
    }

    fn fault(&self, call: &str, error: Error, once: bool) -> &Self {
        let known = CALLS.iter().find(|known| **known == call);
        assert!(known.is_some(), "{call:?} is not a call of the contract; those that can fail: {}", CALLS.join(", "));
        self.change(|world| world.faults.extend(known.map(|call| Fault { call, error, once })))
    }

    // Calling the plugin, as the host does.

    /// Returns the plugin's description of itself.
    #[must_use]
    pub fn describe<P: VolumePlugin>(&self) -> TestDescription {
        let handle = identity::Description::default();
        P::describe(&mut crate::describe::Description::new(&handle));
        handle.into_inner()
    }

    /// Returns the name that the plugin gives the volume, if any.
    ///
    /// # Errors
    /// The plugin's.
    pub fn identify<P: VolumePlugin>(&self, volume: &TestVolume) -> Result<Option<String>> {
        Ok(self.identity::<P>(volume)?.name)
    }

    /// Returns the plugin's description of the volume.
    ///
    /// # Errors
    /// The plugin's.
    pub fn identity<P: VolumePlugin>(&self, volume: &TestVolume) -> Result<TestIdentity> {
        let handle = identity::Identity::default();
        P::identify(&volume.handle(), &mut crate::describe::Identity::new(&handle))?;
        Ok(handle.into_inner())
    }

    /// Publishes the volume to the pod, at [`TestHost::target_of`] that pod and the volume's name.
    ///
    /// # Errors
    /// The plugin's.
    pub fn publish<P: VolumePlugin>(&self, volume: &TestVolume, pod: &TestPod) -> Result<()> {
        let target = MountTarget::new(&self.world, pod.uid(), volume.name());
        let volume = volume.clone().for_group(pod.group());
        P::publish(&volume.handle(), &pod.handle(), &crate::mounts::MountTarget::new(&target))
    }

    /// Unpublishes the volume of that name from the pod that [`TestPod::new`] makes.
    ///
    /// # Errors
    /// The plugin's.
    pub fn unpublish<P: VolumePlugin>(&self, volume: &str) -> Result<()> {
        P::unpublish(&self.target(volume).handle())
    }

    // The results.

    /// The target of the volume of that name in the pod that [`TestPod::new`] makes.
    #[must_use]
    pub fn target(&self, volume: &str) -> TestTarget {
        self.target_of(&TestPod::new(), volume)
    }

    /// The target of the volume of that name in a pod.
    #[must_use]
    pub fn target_of(&self, pod: &TestPod, volume: &str) -> TestTarget {
        TestTarget::new(MountTarget::new(&self.world, pod.uid(), volume))
    }

    /// How many detached mounts exist: 0 after every call that leaks none.
    #[must_use]
    pub fn detached_mounts(&self) -> usize {
        self.world.borrow().detached
    }

    /// The calls made until now, in order, by their names in [`CALLS`].
    #[must_use]
    pub fn calls(&self) -> Vec<&'static str> {
        self.world.borrow().calls.clone()
    }

    /// The lines logged until now.
    #[must_use]
    pub fn lines(&self) -> Vec<TestLine> {
        self.world.borrow().lines.clone()
    }

    /// The events until now.
    #[must_use]
    pub fn events(&self) -> Vec<TestEvent> {
        self.world.borrow().events.clone()
    }
}

fn keyed(data: &[(&str, &[u8])]) -> Data {
    Rc::new(data.iter().map(|(key, bytes)| ((*key).to_owned(), bytes.to_vec())).collect())
}

impl Drop for TestHost {
    fn drop(&mut self) {
        world::uninstall();
    }
}
