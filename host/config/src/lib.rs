//! The daemon's options, from the command line, the environment and a TOML file.
//!
//! Every option has one name: `--root-dir` on the command line is `VOLHOST_ROOT_DIR` in the
//! environment and `root-dir` in the file. The first that is given wins:
//!
//! ```text
//! command line  >  environment  >  file (--config)  >  default
//! ```
//!
//! One struct, [`Settings`], is all three layers: clap reads it from the command line and from each
//! variable, serde from the file.
#![forbid(unsafe_code)]

mod arguments;
mod csi_endpoint;
mod environment;
mod error;
mod file;
mod otlp;
mod pod_scope;
mod run;
mod settings;
mod socket;
mod values;

pub use arguments::{
    AttachDetachArguments, ColorChoice, ControllerArguments, CsiProbeArguments, CsiServeArguments, ForceDetachAfter,
    NodeAgentArguments, PluginControllerArguments, RunArguments, with_variables,
};
pub use csi_endpoint::{CsiEndpoint, CsiEndpointError};
pub use environment::{EnvironmentVariables, variable};
pub use error::ConfigError;
pub use otlp::{OtlpEndpoint, OtlpEndpointError};
pub use pod_scope::{PodMarks, PodScope, PodScopeError};
pub use run::{
    KubernetesOptions, RunConfig, TokenSigning, TrustedSigners, check, grants, host_name, load, trusted_signers,
};
pub use settings::Settings;
pub use socket::{DEFAULT_SOCKET, socket};
pub use values::{Label, LabelTextError, LogFilter, LogFilterError, LogFormat, StatusPage};
