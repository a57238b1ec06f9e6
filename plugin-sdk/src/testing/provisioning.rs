//! The double's requests to a plugin that makes volumes and snapshots, and the answers.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::host::TestHost;
use super::world::current;
use crate::capabilities::{Controller, GroupSnapshotter, Modifier, Snapshotter};
use crate::error::Result;
use crate::provisioning;

/// A request for a volume; [`TestVolumeRequest::new`] begins one.
#[derive(Debug, Clone, Default)]
pub struct TestVolumeRequest(VolumeRequest);

impl TestVolumeRequest {
    /// A volume of this name and no size.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(VolumeRequest { name: name.to_owned(), ..VolumeRequest::default() })
    }

    /// It must have at least this many bytes.
    #[must_use]
    pub fn required(mut self, bytes: u64) -> Self {
        self.0.required_bytes = Some(bytes);
        self
    }

    /// It must not have more than this many bytes.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.0.limit_bytes = Some(bytes);
        self
    }

    /// One of the operator's parameters.
    #[must_use]
    pub fn parameter(mut self, key: &str, value: &str) -> Self {
        self.0.parameters.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The file system.
    #[must_use]
    pub fn fs_type(mut self, fs_type: &str) -> Self {
        self.0.fs_type = Some(fs_type.to_owned());
        self
    }

    /// The volume whose content it begins with.
    #[must_use]
    pub fn source_volume(mut self, volume_id: &str) -> Self {
        self.0.source_volume = Some(volume_id.to_owned());
        self
    }

    /// One of the parameters that can be changed later.
    #[must_use]
    pub fn mutable_parameter(mut self, key: &str, value: &str) -> Self {
        self.0.mutable_parameters.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The snapshot whose content it begins with.
    #[must_use]
    pub fn source_snapshot(mut self, snapshot_id: &str) -> Self {
        self.0.source_snapshot = Some(snapshot_id.to_owned());
        self
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct VolumeRequest {
    name: String,
    required_bytes: Option<u64>,
    limit_bytes: Option<u64>,
    parameters: BTreeMap<String, String>,
    fs_type: Option<String>,
    source_volume: Option<String>,
    source_snapshot: Option<String>,
    mutable_parameters: BTreeMap<String, String>,
}

/// One of the secrets that [`TestHost::call_secret`] has set.
pub(crate) fn call_secret(key: &str) -> Option<String> {
    current().borrow().call_secrets.get(key).cloned()
}

pub(crate) fn call_secrets() -> Vec<String> {
    current().borrow().call_secrets.keys().cloned().collect()
}

impl VolumeRequest {
    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }

    pub(crate) fn required_bytes(&self) -> Option<u64> {
        self.required_bytes
    }

    pub(crate) fn limit_bytes(&self) -> Option<u64> {
        self.limit_bytes
    }

    pub(crate) fn parameter(&self, key: &str) -> Option<String> {
        self.parameters.get(key).cloned()
    }

    pub(crate) fn parameters(&self) -> Vec<String> {
        self.parameters.keys().cloned().collect()
    }

    pub(crate) fn fs_type(&self) -> Option<String> {
        self.fs_type.clone()
    }

    pub(crate) fn as_device(&self) -> bool {
        false
    }

    pub(crate) fn access_modes(&self) -> Vec<String> {
        vec!["ReadWriteOnce".to_owned()]
    }

    pub(crate) fn source_volume(&self) -> Option<String> {
        self.source_volume.clone()
    }

    pub(crate) fn source_snapshot(&self) -> Option<String> {
        self.source_snapshot.clone()
    }

    pub(crate) fn mutable_parameter(&self, key: &str) -> Option<String> {
        self.mutable_parameters.get(key).cloned()
    }

    pub(crate) fn mutable_parameters(&self) -> Vec<String> {
        self.mutable_parameters.keys().cloned().collect()
    }

    pub(crate) fn secret(&self, key: &str) -> Option<String> {
        call_secret(key)
    }

    pub(crate) fn secrets(&self) -> Vec<String> {
        call_secrets()
    }
}

/// A plugin's answer about a volume.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::testing::{TestHost, TestMadeVolume, TestPage, TestSnapshot, TestVolumeRequest};
///
/// /// A volume's whole life, with any plugin that makes some.
/// fn life<P: Snapshotter>(host: &TestHost) -> Result<()> {
///     let made: TestMadeVolume = host.create_volume::<P>(&TestVolumeRequest::new("a").required(1 << 20).limit(1 << 30))?;
///     assert_eq!(host.find_volume::<P>(&made.id)?.attributes, made.attributes);
///     assert!(host.expand_volume::<P>(&made.id, 2 << 20, None)? >= 2 << 20);
///     let (snapshots, _): TestPage<TestSnapshot> = host.create_snapshot::<P>("s", &made.id)?;
///     assert_eq!(snapshots[0].volume_id, made.id);
///     assert!(snapshots[0].bytes > 0);
///     host.create_volume::<P>(&TestVolumeRequest::new("b").source_snapshot(&snapshots[0].id))?;
///     host.delete_snapshot::<P>(&snapshots[0].id)?;
///     host.delete_volume::<P>(&made.id)
/// }
/// # let _ = |host: &TestHost| host.list_volumes::<NoPlugin>("", 1);
/// # struct NoPlugin;
/// # impl VolumePlugin for NoPlugin {
/// #     fn describe(_: &mut Description) {}
/// #     fn identify(_: &Volume, _: &mut Identity) -> Result<()> { Ok(()) }
/// #     fn publish(_: &Volume, _: &Pod, _: &MountTarget) -> Result<()> { Ok(()) }
/// #     fn unpublish(_: &MountTarget) -> Result<()> { Ok(()) }
/// # }
/// # impl Controller for NoPlugin {
/// #     fn create(_: &VolumeRequest, _: &mut VolumeAnswer) -> Result<()> { Ok(()) }
/// #     fn delete(_: &str) -> Result<()> { Ok(()) }
/// #     fn find(_: &str, _: &mut VolumeAnswer) -> Result<()> { Ok(()) }
/// #     fn expand(_: &str, to: u64, _: Option<u64>) -> Result<u64> { Ok(to) }
/// #     fn list_volumes(_: &str, _: u32, _: &mut VolumePage) -> Result<()> { Ok(()) }
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestMadeVolume {
    /// Its handle.
    pub id: String,
    /// Its size in bytes.
    pub capacity: u64,
    /// The fields of `volumeAttributes` that its mounting needs.
    pub attributes: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
pub(crate) struct VolumeAnswer(RefCell<TestMadeVolume>);

impl VolumeAnswer {
    pub(crate) fn id(&self, id: &str) {
        self.0.borrow_mut().id = id.to_owned();
    }

    pub(crate) fn capacity(&self, bytes: u64) {
        self.0.borrow_mut().capacity = bytes;
    }

    pub(crate) fn attribute(&self, key: &str, value: &str) {
        self.0.borrow_mut().attributes.insert(key.to_owned(), value.to_owned());
    }
}

/// A page of a list: its items, and the token of the next page.
pub type TestPage<T> = (Vec<T>, Option<String>);

#[derive(Debug, Default)]
pub(crate) struct VolumePage(RefCell<TestPage<(String, u64)>>);

impl VolumePage {
    pub(crate) fn add(&self, id: &str, capacity: u64) {
        self.0.borrow_mut().0.push((id.to_owned(), capacity));
    }

    pub(crate) fn next(&self, token: &str) {
        self.0.borrow_mut().1 = Some(token.to_owned());
    }
}

#[derive(Debug, Default)]
pub(crate) struct SnapshotRequest {
    name: String,
    volume_id: String,
}

impl SnapshotRequest {
    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }

    pub(crate) fn volume_id(&self) -> String {
        self.volume_id.clone()
    }

    pub(crate) fn parameter(&self, _key: &str) -> Option<String> {
        None
    }

    pub(crate) fn parameters(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn secret(&self, key: &str) -> Option<String> {
        call_secret(key)
    }

    pub(crate) fn secrets(&self) -> Vec<String> {
        call_secrets()
    }
}

#[derive(Debug, Default)]
pub(crate) struct GroupRequest {
    name: String,
    volume_ids: Vec<String>,
}

impl GroupRequest {
    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }

    pub(crate) fn volume_ids(&self) -> Vec<String> {
        self.volume_ids.clone()
    }

    pub(crate) fn parameter(&self, _key: &str) -> Option<String> {
        None
    }

    pub(crate) fn parameters(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn secret(&self, key: &str) -> Option<String> {
        call_secret(key)
    }

    pub(crate) fn secrets(&self) -> Vec<String> {
        call_secrets()
    }
}

/// A plugin's answer about a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestSnapshot {
    /// Its handle.
    pub id: String,
    /// The volume's.
    pub volume_id: String,
    /// The bytes that a volume made of it needs.
    pub bytes: u64,
    /// Its group, if it has one.
    pub group: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct SnapshotPage(RefCell<TestPage<TestSnapshot>>);

impl SnapshotPage {
    pub(crate) fn add(&self, id: &str, volume_id: &str, bytes: u64, _made: u64) {
        let snapshot = TestSnapshot { id: id.to_owned(), volume_id: volume_id.to_owned(), bytes, group: None };
        self.0.borrow_mut().0.push(snapshot);
    }

    pub(crate) fn of_group(&self, group_id: &str) {
        if let Some(last) = self.0.borrow_mut().0.last_mut() {
            last.group = Some(group_id.to_owned());
        }
    }

    pub(crate) fn next(&self, token: &str) {
        self.0.borrow_mut().1 = Some(token.to_owned());
    }
}

impl TestHost {
    /// [`Controller::create`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn create_volume<P: Controller>(&self, wanted: &TestVolumeRequest) -> Result<TestMadeVolume> {
        let form = VolumeAnswer::default();
        P::create(&provisioning::VolumeRequest::new(&wanted.0), &mut provisioning::VolumeAnswer::new(&form))?;
        Ok(form.0.into_inner())
    }

    /// [`Controller::delete`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn delete_volume<P: Controller>(&self, volume_id: &str) -> Result<()> {
        P::delete(volume_id)
    }

    /// [`Controller::find`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn find_volume<P: Controller>(&self, volume_id: &str) -> Result<TestMadeVolume> {
        let form = VolumeAnswer::default();
        P::find(volume_id, &mut provisioning::VolumeAnswer::new(&form))?;
        Ok(form.0.into_inner())
    }

    /// [`Controller::expand`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn expand_volume<P: Controller>(&self, volume_id: &str, to: u64, limit: Option<u64>) -> Result<u64> {
        P::expand(volume_id, to, limit)
    }

    /// [`Controller::list_volumes`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn list_volumes<P: Controller>(&self, start: &str, most: u32) -> Result<TestPage<(String, u64)>> {
        let form = VolumePage::default();
        P::list_volumes(start, most, &mut provisioning::VolumePage::new(&form))?;
        Ok(form.0.into_inner())
    }

    /// [`Controller::free_space`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn free_space<P: Controller>(&self, wanted: &TestVolumeRequest) -> Result<Option<u64>> {
        P::free_space(&provisioning::VolumeRequest::new(&wanted.0))
    }

    /// [`Snapshotter::create_snapshot`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn create_snapshot<P: Snapshotter>(&self, name: &str, volume_id: &str) -> Result<TestPage<TestSnapshot>> {
        let form = SnapshotPage::default();
        let wanted = SnapshotRequest { name: name.to_owned(), volume_id: volume_id.to_owned() };
        P::create_snapshot(&provisioning::SnapshotRequest::new(&wanted), &mut provisioning::SnapshotPage::new(&form))?;
        Ok(form.0.into_inner())
    }

    /// [`Snapshotter::delete_snapshot`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn delete_snapshot<P: Snapshotter>(&self, snapshot_id: &str) -> Result<()> {
        P::delete_snapshot(snapshot_id)
    }

    /// [`Snapshotter::list_snapshots`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn list_snapshots<P: Snapshotter>(
        &self,
        volume_id: Option<&str>,
        start: &str,
        most: u32,
    ) -> Result<TestPage<TestSnapshot>> {
        let form = SnapshotPage::default();
        P::list_snapshots(volume_id, start, most, &mut provisioning::SnapshotPage::new(&form))?;
        Ok(form.0.into_inner())
    }

    /// Sets a secret of every later call.
    pub fn call_secret(&self, key: &str, value: &str) -> &Self {
        self.world.borrow_mut().call_secrets.insert(key.to_owned(), value.to_owned());
        self
    }

    /// [`Modifier::modify`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn modify_volume<P: Modifier>(&self, volume_id: &str, wanted: &TestVolumeRequest) -> Result<()> {
        P::modify(volume_id, &provisioning::VolumeRequest::new(&wanted.0))
    }

    /// [`GroupSnapshotter::create_group`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn create_group<P: GroupSnapshotter>(&self, name: &str, volume_ids: &[&str]) -> Result<Vec<TestSnapshot>> {
        let form = SnapshotPage::default();
        let mut volume_ids: Vec<String> = volume_ids.iter().map(|id| (*id).to_owned()).collect();
        volume_ids.sort();
        let wanted = GroupRequest { name: name.to_owned(), volume_ids };
        P::create_group(&provisioning::GroupRequest::new(&wanted), &mut provisioning::SnapshotPage::new(&form))?;
        Ok(form.0.into_inner().0)
    }

    /// [`GroupSnapshotter::delete_group`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn delete_group<P: GroupSnapshotter>(&self, group_id: &str) -> Result<()> {
        P::delete_group(group_id)
    }

    /// [`GroupSnapshotter::find_group`].
    ///
    /// # Errors
    /// The plugin's.
    pub fn find_group<P: GroupSnapshotter>(&self, group_id: &str) -> Result<Vec<TestSnapshot>> {
        let form = SnapshotPage::default();
        P::find_group(group_id, &mut provisioning::SnapshotPage::new(&form))?;
        Ok(form.0.into_inner().0)
    }
}
