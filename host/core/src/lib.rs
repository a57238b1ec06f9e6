//! volhost's desired and actual state of world and the reconciler, as a pure state machine: no I/O,
//! no clock, no threads, no randomness. The event loop passes each [`Event`] to
//! [`Core::step`] and executes the [`CoreCommand`]s that it returns.
//!
//! # The states of one pod's volume
//!
//! ```text
//!                      host attaches: volume_attach
//!  wanted --> attach? ------------------------------> attached
//!    |  no        controller: in use reported,           |
//!    |            attachment reported, then verified     |
//!    +---------------------------------------------------+
//!                              |
//!                              v  volume_mount / map_volume
//!                       +--------------+   final, and not recovered
//!        +------------->| being made   |---------------------------> not mounted
//!        |              +--------------+                                  ^
//!        | retry          |          | done                              |
//!        |      uncertain v          v                                   |
//!        |         +-----------+  +---------+<--+ refresh, expand:       |
//!        +---------| UNCERTAIN |  | MOUNTED |---+ however they end       |
//!    still wanted  +-----------+  +---------+                            |
//!                    |   ^            | pod gone, or another spec wanted |
//!   not wanted       |   |            v                                  |
//!   any more         |   |       +--------------+  done                  |
//!                    +---|------>| being undone |------------------------+
//!                        |       +--------------+
//!                        +------------+ final or uncertain; a transient failure changes nothing
//! ```
//!
//! The arrows:
//!
//! - **wanted -> attached.** Only for volumes that must be attached; for others no operation is
//!   spent. Where a controller attaches, the volume first has to be reported in use, then its
//!   attachment has to be reported, then it is verified. Waiting for these reports is quiet: no
//!   operation, no back-off, no event.
//! - **-> being made.** From here on the volume may be mounted: it is listed among the possibly
//!   mounted ones. A volume for one pod alone (ReadWriteOncePod) waits until no other pod has a
//!   mount of it; a volume that other pods have mounted with another SELinux label waits until they
//!   are gone and it is staged anew; a volume whose folder another volume of the pod still occupies
//!   waits until that is gone; a volume that is made of other volumes of the pod waits until those
//!   are mounted.
//! - **being made -> MOUNTED, UNCERTAIN or nothing**, by the outcome. A final failure leaves
//!   nothing, unless recovery had found something there: then the failure proves nothing and the
//!   mount stays uncertain. A transient failure changes no state.
//! - **UNCERTAIN -> being made** while it is wanted, **-> being undone** when it is not. It is
//!   never forgotten (rule R1).
//! - **MOUNTED -> MOUNTED** when the source of a volume that follows it changes, or when a larger
//!   size is wanted. A failure is reported and tried again; what is mounted stays.
//! - **MOUNTED -> being undone** when the pod is gone, does not list the volume any more, or wants
//!   another spec under its name. Not when the pod's volume cannot be resolved, nor when it now
//!   resolves to another plugin, nor when its PersistentVolume was edited (the edit applies at the
//!   next mount), and nothing that recovery found before every source has been read (rule R2). A
//!   volume that others of the pod are made of waits until those are gone, and when it has to be
//!   replaced, so have they. While it is being undone it is not reported as mounted, even if the
//!   pod comes back; then it is mounted again afterwards.
//! - **recovered -> MOUNTED** without any operation, when it was found complete and is wanted with
//!   the same spec. A volume that follows its source is refreshed besides. A mount with another
//!   spec is replaced. Every other wanted volume is mounted again: mounting is idempotent.
//!
//! A device mount and an attachment have the same three states (absent, present, uncertain) and the
//! same tables. A device goes when no pod has a mount of the volume or wants it; the attachment
//! goes after the device. A failed operation waits, by its key, 500 ms and then twice as long each
//! time up to 2 min 2 s; a success, another operation on the key, or a new version of the plugin
//! ends the wait.
//!
//! # Where things are
//!
//! | module | contains |
//! |---|---|
//! | [`event`], [`command`] | the interface of the event loop to the state machine |
//! | `core` | the machine's parts and one step |
//! | `core::apply` | the changes by each event |
//! | `attaching` | which volumes the host attaches, and which a controller |
//! | `core::attach_limit` | how many volumes of a plugin, or with names that begin alike, may be attached at once |
//! | `desired` | DESIRED: pods and what they want |
//! | `actual` | ACTUAL: volumes that are mounted, staged or attached, or may be |
//! | `compare`, `mount_check` | the same spec, and whether a mount is as it is wanted |
//! | `transitions` | the tables of states and outcomes |
//! | `core::needs` | volumes that are made of other volumes of their pod |
//! | `core::reconcile` | compares the two for one volume and starts the next operation |
//! | `core::start` | starts an operation: its key, its room in ACTUAL, its input |
//! | `core::owner` | keeps a mounted volume with the plugin that mounted it |
//! | `core::edits` | edits of PersistentVolumes that are mounted |
//! | `core::labels` | SELinux labels that exclude each other |
//! | `blocked` | why no operation is started for a volume that is not as wanted |
//! | `core::outcome` | the changes by the end of an operation |
//! | `core::vanished` | mounts that another process unmounted |
//! | `pending`, `keys` | the operation table: running operations, and the waits of failed ones |
//! | `shared` | how what is shared is written into recordings |
//! | `identity` | numbers for the names of pods and volumes |
//! | `waiters`, `core::answers` | callers that wait, and their answers |
//! | `core::status`, `core::views` | lists for users |
//! | `core::counts` | how many volumes there are, for metrics |
//! | `core::image` | the machine's state as data, for recordings |
//! | `core::notices` | events for users |
//!
//! The modules below `core` are its own `impl` blocks; its fields are private to them.
//!
//! # Cost
//!
//! A step looks at the volumes and pods that its event may concern, found by number, not at all of
//! them: an event's names are looked up once. The exceptions are events that concern all:
//! `SourcesSynced`, `Drain`, the controller's reports, and an attachment whose plugin has a limit,
//! which counts.
#![forbid(unsafe_code)]

mod actual;
mod attaching;
mod blocked;
pub mod command;
mod compare;
pub mod config;
mod core;
mod desired;
pub mod event;
mod identity;
mod keys;
mod mount_check;
mod pending;
mod shared;
mod small_map;
mod transitions;
mod waiters;

pub use self::core::{ClaimedVolume, Core, CoreImage, PluginCounts, VolumeCounts};
pub use attaching::AttachPolicy;
pub use command::{CoreCommand, Notice, Operation, OperationKind, OperationName, VolumeStatus, WaitFailure};
pub use config::{Config, WAIT_DEFAULT};
pub use event::{
    DesiredPod, DesiredVolume, DeviceReport, Event, NamedLimit, OperationId, OperationReport, RecoveredDevice,
    RecoveredVolume, Time, UnresolvedVolume, WaiterId,
};
