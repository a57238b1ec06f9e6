//! volhost's WebAssembly runtime: loads, checks, grants and calls volume plugins.
//!
//! A plugin is a component that was compiled, outside of this process, to machine code. Each call
//! of it runs in a sandbox made for that call, wholly on the thread that makes it: the plugin's
//! code, the host functions it calls, and their system calls. The sandbox ends with the call,
//! whatever way that ends, and with it every handle of the plugin.
//!
//! ```text
//!  file ── header ── digest ──► cache ──────────────────► map ── imports, exports ── link ── describe ── grants ──► Plugin
//!                                 │ miss                    ▲
//!                                 └─► compiler child ───────┘
//!
//!  Plugin ── call ──► store + limits ── instance ── plugin code ⇄ host functions ⇄ kernel
//!                                                      │
//!                                  answer │ trap │ deadline │ limit  ──►  Result<_, CallError>, class by what was begun
//! ```
//!
//! | module | contains |
//! |---|---|
//! | `runtime` | [`Runtime`]: the load path |
//! | `plugin`, `capabilities` | [`Plugin`], its calls, and the checks after them |
//! | `provision`, `provisioned` | the calls that make volumes and snapshots, and what these are |
//! | `measure`, `measured` | the call that asks how full a volume is, and its answer |
//! | `exports` | which of the contract's exports a component has |
//! | `sandbox` | one call: store, limits, deadline, and what its end means |
//! | `host` | the host's side of every import, one file an interface |
//! | `handles` | the objects that plugins have handles of |
//! | `wasi` | WASI on an empty machine, for plugins whose language imports it |
//! | `bindings` | the contract in Rust, generated from `wit/` |
//! | `grants` | what the operator allows each plugin |
//! | `settings` | the values that the operator gives each plugin |
//! | `grant_bindings` | which content may use a grant that names none |
//! | `signatures` | whose plugins are taken |
//! | `check`, `abi` | imports and exports against the contract |
//! | `file`, `cache`, `digest` | plugin files, and their compiled form on disk |
//! | `compile` | the compiler child, both sides of it |
//! | `engine`, `ticker`, `limits` | the engine, its clock, and every bound |
//! | `budget`, `cancellation` | what host calls may use up, and the early end of a call |
//! | `environment` | what the host provides to plugins |
//! | `call`, `target`, `sink` | what is asked of a plugin now, where the volume goes, and where its log lines go |
//! | `progress`, `trace` | the current step of a call, and its spans |
//! | `host_calls` | watching the host calls of a call, and making them fail |
//! | `fuse_servers` | programs that serve file systems for a call |
//! | `token_expiry` | when a token ends |
//! | `error`, `call_error`, `abort`, `text` | failures, and the text of them |
#![deny(unsafe_code)]

mod abi;
mod abort;
mod bindings;
mod budget;
mod cache;
mod call;
mod call_error;
mod cancellation;
mod capabilities;
mod check;
mod compile;
mod digest;
mod engine;
mod environment;
mod error;
mod exports;
mod file;
mod fuse_servers;
mod grant_bindings;
mod grants;
#[expect(unreachable_pub, reason = "the generated bindings re-export these types, which takes `pub`")]
mod handles;
mod host;
mod host_calls;
mod limits;
mod measure;
mod measured;
mod plugin;
mod private;
mod progress;
mod provision;
mod provisioned;
mod redaction;
mod runtime;
mod sandbox;
mod sections;
mod settings;
mod signatures;
mod sink;
mod target;
mod text;
mod ticker;
mod token_expiry;
mod trace;
mod wasi;

pub use abi::{PACKAGE, VERSION, Version};
pub use budget::VolumeAccount;
pub use cache::{examine_cache, trim_cache};
pub use call::{Call, DevicePlaces, ProvisioningCall};
pub use call_error::{CallError, ErrorCase, Function, PluginError};
pub use cancellation::Cancellation;
pub use compile::{Compiler, compile_stdin_to_stdout, compilers};
pub use environment::{Environment, NodeFacts};
pub use error::{
    CacheError, CompileError, LoadError, LoadProblem, NameReserved, NotGranted, OtherContent, RuntimeError,
};
pub use fuse_servers::{
    FuseServerArgument, FuseServerBounds, FuseServerDescriptor, FuseServerError, FuseServerPart, FuseServerRights,
    FuseServerStart, FuseServers, NoFuseServers, Served, SettledServer,
};
pub use grant_bindings::{GrantBindings, NoBindings};
pub use grants::{
    ClusterGrant, ClusterGrantError, ClusterGrants, Grant, GrantPolicy, GrantedProgram, NotShipped, SHIPPED_LIST,
    ShippedListError, ShippedPlugins, SourceRight, is_reserved_name,
};
pub use host_calls::{HostCallVerdict, HostCalls};
pub use limits::{Limits, MOST_MEMORY_BYTES};
pub use measured::Measured;
pub use plugin::{Capability, Identified, Plugin, PluginInfo, Publish};
pub use private::{FolderKind, PrivateFolder};
pub use progress::{Progress, ProgressStep};
pub use provisioned::{MadeGroup, MadeSnapshot, MadeVolume, Page, WantedGroup, WantedSnapshot, WantedVolume};
pub use runtime::{Inspection, Runtime, RuntimeConfig};
pub use settings::{BadSettings, DeclaredSetting, PluginSettings, SettingKind, SettingProblem, SettingValue};
pub use signatures::cosign::{ArtifactSignature, ArtifactSignatures};
pub use signatures::{SignatureError, Signatures, TrustedKeysError, signature_files};
pub use sink::{CallSink, LogLevel};
pub use target::{Attachment, NeededPlace, OtherPods, Place, Target};
