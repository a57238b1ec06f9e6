//! Runs a job: its record to disk, then the call of the plugin, on a thread that may block.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use volhost_model::FailureClass;
use volhost_model::names::{PluginName, UniqueVolumeName};
use volhost_provisioner::{CreatedStorage, InitialContent, Job, JobOutcome, JobStep, ProvisionRecord, SecretNames};
use volhost_runtime::{Call, CallError, Capability, Plugin, ProvisioningCall, WantedVolume};

use super::records::ProvisionRecords;
use volhost_plugin_folder::PluginRegistry;
use volhost_volume_ops::volume_ops::VolumeOps;

/// The source of drivers without a plugin of their own.
const CSI: &str = "csi";

/// A driver whose volumes no plugin makes.
#[derive(Debug, Error)]
enum NoPlugin {
    /// No loaded plugin serves the driver's volumes.
    #[error("no loaded plugin serves volumes of {0}; put its .wasm file, or csi.wasm, into the plugin folder")]
    NotLoaded(String),
    /// The plugin makes no volumes.
    #[error("plugin {name} {version} makes no volumes: it does not export `controller`")]
    NoController { name: PluginName, version: String },
}

/// Runs jobs.
#[derive(Debug)]
pub(crate) struct Runner {
    records: ProvisionRecords,
    plugins: Arc<PluginRegistry>,
    volume_ops: Arc<VolumeOps>,
    /// How long a plugin's own code may run in one call.
    plugin_time: Duration,
}

impl Runner {
    /// Creates a runner.
    pub(crate) fn new(
        records: ProvisionRecords,
        plugins: Arc<PluginRegistry>,
        volume_ops: Arc<VolumeOps>,
        plugin_time: Duration,
    ) -> Self {
        Self { records, plugins, volume_ops, plugin_time }
    }

    /// Returns the records.
    pub(crate) fn records(&self) -> &ProvisionRecords {
        &self.records
    }

    /// Runs the job. Blocks as long as the storage does.
    ///
    /// # Guarantees
    /// The record is written before the plugin is called.
    pub(crate) fn run(&self, job: &Job) -> JobOutcome {
        let Job { record, step } = job;
        if *step == JobStep::Forget {
            return self.removed(record);
        }
        if let Err(error) = self.records.write(record) {
            return JobOutcome::NotBegun(error.to_string());
        }
        match step {
            JobStep::Keep | JobStep::Forget => JobOutcome::Done,
            JobStep::Create => self.call(record, provision, |plugin, call| {
                let made = plugin.create_volume(call, &wanted(record, plugin))?;
                Ok(JobOutcome::Created(CreatedStorage {
                    id: made.id,
                    capacity: made.capacity,
                    attributes: made.attributes,
                    reachable_from: made.reachable_from,
                }))
            }),
            JobStep::Grow(bytes) => {
                let secret = |secrets: &SecretNames| secrets.expand.clone();
                self.call(record, secret, |plugin, call| {
                    let id = record.made().map(|made| made.id.as_str()).unwrap_or_default();
                    plugin.expand_volume(call, id, *bytes, None).map(JobOutcome::Grown)
                })
            }
            JobStep::Delete => {
                let deleted = self.call(record, provision, |plugin, call| {
                    let id = record.made().map(|made| made.id.as_str()).unwrap_or_default();
                    plugin.delete_volume(call, id).map(|()| JobOutcome::Done)
                });
                if deleted != JobOutcome::Done {
                    return deleted;
                }
                // The claim's next volume has the same name, and perhaps another size.
                self.volume_ops.forget_size(&record.name);
                self.removed(record)
            }
        }
    }

    fn removed(&self, record: &ProvisionRecord) -> JobOutcome {
        match self.records.remove(&record.name) {
            Ok(()) => JobOutcome::Done,
            Err(error) => JobOutcome::NotBegun(error.to_string()),
        }
    }

    fn call(
        &self,
        record: &ProvisionRecord,
        secret: impl Fn(&SecretNames) -> Option<volhost_provisioner::SecretName>,
        make: impl FnOnce(&Plugin, &Call) -> Result<JobOutcome, CallError>,
    ) -> JobOutcome {
        let plugin = match self.plugin(&record.terms.provisioner) {
            Ok(plugin) => plugin,
            Err(error) => return JobOutcome::NotBegun(error.to_string()),
        };
        let name = &plugin.info().name;
        if let Some(fault) = self.plugins.quarantined(name) {
            return JobOutcome::NotBegun(format!(
                "plugin {name} is quarantined: replace its file, or send SIGHUP to try it again; its last fault: {fault}"
            ));
        }
        let terms = &record.terms;
        let provisioning = ProvisioningCall {
            provisioner: terms.provisioner.clone(),
            secret: secret(&terms.secrets).map(|secret| (secret.namespace, secret.name)),
            allowed_places: terms.places.clone(),
            mount_options: terms.mount_options.clone(),
        };
        let call = self.plugins.call(self.plugin_time);
        // The plugin decides whether it needs a missing secret: a volume is often deleted after its
        // secret.
        let read = |(namespace, name): &(String, String)| call.environment().objects().secret(namespace, name).ok();
        let secrets = provisioning.secret.as_ref().and_then(read).unwrap_or_default();
        let call = call.with_secrets(secrets).with_provisioning(provisioning);
        let answer = make(&plugin, &call);
        if let Ok(volume) = UniqueVolumeName::shared(name, &record.name) {
            self.plugins.note(name, &volume, answer.as_ref().err());
        }
        answer.unwrap_or_else(|error| {
            let why = format!("plugin {name}: {}", error.message());
            match error.class() {
                FailureClass::Final => JobOutcome::Failed(why),
                FailureClass::Uncertain => JobOutcome::Uncertain(why),
                FailureClass::Transient => JobOutcome::NotBegun(why),
            }
        })
    }

    /// Returns the plugin that makes this driver's volumes: the driver's own, else the one for
    /// every driver.
    fn plugin(&self, driver: &str) -> Result<Arc<Plugin>, NoPlugin> {
        let own = self.plugins.serving(&format!("{CSI}:{driver}"));
        let plugin = own.or_else(|| self.plugins.serving(CSI));
        let plugin = plugin.ok_or_else(|| NoPlugin::NotLoaded(driver.to_owned()))?;
        if plugin.exports(Capability::Controller) {
            return Ok(plugin);
        }
        let info = plugin.info();
        Err(NoPlugin::NoController { name: info.name.clone(), version: info.version.clone() })
    }
}

fn provision(secrets: &SecretNames) -> Option<volhost_provisioner::SecretName> {
    secrets.provision.clone()
}

/// The names that a plugin of a driver's own finds among the parameters, as with
/// `--extra-create-metadata` of Kubernetes' provisioner. External drivers get none: some refuse
/// them.
fn names(record: &ProvisionRecord) -> [(String, String); 3] {
    let key = |of: &str| format!("csi.storage.k8s.io/{of}");
    [
        (key("pvc/namespace"), record.claim.namespace.clone()),
        (key("pvc/name"), record.claim.name.clone()),
        (key("pv/name"), record.name.clone()),
    ]
}

fn wanted(record: &ProvisionRecord, plugin: &Plugin) -> WantedVolume {
    let wanted = &record.wanted;
    let mut parameters = record.terms.parameters.clone();
    if !plugin.info().sources.iter().any(|source| source == CSI) {
        parameters.extend(names(record));
    }
    let begins = match &wanted.source {
        Some(InitialContent::Volume(id)) => WantedVolume { source_volume: Some(id.clone()), ..WantedVolume::default() },
        Some(InitialContent::Snapshot(id)) => {
            WantedVolume { source_snapshot: Some(id.clone()), ..WantedVolume::default() }
        }
        None => WantedVolume::default(),
    };
    WantedVolume {
        name: record.name.clone(),
        required_bytes: Some(wanted.bytes),
        limit_bytes: wanted.limit,
        parameters,
        fs_type: record.terms.fs_type.clone(),
        as_device: wanted.as_device,
        access_modes: wanted.access_modes.clone(),
        ..begins
    }
}
