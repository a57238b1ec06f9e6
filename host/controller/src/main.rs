//! `volhost-controller`: creates, attaches and grows the volumes of one CSI driver in a Kubernetes
//! cluster, and takes snapshots of them, in place of the sidecars that CSI drivers are deployed with.
//!
//! ```text
//!  API server --watches--> caches --keys--> queues --workers (leader alone)--> CSI driver
//!      ^                                                  |
//!      '---- volumes, finalizers, statuses, events -------'
//! ```
//!
//! Any number of replicas run, and one holds the Lease. It alone calls the driver and writes. It
//! also keeps a journal of creations in the Lease: see [`lease`].
//!
//! | module | its job |
//! |---|---|
//! | [`arguments`] | the command line |
//! | [`run`] | the controller of a driver, from its start to its end |
//! | [`service`] | log, threads, signals and the election |
//! | [`driver`] | the CSI driver: capabilities, calls, which errors are final |
//! | [`caches`], [`cache`] | the objects of the cluster, kept by watches |
//! | [`changes`] | which objects are worked on after a change |
//! | [`queue`] | which object is next, and when one that failed is tried again |
//! | [`metrics`] | figures for Prometheus |
//! | [`lease`], [`journal`] | which replica works, and which volumes it may have begun to create |
//! | [`access`], [`finalizers`], [`key`] | access modes, lists of finalizers, names |
//! | [`provision`] | claims to volumes, and the end of volumes |
//! | [`attach`] | VolumeAttachments |
//! | [`attach_detach`] | the cluster's controller that makes VolumeAttachments, for all drivers |
//! | [`driver_object`] | the driver's CSIDriver object |
//! | [`capacity`] | CSIStorageCapacity objects |
//! | [`resize`], [`modify`] | claims that ask for more, or name another VolumeAttributesClass |
//! | [`migrated`] | volumes and classes of former in-tree plugins |
//! | [`snapshot`] | VolumeSnapshots and their contents |
//! | [`group`] | VolumeGroupSnapshots and their contents |
//! | [`snapshots`] | the custom resources of snapshots and groups, and their caches |
//! | [`data_source`] | what a claim's volume is to be a copy of |
//! | [`secrets`] | the Secrets that classes name |
//! | [`plugins`] | `plugin-controller`: VolumePlugins, and which node gets which plugin |
//! | [`probe`] | `csi-probe`: whether a driver is ready |
#![forbid(unsafe_code)]

mod access;
mod arguments;
mod attach;
mod attach_detach;
mod cache;
mod caches;
mod capacity;
mod changes;
mod data_source;
mod driver;
mod driver_object;
mod error;
mod finalizers;
mod group;
mod journal;
mod key;
mod lease;
mod metrics;
mod migrated;
mod modify;
mod plugins;
mod probe;
mod protection;
mod provision;
mod queue;
mod resize;
mod run;
mod secrets;
mod service;
mod snapshot;
mod snapshots;

use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Cli, Command};
use volhost_allocator as _;
use volhost_config::EnvironmentVariables;

/// Runs until SIGTERM, SIGINT or the loss of the Lease, and reports a failure on standard error.
fn main() -> ExitCode {
    let Cli { command, socket, .. } = Cli::parse();
    let outcome = match command {
        Command::Controller(arguments) => run::run(*arguments).map_err(|error| (error.to_string(), error.exit_code())),
        Command::AttachDetachController(arguments) => {
            attach_detach::run(arguments).map_err(|error| (error.to_string(), error.exit_code()))
        }
        Command::PluginController(arguments) => {
            plugins::run(arguments).map_err(|error| (error.to_string(), error.exit_code()))
        }
        Command::CsiProbe(arguments) => probe::run(&arguments).map_err(|error| (error.to_string(), error.exit_code())),
        Command::NodeAgent(arguments) => {
            let socket = volhost_config::socket(socket, &EnvironmentVariables::of_process());
            volhost_node_agent::run(arguments, &socket).map_err(|error| (error.to_string(), error.exit_code()))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err((error, code)) => {
            eprintln!("error: {error}");
            ExitCode::from(code)
        }
    }
}
