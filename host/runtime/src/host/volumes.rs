//! `types` and `volumes`: what a call is about, and the forms that a plugin fills in.

use volhost_model::FieldKind;
use wasmtime::component::Resource;

use super::State;
use crate::abort::Abort;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::types::{Error, Host as TypesHost};
use crate::bindings::volhost::plugin::volumes::{
    FieldKind as WitFieldKind, Host, HostDescription, HostIdentity, HostPod, HostVolume, SettingKind as WitSettingKind,
};
use crate::handles::{Description, Identity, PodHandle, VolumeHandle};
use crate::settings::{DeclaredSetting, SettingKind, declare};
use crate::text::tame;

/// Sources that one plugin may serve.
const MAX_SOURCES: usize = 64;
/// The longest text of a description, in bytes.
const DESCRIPTION_BYTES: usize = 255;
/// Volumes of the pod that one volume may be made of.
const MAX_NEEDS: usize = 64;

impl TypesHost for State {
    fn convert_error(&mut self, error: HostError) -> wasmtime::Result<Error> {
        match error {
            HostError::Plugin(error) => Ok(error),
            HostError::Abort(error) => Err(error),
        }
    }
}

impl Host for State {}

const fn field_kind(kind: FieldKind) -> WitFieldKind {
    match kind {
        FieldKind::Text => WitFieldKind::Text,
        FieldKind::Number => WitFieldKind::Number,
        FieldKind::Boolean => WitFieldKind::Boolean,
        FieldKind::List => WitFieldKind::List,
        FieldKind::Map => WitFieldKind::Map,
    }
}

const fn setting_kind(kind: WitSettingKind) -> SettingKind {
    match kind {
        WitSettingKind::Text => SettingKind::Text,
        WitSettingKind::Number => SettingKind::Number,
        WitSettingKind::Boolean => SettingKind::Boolean,
        WitSettingKind::Texts => SettingKind::Texts,
        WitSettingKind::Secret => SettingKind::Secret,
    }
}

fn bounded(what: &str, text: String) -> Result<String, Abort> {
    if text.len() <= DESCRIPTION_BYTES {
        return Ok(text);
    }
    Err(Abort::contract(format!("a {what} of {} bytes, {DESCRIPTION_BYTES} at most", text.len())))
}

impl State {
    fn declare_setting(
        &mut self,
        form: &Resource<Description>,
        name: String,
        kind: WitSettingKind,
        help: String,
        is_required: bool,
    ) -> wasmtime::Result<()> {
        self.count()?;
        let setting = DeclaredSetting { name, kind: setting_kind(kind), is_required, help: tame(&help, help.len()) };
        let declared = &mut self.table.get_mut(form)?.settings;
        Ok(declare(declared, setting).map_err(|error| Abort::contract(error.to_string()))?)
    }
}

impl HostDescription for State {
    fn name(&mut self, form: Resource<Description>, name: String) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.name = bounded("name", name)?;
        Ok(())
    }

    fn version(&mut self, form: Resource<Description>, version: String) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.version = bounded("version", version)?;
        Ok(())
    }

    fn serves(&mut self, form: Resource<Description>, source: String) -> wasmtime::Result<()> {
        self.count()?;
        let source = bounded("source", source)?;
        let sources = &mut self.table.get_mut(&form)?.sources;
        if sources.len() >= MAX_SOURCES {
            return Err(Abort::contract(format!("it serves more than {MAX_SOURCES} sources")).into());
        }
        if !sources.contains(&source) {
            sources.push(source);
        }
        Ok(())
    }

    fn accepts_mount_options(&mut self, form: Resource<Description>) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.accepts_mount_options = true;
        Ok(())
    }

    fn follows_its_source(&mut self, form: Resource<Description>) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.follows_its_source = true;
        Ok(())
    }

    fn read_only(&mut self, form: Resource<Description>) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.read_only = true;
        Ok(())
    }

    fn setting(
        &mut self,
        form: Resource<Description>,
        name: String,
        kind: WitSettingKind,
        help: String,
    ) -> wasmtime::Result<()> {
        self.declare_setting(&form, name, kind, help, false)
    }

    fn required_setting(
        &mut self,
        form: Resource<Description>,
        name: String,
        kind: WitSettingKind,
        help: String,
    ) -> wasmtime::Result<()> {
        self.declare_setting(&form, name, kind, help, true)
    }

    fn drop(&mut self, form: Resource<Description>) -> wasmtime::Result<()> {
        self.table.delete(form)?;
        Ok(())
    }
}

impl HostIdentity for State {
    fn name(&mut self, form: Resource<Identity>, name: String) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.name = Some(name);
        Ok(())
    }

    fn attachable(&mut self, form: Resource<Identity>, attachable: bool) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.attachable = Some(attachable);
        Ok(())
    }

    fn stageable(&mut self, form: Resource<Identity>, stageable: bool) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.stageable = Some(stageable);
        Ok(())
    }

    fn needs_volume(&mut self, form: Resource<Identity>, name: String) -> wasmtime::Result<()> {
        self.count()?;
        let name = bounded("volume's name", name)?;
        let needs = &mut self.table.get_mut(&form)?.needs;
        if needs.len() >= MAX_NEEDS {
            return Err(Abort::contract(format!("the volume needs more than {MAX_NEEDS} others")).into());
        }
        if !needs.contains(&name) {
            needs.push(name);
        }
        Ok(())
    }

    fn selinux_mount(&mut self, form: Resource<Identity>, selinux_mount: bool) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.selinux_mount = selinux_mount;
        Ok(())
    }

    fn attach_limit(&mut self, form: Resource<Identity>, limit: u32) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.attach_limit = Some(limit);
        Ok(())
    }

    fn attach_limit_of(&mut self, form: Resource<Identity>, names: String, limit: u32) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.attach_limit_of = Some((names, limit));
        Ok(())
    }

    fn refreshed(&mut self, form: Resource<Identity>) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.refreshed = true;
        Ok(())
    }

    fn drop(&mut self, form: Resource<Identity>) -> wasmtime::Result<()> {
        self.table.delete(form)?;
        Ok(())
    }
}

impl State {
    fn volume(&mut self, volume: &Resource<VolumeHandle>) -> wasmtime::Result<&volhost_model::VolumeSpec> {
        self.count()?;
        Ok(&self.table.get(volume)?.0)
    }

    fn persistent_volume(
        &mut self,
        volume: &Resource<VolumeHandle>,
    ) -> wasmtime::Result<Option<&volhost_model::spec::PersistentVolume>> {
        Ok(self.volume(volume)?.persistent_volume.as_deref())
    }

    fn pod(&mut self, pod: &Resource<PodHandle>) -> wasmtime::Result<&volhost_model::Pod> {
        self.count()?;
        Ok(&self.table.get(pod)?.0)
    }
}

impl HostVolume for State {
    fn spec_name(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<String> {
        Ok(self.volume(&volume)?.name.as_str().to_owned())
    }

    fn source(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<String> {
        Ok(self.volume(&volume)?.source.clone())
    }

    fn parameter(&mut self, volume: Resource<VolumeHandle>, path: String) -> wasmtime::Result<Option<String>> {
        Ok(self.volume(&volume)?.parameter(&path))
    }

    fn parameters(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<Vec<String>> {
        let mut names: Vec<String> = self.volume(&volume)?.fields.keys().cloned().collect();
        names.sort();
        Ok(names)
    }

    fn kind(&mut self, volume: Resource<VolumeHandle>, path: String) -> wasmtime::Result<Option<WitFieldKind>> {
        Ok(self.volume(&volume)?.kind(&path).map(field_kind))
    }

    fn fields(&mut self, volume: Resource<VolumeHandle>, path: String) -> wasmtime::Result<Vec<String>> {
        Ok(self.volume(&volume)?.fields_at(&path))
    }

    fn read_only(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<bool> {
        Ok(self.volume(&volume)?.read_only)
    }

    fn as_device(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<bool> {
        Ok(self.volume(&volume)?.is_block())
    }

    fn persistent_volume(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<Option<String>> {
        Ok(State::persistent_volume(self, &volume)?.map(|pv| pv.name.clone()))
    }

    fn claim(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<Option<String>> {
        Ok(State::persistent_volume(self, &volume)?.map(|pv| pv.claim.clone()).filter(|claim| !claim.is_empty()))
    }

    fn capacity(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<Option<u64>> {
        Ok(State::persistent_volume(self, &volume)?.and_then(|pv| pv.capacity))
    }

    fn access_modes(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<Vec<String>> {
        Ok(State::persistent_volume(self, &volume)?.map(|pv| pv.access_modes.clone()).unwrap_or_default())
    }

    fn annotation(&mut self, volume: Resource<VolumeHandle>, key: String) -> wasmtime::Result<Option<String>> {
        Ok(State::persistent_volume(self, &volume)?.and_then(|pv| pv.annotations.get(&key).cloned()))
    }

    fn selinux_label(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<Option<String>> {
        Ok(self.volume(&volume)?.selinux_label.clone())
    }

    fn mount_group(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<Option<u32>> {
        self.volume(&volume)?;
        Ok(self.call.mount_group())
    }

    fn mount_options(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<Vec<String>> {
        Ok(State::persistent_volume(self, &volume)?.map(|pv| pv.mount_options.clone()).unwrap_or_default())
    }

    fn drop(&mut self, volume: Resource<VolumeHandle>) -> wasmtime::Result<()> {
        self.table.delete(volume)?;
        Ok(())
    }
}

impl HostPod for State {
    fn uid(&mut self, pod: Resource<PodHandle>) -> wasmtime::Result<String> {
        Ok(self.pod(&pod)?.uid.as_str().to_owned())
    }

    fn namespace(&mut self, pod: Resource<PodHandle>) -> wasmtime::Result<String> {
        Ok(self.pod(&pod)?.namespace.clone())
    }

    fn name(&mut self, pod: Resource<PodHandle>) -> wasmtime::Result<String> {
        Ok(self.pod(&pod)?.name.clone())
    }

    fn service_account(&mut self, pod: Resource<PodHandle>) -> wasmtime::Result<String> {
        Ok(self.pod(&pod)?.service_account.clone())
    }

    fn label(&mut self, pod: Resource<PodHandle>, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.pod(&pod)?.labels.get(&key).cloned())
    }

    fn annotation(&mut self, pod: Resource<PodHandle>, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.pod(&pod)?.annotations.get(&key).cloned())
    }

    fn memory_limit(&mut self, pod: Resource<PodHandle>) -> wasmtime::Result<Option<u64>> {
        Ok(self.pod(&pod)?.memory_limit)
    }

    fn ephemeral_storage_limit(&mut self, pod: Resource<PodHandle>) -> wasmtime::Result<Option<u64>> {
        Ok(self.pod(&pod)?.ephemeral_storage_limit)
    }

    fn fs_group(&mut self, pod: Resource<PodHandle>) -> wasmtime::Result<Option<u32>> {
        Ok(self.pod(&pod)?.fs_group)
    }

    fn fs_user(&mut self, pod: Resource<PodHandle>) -> wasmtime::Result<Option<u32>> {
        Ok(self.pod(&pod)?.fs_user)
    }

    fn field(&mut self, pod: Resource<PodHandle>, path: String) -> Result<String, HostError> {
        self.pod(&pod)?.field(&path).map_err(|error| HostError::Plugin(Error::InvalidArgument(error.to_string())))
    }

    fn resource_value(
        &mut self,
        pod: Resource<PodHandle>,
        container: String,
        name: String,
        divisor: Option<String>,
    ) -> Result<String, HostError> {
        let node = self.call.environment().node().allocatable();
        self.pod(&pod)?
            .resource_value(&container, &name, divisor.as_deref(), &node)
            .map_err(|error| HostError::Plugin(Error::InvalidArgument(error.to_string())))
    }

    fn huge_page_sizes(&mut self, pod: Resource<PodHandle>) -> wasmtime::Result<Vec<u64>> {
        Ok(self.pod(&pod)?.huge_page_limits().into_keys().collect())
    }

    fn huge_page_limit(&mut self, pod: Resource<PodHandle>, size: u64) -> wasmtime::Result<Option<u64>> {
        Ok(self.pod(&pod)?.huge_page_limits().get(&size).copied())
    }

    fn nested_mounts(&mut self, pod: Resource<PodHandle>, volume: String) -> wasmtime::Result<Vec<String>> {
        let nested = &self.pod(&pod)?.nested_mounts;
        let found = nested.iter().find(|(name, _)| name.as_str() == volume);
        Ok(found.map(|(_, folders)| folders.iter().cloned().collect()).unwrap_or_default())
    }

    fn drop(&mut self, pod: Resource<PodHandle>) -> wasmtime::Result<()> {
        self.table.delete(pod)?;
        Ok(())
    }
}
