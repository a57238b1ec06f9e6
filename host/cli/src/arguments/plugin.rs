//! The options of `volhost plugin`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use volhost_model::duration::HumanDuration;
use volhost_registry::Reference;

use super::Format;

/// `plugin new`.
#[derive(Debug, Args)]
pub(crate) struct NewArguments {
    /// The plugin's name: NAME, or VENDOR/NAME with a domain of yours
    #[arg(required_unless_present = "from_flex")]
    pub(crate) name: Option<String>,
    /// The template to start from
    #[arg(long, value_name = "TEMPLATE", default_value = "minimal")]
    pub(crate) template: TemplateChoice,
    /// Replace this FlexVolume driver, which is asked for its capabilities: its program, its
    /// folder, or VENDOR/DRIVER
    #[arg(long, value_name = "DRIVER", conflicts_with = "template")]
    pub(crate) from_flex: Option<PathBuf>,
    /// Where FlexVolume drivers are installed
    #[arg(
        long,
        value_name = "DIR",
        requires = "from_flex",
        default_value = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"
    )]
    pub(crate) flex_driver_dir: PathBuf,
    /// The folder to create [default: NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// The folder plugin-sdk of a checkout of volhost [default: that of the checkout this program
    /// was built in, else crates.io]
    #[arg(long, value_name = "DIR")]
    pub(crate) sdk: Option<PathBuf>,
}

/// The template of a new plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TemplateChoice {
    /// A mount for each pod
    Minimal,
    /// A block device of the node: attached, formatted, mounted, mapped, expanded
    Block,
    /// A FUSE file system, served by an unprivileged program
    Fuse,
    /// A folder of a server, with keys from a secret
    Network,
}

/// `plugin build`.
#[derive(Debug, Args)]
pub(crate) struct BuildArguments {
    /// Crates to build [default: the crate in the current folder]
    #[arg(value_name = "CRATE")]
    pub(crate) crates: Vec<String>,
    /// Folder for the components [default: `plugins` in cargo's target folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Cargo.toml of the workspace or crate [default: the one around the current folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest_path: Option<PathBuf>,
}

/// `plugin encode`.
#[derive(Debug, Args)]
pub(crate) struct EncodeArguments {
    /// The core module
    #[arg(value_name = "MODULE")]
    pub(crate) module: PathBuf,
    /// The WIT that it was written for: a file, or a folder with its dependencies in `deps`
    #[arg(long, value_name = "PATH")]
    pub(crate) wit: PathBuf,
    /// The world [default: the only one in the WIT]
    #[arg(long, value_name = "WORLD")]
    pub(crate) world: Option<String>,
    /// The component to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

/// `plugin test`.
#[derive(Debug, Args)]
pub(crate) struct TestArguments {
    /// The case file: the volume to work on, and what it needs [default: conformance.yaml, if there
    /// is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// `plugin run`.
#[derive(Debug, Args)]
pub(crate) struct TryArguments {
    /// The plugin's .wasm file [default: the crate in the current folder, built]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Objects to apply: a pod, with the PersistentVolumes and claims that it needs
    #[arg(long, value_name = "FILE", default_value = "volume.yaml")]
    pub(crate) volume: PathBuf,
    /// Configuration with the plugin's grants; SCRATCH in it is replaced by a folder that is
    /// created and removed [default: volhost.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How long the volume may take to be mounted
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    pub(crate) timeout: HumanDuration,
    /// What to run in the volume [default: your shell]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// `plugin key`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key pair: NAME.key to sign with, NAME.pub for those who are to trust you
    #[command(
        after_help = "The files are minisign's, for `minisign -S -s NAME.key` and `minisign -V -p NAME.pub` too.\n\nExample:\n  volhost plugin key new acme"
    )]
    New(NewKeyArguments),
    /// Print the public key of a secret key
    #[command(after_help = "Example:\n  volhost plugin key public --key acme.key > acme.pub")]
    Public {
        /// The secret key.
        #[command(flatten)]
        secret: SecretKeyArguments,
    },
}

/// `plugin key new`.
#[derive(Debug, Args)]
pub(crate) struct NewKeyArguments {
    /// The files' name, without .key and .pub
    #[arg(value_name = "NAME")]
    pub(crate) name: PathBuf,
    /// Do not encrypt the secret key with a password: whoever reads the file can sign
    #[arg(short = 'W', long, conflicts_with = "password_file")]
    pub(crate) no_password: bool,
    /// The file that has the password in its first line, - for standard input [default: ask]
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

/// A secret key, and its password.
#[derive(Debug, Args)]
pub(crate) struct SecretKeyArguments {
    /// The secret key, as `volhost plugin key new` and `minisign -G` write it
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The file that has the key's password in its first line, - for standard input [default: ask,
    /// if the key has a password]
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

/// `plugin sign`.
#[derive(Debug, Args)]
pub(crate) struct SignArguments {
    /// The plugins' .wasm files; the signatures are FILE.minisig beside them
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The secret key.
    #[command(flatten)]
    pub(crate) secret: SecretKeyArguments,
    /// Replace signatures that exist
    #[arg(long)]
    pub(crate) force: bool,
}

/// `plugin dev`.
#[derive(Debug, Args)]
pub(crate) struct DevArguments {
    /// How to build: a command for sh in the current folder [default: `volhost plugin build` of the
    /// crate there]
    #[arg(long, value_name = "COMMAND", requires = "out")]
    pub(crate) build: Option<OsString>,
    /// The component that --build writes
    #[arg(long, value_name = "FILE", requires = "build")]
    pub(crate) out: Option<PathBuf>,
    /// A file or folder besides the current folder whose changes count, too; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) watch: Vec<PathBuf>,
    /// Objects to apply: a pod, with the PersistentVolumes and claims that it needs
    #[arg(long, value_name = "FILE", default_value = "volume.yaml")]
    pub(crate) volume: PathBuf,
    /// Configuration with the plugin's grants; SCRATCH in it is replaced by a folder that is
    /// created and removed [default: volhost.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The case file of the conformance suite [default: conformance.yaml, if there is one]
    #[arg(long, value_name = "FILE", conflicts_with = "no_conformance")]
    pub(crate) cases: Option<PathBuf>,
    /// Do not run the conformance suite
    #[arg(long)]
    pub(crate) no_conformance: bool,
    /// Unmount the volume and mount it again with each new plugin [default: it stays mounted, as
    /// with a running daemon]
    #[arg(long)]
    pub(crate) remount: bool,
    /// How long mounting and unmounting the volume may take
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    pub(crate) timeout: HumanDuration,
    /// Start no shell
    #[arg(long, conflicts_with = "command")]
    pub(crate) no_shell: bool,
    /// What to run beside it, in the current folder; $VOLUME is the volume's path [default: your
    /// shell]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// `plugin publish`.
#[derive(Debug, Args)]
pub(crate) struct PublishArguments {
    /// The destination: HOST[:PORT]/NAME:TAG
    #[arg(value_name = "REF")]
    pub(crate) reference: Reference,
    /// The plugin's .wasm file; FILE.minisig beside it is published as its signature
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Replace the tag's plugin, if it is another one
    #[arg(long)]
    pub(crate) force: bool,
    /// How the registry is reached.
    #[command(flatten)]
    pub(crate) registry: RegistryArguments,
}

/// `plugin pull`.
#[derive(Debug, Args)]
pub(crate) struct PullArguments {
    /// Which: HOST[:PORT]/NAME:TAG, or HOST[:PORT]/NAME@sha256:DIGEST
    #[arg(value_name = "REF")]
    pub(crate) reference: Reference,
    /// The folder to put it into, such as the daemon's plugin folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    /// The file's name: NAME.wasm [default: the last part of the reference's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How the registry is reached.
    #[command(flatten)]
    pub(crate) registry: RegistryArguments,
}

/// How a registry is reached.
#[derive(Debug, Args)]
pub(crate) struct RegistryArguments {
    /// Use HTTP without TLS; only with a registry on this machine
    #[arg(long)]
    pub(crate) plain_http: bool,
    /// How long the transfer may take
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(crate) timeout: HumanDuration,
}

/// `plugin grant`.
#[derive(Debug, Clone, Args)]
pub(crate) struct GrantArguments {
    /// The plugin, VENDOR/NAME
    pub(crate) plugin: String,
    /// The configuration file; created if it is missing
    #[arg(long, value_name = "FILE", env = "VOLHOST_CONFIG", default_value = "/etc/volhost/config.toml")]
    pub(crate) config: PathBuf,
    /// Remove what is named, instead of adding it
    #[arg(long)]
    pub(crate) remove: bool,
    /// Add what this file grants the plugin, such as the one that comes with it; it has the form of
    /// the configuration file. Read it first: programs that it names are run
    #[arg(long, value_name = "FILE", conflicts_with = "remove")]
    pub(crate) from: Option<PathBuf>,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// An interface of the contract that it may import
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Vec<String>,
    /// A folder of the host below which it may open paths
    #[arg(long, value_name = "DIR")]
    pub(crate) host_path: Vec<String>,
    /// A folder for its image files and loop devices over them
    #[arg(long, value_name = "DIR")]
    pub(crate) loop_files: Vec<String>,
    /// A folder of images that it may mount read-only
    #[arg(long, value_name = "DIR")]
    pub(crate) image_files: Vec<String>,
    /// A server that it may mount from over the network: a name, an address or a network
    #[arg(long, value_name = "SERVER")]
    pub(crate) network_server: Vec<String>,
    /// A portal of iSCSI targets that it may log in to: an address or a network
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) iscsi_portal: Vec<String>,
    /// A port (WWN) or unit (WWID) of a Fibre Channel target that it may use, or * for all
    #[arg(long, value_name = "NAME")]
    pub(crate) fc_target: Vec<String>,
    /// A registry that it may take OCI images from, as references name it; * for all
    #[arg(long, value_name = "HOST")]
    pub(crate) image_registry: Vec<String>,
    /// A folder with OCI image layouts that it may use
    #[arg(long, value_name = "DIR")]
    pub(crate) image_layouts: Vec<String>,
    /// A block device, or a folder of them, that it may open
    #[arg(long, value_name = "PATH")]
    pub(crate) block_device: Vec<String>,
    /// A CSI driver that it may call
    #[arg(long, value_name = "NAME")]
    pub(crate) csi_driver: Vec<String>,
    /// A FlexVolume driver that it may run
    #[arg(long, value_name = "NAME")]
    pub(crate) flex_driver: Vec<String>,
    /// A type of file system that it may create and mount; with one named, no other
    #[arg(long, value_name = "TYPE")]
    pub(crate) filesystem: Vec<String>,
    /// An option that it may mount with; with one named, no other but ro
    #[arg(long, value_name = "OPTION")]
    pub(crate) mount_option: Vec<String>,
    /// A volume source that it may serve although it is Kubernetes' own or names a driver: nfs,
    /// csi:DRIVER, flexVolume:VENDOR/DRIVER
    #[arg(long, value_name = "SOURCE")]
    pub(crate) source: Vec<String>,
    /// The SHA-256 of the only plugin file that may use the grant [default: that of the file that
    /// is pending approval in the daemon, if one is]
    #[arg(long, value_name = "DIGEST")]
    pub(crate) sha256: Vec<String>,
    /// The name of a FUSE server to remove; --from adds one
    #[arg(long, value_name = "NAME", requires = "remove")]
    pub(crate) fuse_server: Vec<String>,
    /// The most that an OCI image may have on disk, as 10Gi
    #[arg(long, value_name = "SIZE")]
    pub(crate) image_size: Option<String>,
    /// How many loop devices it may have at once
    #[arg(long, value_name = "NUMBER")]
    pub(crate) loop_devices: Option<i64>,
    /// Memory of one call, as 128Mi
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// How long its own code may run in one call, as 10s
    #[arg(long, value_name = "DURATION")]
    pub(crate) call_time: Option<String>,
    /// How many of its operations may run at once
    #[arg(long, value_name = "NUMBER")]
    pub(crate) concurrency: Option<i64>,
}

/// Where an index of plugins is.
#[derive(Debug, Args)]
pub(crate) struct IndexSource {
    /// The index: a folder, such as a git repository, or HOST[:PORT]/NAME:TAG of an OCI registry
    #[arg(long, value_name = "INDEX", env = "VOLHOST_PLUGIN_INDEX")]
    pub(crate) index: String,
}

/// `plugin search`.
#[derive(Debug, Args)]
pub(crate) struct SearchArguments {
    /// Words that its name, its description or its sources have [default: every plugin]
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// Where to look.
    #[command(flatten)]
    pub(crate) source: IndexSource,
    /// How to print
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// How the registry is reached.
    #[command(flatten)]
    pub(crate) registry: RegistryArguments,
}

/// `plugin info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArguments {
    /// The plugin: VENDOR/NAME, or NAME
    pub(crate) name: String,
    /// Where to look.
    #[command(flatten)]
    pub(crate) source: IndexSource,
    /// How to print
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// How the registry is reached.
    #[command(flatten)]
    pub(crate) registry: RegistryArguments,
}

/// `plugin index`.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Add a published plugin to the index in a folder, or its new version
    #[command(
        after_help = "Asks the plugin for its name, as `plugin inspect` does, and writes VENDOR~NAME.json.\n\nExample:\n  volhost plugin index add target/plugins/archive.wasm \"$(volhost plugin publish registry.example.com/acme/archive:1.0 target/plugins/archive.wasm)\" --index . --description \"Folders of an archive\""
    )]
    Add(IndexAddArguments),
    /// Put the index of a folder into an OCI registry
    #[command(
        after_help = "The login is that of `plugin publish`.\n\nExample:\n  volhost plugin index publish registry.example.com/acme/plugins:latest --index . --force"
    )]
    Publish(IndexPublishArguments),
}

/// `plugin index add`.
#[derive(Debug, Args)]
pub(crate) struct IndexAddArguments {
    /// The plugin's .wasm file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where it was published, as `plugin publish` prints it: HOST[:PORT]/NAME:TAG@sha256:DIGEST
    #[arg(value_name = "REF")]
    pub(crate) reference: Reference,
    /// The index's folder
    #[arg(long, value_name = "DIR")]
    pub(crate) index: PathBuf,
    /// What it does, in one line
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) description: String,
}

/// `plugin index publish`.
#[derive(Debug, Args)]
pub(crate) struct IndexPublishArguments {
    /// The destination: HOST[:PORT]/NAME:TAG
    #[arg(value_name = "REF")]
    pub(crate) reference: Reference,
    /// The index's folder
    #[arg(long, value_name = "DIR")]
    pub(crate) index: PathBuf,
    /// Replace the tag's index, if it is another one
    #[arg(long)]
    pub(crate) force: bool,
    /// How the registry is reached.
    #[command(flatten)]
    pub(crate) registry: RegistryArguments,
}
