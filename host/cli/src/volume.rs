//! `volhost volume`.

mod prune;

use std::path::Path;

use clap::Subcommand;
use serde_json::{Value, json};
use tonic::transport::Channel;
use volhost_api::pb;
use volhost_api::pb::named_volumes_client::NamedVolumesClient;
use volhost_model::duration::HumanDuration;

use super::client::{ANSWER_TIME, Client, within};
use super::error::CliError;
use super::format::{printable, rfc3339};
use super::output::Output;

/// The user of `mount` and `umount` without `--id`.
const DEFAULT_USER: &str = "host";

/// `volume`.
#[derive(Debug, Subcommand)]
pub(super) enum VolumeCommand {
    /// Create a volume
    #[command(
        after_help = "Options:\n  plugin=NAME       the plugin or driver that provisions it: loop, hostpath.csi.k8s.io\n  size=SIZE         10Gi, or 10g as Docker writes it; 1Gi by default\n  fstype=TYPE       its file system\n  mount-options=A,B mount options\n  parameters.KEY=V  a parameter of the driver\n  from=NAME         a copy of this volume, made by its driver; size may be larger\n\nA folder of the host, which stays when the volume is removed:\n  type=none o=bind device=PATH\n\nA memory, which is empty again when nobody uses it:\n  type=tmpfs device=tmpfs o=size=SIZE,mode=MODE,uid=UID,gid=GID\n\nExamples:\n  volhost volume create data -o plugin=loop -o size=1Gi\n  volhost volume create srv -o type=none -o o=bind -o device=/srv/data"
    )]
    Create {
        /// Its name
        name: String,
        /// An option of the volume
        #[arg(short = 'o', long = "opt", value_name = "KEY=VALUE", value_parser = option)]
        options: Vec<(String, String)>,
    },
    /// List the volumes
    Ls {
        /// Print only their names
        #[arg(short, long)]
        quiet: bool,
    },
    /// Show volumes as JSON
    Inspect {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Mount a volume, and print where
    Mount {
        /// Its name
        name: String,
        /// The user; a volume stays mounted until its last user is unmounted
        #[arg(long, value_name = "ID", default_value = DEFAULT_USER)]
        id: String,
        /// How long to wait
        #[arg(long, value_name = "DURATION", default_value = "2m3s")]
        timeout: HumanDuration,
    },
    /// Unmount a volume for a user
    Umount {
        /// Its name
        name: String,
        /// The user
        #[arg(long, value_name = "ID", default_value = DEFAULT_USER)]
        id: String,
        /// How long to wait
        #[arg(long, value_name = "DURATION", default_value = "2m3s")]
        timeout: HumanDuration,
    },
    /// Delete volumes and their data; one in use is refused
    Rm {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Delete every volume without a user, and its data; asks first
    Prune {
        /// Delete without asking
        #[arg(short, long)]
        force: bool,
    },
    /// Copy a volume as it is now into a new one
    #[command(
        after_help = "The copy is a volume like others: mount it, or copy it back. It shares blocks with the volume where the driver and the file system can; else a volume that is mounted is refused.\n\nExamples:\n  volhost volume snapshot data data-monday\n  volhost volume create data2 -o from=data-monday -o size=20Gi"
    )]
    Snapshot {
        /// The volume
        name: String,
        /// The name of the copy
        snapshot: String,
    },
    /// Let a volume grow
    Resize {
        /// Its name
        name: String,
        /// Its new size
        size: String,
    },
}

fn option(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "write KEY=VALUE".to_owned())
}

/// Runs a command.
pub(super) async fn run(command: VolumeCommand, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    let mut volumes = Client::connect(socket).await?.named;
    match command {
        VolumeCommand::Create { name, options } => {
            let options = options.into_iter().collect();
            let request = pb::CreateNamedVolumeRequest { name: name.clone(), options };
            within(ANSWER_TIME, socket, volumes.create_named_volume(request)).await?;
            output.line(&name)
        }
        VolumeCommand::Snapshot { name, snapshot } => {
            let options = [("from".to_owned(), name)].into();
            let request = pb::CreateNamedVolumeRequest { name: snapshot.clone(), options };
            within(ANSWER_TIME, socket, volumes.create_named_volume(request)).await?;
            output.line(&snapshot)
        }
        VolumeCommand::Ls { quiet } => {
            let listed = list(&mut volumes, socket).await?;
            if !quiet && !listed.is_empty() {
                output.line(&row(["VOLUME", "PHASE", "SIZE", "USERS", "PROVISIONER"]))?;
            }
            for volume in listed {
                let size = volume.capacity_bytes.max(volume.requested_bytes).to_string();
                let (name, users) = (printable(&volume.name), volume.users.len().to_string());
                let columns = [name.as_str(), &volume.phase, &size, &users, &volume.provisioner];
                output.line(&if quiet { name } else { row(columns) })?;
            }
            Ok(())
        }
        VolumeCommand::Inspect { names } => {
            let listed = list(&mut volumes, socket).await?;
            let found = names.iter().map(|name| {
                let volume = listed.iter().find(|volume| volume.name == *name);
                volume.map(shown).ok_or_else(|| {
                    CliError::Failed(format!("there is no volume {name}; `volhost volume ls` lists them"))
                })
            });
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let text = serde_json::to_string_pretty(&found).map_err(|error| CliError::Encode(error.to_string()))?;
            output.line(&text)
        }
        VolumeCommand::Mount { name, id, timeout } => {
            let request = pb::MountNamedVolumeRequest { name, id, timeout_ms: milliseconds(timeout) };
            let limit = timeout.0.saturating_add(ANSWER_TIME);
            let mounted = within(limit, socket, volumes.mount_named_volume(request)).await?;
            output.line(&mounted.path)
        }
        VolumeCommand::Umount { name, id, timeout } => {
            let request = pb::UnmountNamedVolumeRequest { name, id, timeout_ms: milliseconds(timeout) };
            let limit = timeout.0.saturating_add(ANSWER_TIME);
            within(limit, socket, volumes.unmount_named_volume(request)).await.map(drop)
        }
        VolumeCommand::Rm { names } => {
            let mut failures = Vec::new();
            for name in names {
                match remove(&mut volumes, socket, name.clone()).await {
                    Ok(()) => output.line(&name)?,
                    Err(error) => failures.push(error.to_string()),
                }
            }
            if failures.is_empty() { Ok(()) } else { Err(CliError::Failed(failures.join("\n"))) }
        }
        VolumeCommand::Prune { force } => prune::run(&mut volumes, socket, force, output).await,
        VolumeCommand::Resize { name, size } => {
            within(ANSWER_TIME, socket, volumes.resize_named_volume(pb::ResizeNamedVolumeRequest { name, size }))
                .await
                .map(drop)
        }
    }
}

/// 0 would mean the default to the daemon; a user who types 0 wants the answer at once.
fn milliseconds(time: HumanDuration) -> u64 {
    u64::try_from(time.0.as_millis()).unwrap_or(u64::MAX).max(1)
}

async fn list(volumes: &mut NamedVolumesClient<Channel>, socket: &Path) -> Result<Vec<pb::NamedVolume>, CliError> {
    let request = pb::ListNamedVolumesRequest::default();
    Ok(within(ANSWER_TIME, socket, volumes.list_named_volumes(request)).await?.volumes)
}

async fn remove(volumes: &mut NamedVolumesClient<Channel>, socket: &Path, name: String) -> Result<(), CliError> {
    within(ANSWER_TIME, socket, volumes.remove_named_volume(pb::RemoveNamedVolumeRequest { name })).await.map(drop)
}

fn row([name, phase, size, users, provisioner]: [&str; 5]) -> String {
    format!("{name:<24} {phase:<8} {size:>14} {users:>6}  {provisioner}")
}

fn shown(volume: &pb::NamedVolume) -> Value {
    let users = volume.users.iter().map(|user| json!({ "id": user.id, "path": user.path }));
    json!({
        "name": volume.name,
        "created": rfc3339(volume.created_us),
        "phase": volume.phase,
        "reason": volume.reason,
        "requested_bytes": volume.requested_bytes,
        "capacity_bytes": volume.capacity_bytes,
        "provisioner": volume.provisioner,
        "persistent_volume": volume.persistent_volume,
        "users": users.collect::<Vec<_>>(),
    })
}
