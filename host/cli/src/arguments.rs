//! The commands and options, and their help.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use volhost_config::{
    AttachDetachArguments, ColorChoice, ControllerArguments, CsiProbeArguments, CsiServeArguments, NodeAgentArguments,
    PluginControllerArguments, RunArguments, with_variables,
};
use volhost_model::duration::HumanDuration;

use super::adopt::AdoptArguments;
use super::apply::ApplyArguments;
use super::conformance::ConformanceArguments;
use super::debug::DebugCommand;
use super::delete::DeleteArguments;
use super::diff::DiffArguments;
use super::docker::DockerArguments;
use super::doctor::DoctorArguments;
use super::explain::ExplainArguments;
use super::get::{GetArguments, OutputFormat};
use super::mounts::MountsArguments;
use super::plan::PlanArguments;
use super::replay::ReplayArguments;
use super::status::StatusArguments;
use super::volume::VolumeCommand;
use super::wait::WaitArguments;

/// The first page of help: commands in groups, examples, exit codes.
const HELP: &str = "\
{about}

{usage-heading} {usage}

Look:
  get            List pods, volumes, plugins, drivers or operations
  describe       Show one pod, volume, plugin or driver: state, last error and next try, mounts, events
  status         Show whether the node is healthy, and what is wrong
  doctor         Check the machine and the daemon, and say what to do
  debug          Put what a bug report needs into one file, or record what the daemon decides
  replay         Show a daemon's events and decisions from a recording; needs no daemon
  explain        Say why a pod or volume is not ready, what happens next, and who must act
  events         Show events
  top            Show live operations, latencies and volumes in trouble
  metrics        Print the daemon's metrics in Prometheus' format
  version        Show the versions of this program and of the daemon

Act:
  wait           Wait until a pod's volumes are mounted or unmounted
  mounts         Print what a container runtime mounts for a pod, in its own words
  apply          Add pods and other objects from a file
  diff           Show what `apply` would change
  plan           Show what would be mounted and unmounted after `apply`, and what would wait
  delete         Remove a pod or another object that `apply` added
  drain          Unmount every volume of the node
  uncordon       End a drain: mount volumes again
  force-unmount  Detach a volume whose storage does not answer (lazy unmount)
  adopt          Take over a kubelet's root folder with its volumes; needs no daemon
  volume         Create, mount and remove named volumes, for programs without a pod
  attachments    Act as the controller that attaches volumes to this node

Serve and extend:
  run            Run the daemon
  csi-serve      Serve a plugin as a CSI driver; needs no daemon
  csi-probe      Ask a CSI driver whether it is ready, as a liveness probe
  controller     Create, attach and grow a CSI driver's volumes in a Kubernetes cluster
  attach-detach-controller  Attach the volumes of a cluster's pods to their nodes
  node-agent     Bring the pods of this node from a Kubernetes cluster to the daemon
  plugin-controller  Roll out plugins to the nodes of a Kubernetes cluster
  docker         Serve named volumes to Docker and Podman
  plugin         Write, build, test, try, inspect and distribute plugins; needs no daemon
  conformance    Run the conformance suite against a plugin, on the real kernel; needs no daemon
  completions    Print completions for a shell
  man            Print or write the manual pages
  help           Show the help of a command

Options:
{options}
{after-help}";

const AFTER_HELP: &str = "\
Examples:
  volhost run --manifests ./manifests --plugin-dir ./plugins
  volhost get pods -w
  volhost describe pod default/web
  volhost wait pod default/web --for mounted --timeout 30s && start-the-containers

Exit codes:
  0  done
  1  failed: refused, not found, or a wait or drain that did not reach its goal
  2  wrong usage or configuration
  3  the daemon cannot be reached
  4  a plugin could not be tested (conformance)";

/// volhost mounts pods' volumes on this node; every volume plugin is a sandboxed WebAssembly
/// component.
#[derive(Debug, Parser)]
#[command(name = "volhost", version, help_template = HELP, after_help = AFTER_HELP, max_term_width = 100)]
pub(super) struct Cli {
    /// The daemon's unix socket [env: VOLHOST_SOCKET] [default: /run/volhost/volhost.sock]
    #[arg(long, global = true, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// When to use colour; NO_COLOR in the environment turns `auto` off
    #[arg(long, global = true, value_name = "auto|always|never", default_value = "auto", hide_possible_values = true)]
    pub(super) color: ColorChoice,
    /// What to do.
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Run(Box<RunArguments>),
    CsiServe(Box<CsiServeArguments>),
    CsiProbe(CsiProbeArguments),
    Controller(Box<ControllerArguments>),
    AttachDetachController(AttachDetachArguments),
    NodeAgent(NodeAgentArguments),
    PluginController(PluginControllerArguments),
    /// List pods, volumes, plugins, drivers or operations
    #[command(
        after_help = "Examples:\n  volhost get pods\n  volhost get volumes -n default -o wide\n  volhost get pods,volumes -l app=web\n  volhost get pods --sort-by age -o name\n  volhost get pods -o jsonpath='{range .items[*]}{.metadata.name}{\"\\t\"}{.status.phase}{\"\\n\"}{end}'\n  volhost get pod default/web -o yaml\n  volhost get operations -w"
    )]
    Get(GetArguments),
    /// Show one pod, volume, plugin or driver: state, last error and next try, mounts, events
    #[command(
        after_help = "Examples:\n  volhost describe pod default/web\n  volhost describe volume default/web/data\n  volhost describe plugin kubernetes.io/empty-dir"
    )]
    Describe(DescribeArguments),
    /// Show whether the node is healthy, and what is wrong
    #[command(
        after_help = "Exit code 0 only if the node is healthy: everything is read and loaded, every volume is as it is wanted, and the node is not drained.\n\nExamples:\n  volhost status\n  volhost status -o json"
    )]
    Status(StatusArguments),
    /// Check the machine and the daemon, and say what to do
    #[command(
        after_help = "Changes nothing. The options are those of the daemon: name its configuration file, so that the same folders are checked. Exit code 1 if there is a problem; warnings are none.\n\nExamples:\n  volhost doctor --config /etc/volhost/config.toml\n  volhost doctor -o json"
    )]
    Doctor(Box<DoctorArguments>),
    /// Put what a bug report needs into one file
    Debug {
        /// What to do.
        #[command(subcommand)]
        command: DebugCommand,
    },
    /// Say why a pod or volume is not ready, what happens next, and who must act
    #[command(after_help = "Examples:\n  volhost explain pod default/web\n  volhost explain volume default/web/data")]
    Explain(ExplainArguments),
    /// Show a daemon's events and decisions from a recording; needs no daemon
    #[command(
        after_help = "Tells the state machine of this version what was recorded, and compares each decision with the recorded one. Nothing is mounted. Exit code 1 names the first step that is decided otherwise, with both sides: so versions are compared.\n\nExamples:\n  volhost debug record -o today.jsonl\n  volhost replay today.jsonl --pod default/web\n  volhost replay today.jsonl --volume data --until 2026-01-31T12:00:00Z\n  volhost replay today.jsonl -o json"
    )]
    Replay(ReplayArguments),
    /// Wait until a pod's volumes are mounted or unmounted
    #[command(
        after_help = "After the timeout, each volume that has not reached the goal is printed with its state, its step and the reason, and the exit code is 1.\n\nExamples:\n  volhost wait pod default/web\n  volhost wait pod default/web --for unmounted --timeout 30s"
    )]
    Wait(WaitArguments),
    /// Print what a container runtime mounts for a pod, in its own words
    #[command(
        after_help = "Waits until the pod's volumes are mounted, as `wait` does. Prints paths, and no content of a volume.\n\nExamples:\n  podman run $(volhost mounts pod default/web) IMAGE\n  docker run $(volhost mounts pod default/web -c app -o docker) IMAGE\n  volhost mounts pod default/web -o kube -f web.yaml | podman kube play -\n  volhost mounts pod default/web -o oci"
    )]
    Mounts(MountsArguments),
    /// Show events
    #[command(after_help = "Examples:\n  volhost events -w\n  volhost events --for pod/default/web")]
    Events(EventsArguments),
    /// Show live operations, latencies and volumes in trouble
    #[command(
        after_help = "Keys: q quits, s sorts by age, by plugin, by failures. Without a terminal, it prints once.\n\nExample:\n  volhost top --once | less"
    )]
    Top(TopArguments),
    /// Print the daemon's metrics in Prometheus' format
    #[command(after_help = "To let Prometheus scrape them: volhost run --metrics-listen 127.0.0.1:9810")]
    Metrics,
    /// Add pods and other objects from a file
    #[command(
        after_help = "Applied objects survive a restart of the daemon, but not of the machine; for pods that stay, use a folder: `volhost run --manifests DIR`. Secrets are kept in memory only: apply them again after the daemon has been restarted.\n\nExamples:\n  volhost apply -f pod.yaml\n  volhost apply -f pod.yaml --validate=warn\n  volhost apply -f pod.yaml --dry-run=server\n  volhost apply -f pod.yaml --wait --timeout 30s\n  kubectl get pod web -o yaml | volhost apply -f -"
    )]
    Apply(ApplyArguments),
    /// Show what `apply` would change
    #[command(
        after_help = "The daemon checks the files as for `apply --dry-run=server`. Values of secrets are not shown.\n\nExit codes:\n  0  nothing would change\n  1  something would\n  2  a file is refused, or cannot be read\n  3  the daemon cannot be reached\n\nExamples:\n  volhost diff -f pod.yaml\n  volhost diff -f ./manifests"
    )]
    Diff(DiffArguments),
    /// Show what would be mounted and unmounted after `apply`, and what would wait
    #[command(
        after_help = "The daemon applies the files to a copy of its state machine, and counts each operation as a success. Nothing is executed, but that a plugin is asked what a new volume is. The limits: time stands still, so what waits for its next try goes on waiting; nothing comes from outside, so a claim that needs a new volume, and a volume that a controller attaches, wait. Several files are planned together.\n\nExamples:\n  volhost plan -f pod.yaml\n  volhost plan -f ./manifests -o json\n  volhost drain --dry-run"
    )]
    Plan(PlanArguments),
    /// Remove a pod or another object that `apply` added; a pod's volumes are unmounted
    #[command(
        after_help = "Examples:\n  volhost delete pod web\n  volhost delete pod/shop/web pvc/shop/data\n  volhost delete -f pod.yaml"
    )]
    Delete(DeleteArguments),
    /// Unmount every volume of the node
    #[command(
        after_help = "Shows on standard error what is left if it takes longer than a second. Exit code 1 if something is left at the end. Nothing is mounted until `volhost uncordon` or the next start of the daemon."
    )]
    Drain(DrainArguments),
    /// End a drain: mount volumes again for the pods that want them
    Uncordon,
    /// Detach a volume whose storage does not answer (lazy unmount); data not written yet may be
    /// lost
    #[command(
        after_help = "For the volume of a pod that is gone, if it cannot be unmounted, and for a volume that hangs while it is mounted. An event reports it. The kernel releases the file system with its last user."
    )]
    ForceUnmount(ForceUnmountArguments),
    /// Take over a kubelet's root folder with its volumes; needs no daemon
    #[command(
        after_help = "Prints what it found and what becomes of each: `adopt` (`volhost run` keeps it for its pod), `clean` (a mark of the kubelet's, removed), `leave` (it stays as it is), `blocks` (nothing is adopted while it is there). Asks before it changes anything. Unmounts nothing and deletes no data: `volhost run` unmounts the volumes of pods that are gone, once every source of pods has been read. The kubelet has to be stopped, its containers may run.\n\nExamples:\n  volhost adopt --kubelet-root /var/lib/kubelet --dry-run\n  volhost adopt --kubelet-root /var/lib/kubelet --yes\n  volhost run --root-dir /var/lib/kubelet --kubernetes"
    )]
    Adopt(AdoptArguments),
    /// Create, mount and remove named volumes, for programs without a pod
    #[command(
        after_help = "The daemon runs with --provision.\n\nExamples:\n  volhost volume create data -o plugin=loop -o size=1Gi\n  volhost volume mount data\n  volhost volume umount data\n  volhost volume rm data"
    )]
    Volume {
        /// What to do.
        #[command(subcommand)]
        command: VolumeCommand,
    },
    /// Serve named volumes to Docker and Podman, as a volume plugin
    #[command(
        after_help = "Keeps no state: the volumes and their users are the daemon's, which runs with --provision.\n\nExamples:\n  volhost docker &\n  docker volume create -d volhost -o plugin=loop -o size=1Gi data\n  docker run -v data:/data IMAGE"
    )]
    Docker(DockerArguments),
    /// Act as the controller that attaches volumes to this node
    #[command(
        after_help = "For a node that runs with --controller-attaches.\nExample:\n  volhost attachments list\n  volhost attachments set volhost.io/loop//srv/a.img=/dev/loop3"
    )]
    Attachments {
        /// What to do.
        #[command(subcommand)]
        command: AttachmentsCommand,
    },
    /// Write, build, test, try, inspect and distribute plugins; needs no daemon
    Plugin {
        /// What to do.
        #[command(subcommand)]
        command: PluginCommand,
    },
    /// Run the conformance suite against a plugin, on the real kernel; needs no daemon
    #[command(
        after_help = "Nothing is left on the machine. Exit codes: 0 every case that applies passed, 1 a case failed, 2 wrong usage or case file, 4 the plugin could not be tested here.\n\nExamples:\n  volhost conformance target/plugins/scratch.wasm\n  volhost conformance loop.wasm --config loop.yaml --only publish/crash-then-repeat\n  volhost conformance loop.wasm --config loop.yaml -o junit > report.xml"
    )]
    Conformance(ConformanceArguments),
    /// Show the versions of this program and of the daemon
    Version {
        /// Only this program's; needs no daemon
        #[arg(long)]
        client: bool,
        /// How to print
        #[arg(short, long, value_name = "FORMAT")]
        output: Option<DocumentFormat>,
    },
    /// Print completions for a shell
    #[command(after_help = "Example:\n  volhost completions bash > /etc/bash_completion.d/volhost")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print volhost(1), or write all manual pages into a folder
    Man {
        /// Folder for the pages, one for each command
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// What this program starts itself for.
    #[command(hide = true)]
    Internal {
        /// Which part.
        #[command(subcommand)]
        command: InternalCommand,
    },
}

/// What this program starts itself for.
#[derive(Debug, Subcommand)]
pub(super) enum InternalCommand {
    /// Compile a plugin: WebAssembly on standard input, machine code on standard output, no
    /// privileges.
    CompilePlugin,
    /// Read what program to become, drop the privileges that it is not to have, and become it.
    RunProgram,
    /// Fetch a manifest or blob of an image: the request on standard input, the content on standard
    /// output, no privileges.
    FetchImage,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// How to print one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DocumentFormat {
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// What can be described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DescribeKind {
    /// A pod
    #[value(aliases = ["pods", "po"])]
    Pod,
    /// A volume
    #[value(aliases = ["volumes", "vol"])]
    Volume,
    /// A plugin
    #[value(aliases = ["plugins"])]
    Plugin,
    /// An external driver
    #[value(aliases = ["drivers"])]
    Driver,
}

/// `describe`.
#[derive(Debug, Args)]
pub(super) struct DescribeArguments {
    /// What to describe
    #[arg(hide_possible_values = true, value_name = "pod|volume|plugin|driver")]
    pub(super) kind: DescribeKind,
    /// Which: a pod's NAME or NS/NAME, a volume's NAME or NS/POD/NAME, a plugin's VENDOR/NAME, a
    /// driver's name
    pub(super) name: String,
    /// The pod's namespace
    #[arg(short, long, value_name = "NS")]
    pub(super) namespace: Option<String>,
}

/// `events`.
#[derive(Debug, Args)]
pub(super) struct EventsArguments {
    /// Keep running and print new events
    #[arg(short, long)]
    pub(super) watch: bool,
    /// Only events about this: pod/NS/NAME, claim/NS/NAME, volume/NAME, plugin/VENDOR/NAME,
    /// driver/NAME or file/NAME
    #[arg(long = "for", value_name = "OBJECT")]
    pub(super) object: Option<String>,
    /// How to print: json, yaml, wide, jsonpath=TEMPLATE, custom-columns=HEADER:PATH,...
    #[arg(short, long, value_name = "FORMAT", value_parser = OutputFormat::parse)]
    pub(super) output: Option<OutputFormat>,
}

/// The order of the lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum TopSort {
    /// The oldest and the slowest first
    #[default]
    Age,
    /// By the plugin's name
    Plugin,
    /// The most failures first
    Failures,
}

impl TopSort {
    /// The order that a key press leads to.
    pub(super) const fn next(self) -> Self {
        match self {
            Self::Age => Self::Plugin,
            Self::Plugin => Self::Failures,
            Self::Failures => Self::Age,
        }
    }

    /// As it is typed.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Plugin => "plugin",
            Self::Failures => "failures",
        }
    }
}

/// `top`.
#[derive(Debug, Args)]
pub(super) struct TopArguments {
    /// Print once, in plain text, and end
    #[arg(long)]
    pub(super) once: bool,
    /// The order of the lists
    #[arg(long, value_name = "ORDER", default_value = "age")]
    pub(super) sort: TopSort,
    /// How often to refresh
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub(super) interval: HumanDuration,
}

/// `force-unmount`.
#[derive(Debug, Args)]
pub(super) struct ForceUnmountArguments {
    /// Which volume: NS/POD/VOLUME, or POD/VOLUME in the namespace `default`; with --of-node, the
    /// volume's unique name
    pub(super) name: String,
    /// The staging mount of a volume that no pod uses or wants, instead of a pod's mount
    #[arg(long)]
    pub(super) of_node: bool,
    /// If it is a FUSE file system, abort the connection to its server first: processes that wait
    /// for it get an error
    #[arg(long)]
    pub(super) end_server: bool,
}

/// `drain`.
#[derive(Debug, Args)]
pub(super) struct DrainArguments {
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "2m3s")]
    pub(super) timeout: HumanDuration,
    /// Only show what would be unmounted, and what would be left
    #[arg(long, conflicts_with = "timeout")]
    pub(super) dry_run: bool,
}

/// `attachments`.
#[derive(Debug, Subcommand)]
pub(super) enum AttachmentsCommand {
    /// List the attachable volumes that are wanted or attached: those a controller has to attach
    List,
    /// Declare that exactly these volumes are attached to this node; without any, that none is
    Set {
        /// The volume's unique name, and its device if it has one: NAME or NAME=DEVICE
        #[arg(value_name = "NAME[=DEVICE]")]
        volumes: Vec<String>,
    },
}

/// `plugin`.
#[derive(Debug, Subcommand)]
pub(super) enum PluginCommand {
    /// Write the crate of a new plugin, or of one that replaces a FlexVolume driver
    #[command(
        after_help = "Examples:\n  volhost plugin new scratch\n  volhost plugin new acme.org/disks --template block\n  volhost plugin new acme.org/files --template network\n  volhost plugin new --from-flex acme.org/lun"
    )]
    New(Box<NewArguments>),
    /// Build plugin crates: Rust to WebAssembly components
    #[command(
        after_help = "Looks for a compiler for wasm32-unknown-unknown: the rustc in use, Debian's, and `rustup target add` (for at most 20 seconds).\n\nExamples:\n  volhost plugin build\n  volhost plugin build --out /var/lib/volhost/plugins"
    )]
    Build(BuildArguments),
    /// Encode another language's core module, with or without WASI preview 1, as a component
    #[command(
        after_help = "Examples:\n  GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o scratch.core.wasm .\n  volhost plugin encode scratch.core.wasm --wit wit --world scratch --out scratch.wasm"
    )]
    Encode(EncodeArguments),
    /// Run the tests of the crate in the current folder, build it, and run the conformance suite
    #[command(
        after_help = "Runs `cargo test`, then what `volhost plugin build` and `volhost conformance` run. The suite runs on the real kernel, which needs root."
    )]
    Test(TestArguments),
    /// Try a plugin: mount a volume in a mount namespace of its own, and start a shell in it
    #[command(
        after_help = "Needs root, and unmounts and removes everything when the shell ends. In the shell, `volhost get volumes` and `volhost describe pod` connect to the daemon that was started for it.\n\nExamples:\n  volhost plugin run\n  volhost plugin run target/plugins/disks.wasm --volume disk.yaml -- df -h ."
    )]
    Run(TryArguments),
    /// Build a plugin whenever its sources change, and replace it under a mounted volume
    #[command(
        after_help = "Needs root. Each change of a file in the current folder is built; a daemon of its own, in a mount namespace of its own, replaces the plugin; then the conformance suite runs. Errors are printed, and the plugin built before keeps serving. It ends with the shell, or without one with Ctrl-C, and unmounts and removes everything. Without a terminal it starts no shell.\n\nExamples:\n  volhost plugin dev\n  volhost plugin dev --remount --no-shell\n  volhost plugin dev --build 'componentize-py --wit-path wit --world scratch componentize app -o scratch.wasm' --out scratch.wasm"
    )]
    Dev(DevArguments),
    /// Show a plugin file's name, version, contract, capabilities, imports, digest and size
    Inspect {
        /// The .wasm file
        file: PathBuf,
        /// The configuration file with the grants [default: the grants of the plugins that come
        /// with volhost]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Keep compiled plugins in this folder for the next command [default: volhost/plugins
        /// in your cache folder]
        #[arg(long, value_name = "DIR")]
        cache_dir: Option<PathBuf>,
        /// How to print
        #[arg(short, long, value_name = "FORMAT")]
        output: Option<Format>,
    },
    /// Edit a plugin's grant in the configuration file, which a running daemon reads at once
    #[command(
        after_help = "Examples:\n  volhost plugin grant example.com/archive --host-path /srv/archive --memory 128Mi\n  volhost plugin grant example.com/archive --remove --host-path /srv/archive"
    )]
    Grant(Box<GrantArguments>),
    /// Make keys to sign plugins with
    #[command(subcommand)]
    Key(KeyCommand),
    /// Sign plugin files: FILE.minisig, which minisign verifies too
    #[command(
        after_help = "The signature's trusted comment names the plugin, its version and the file's SHA-256; the plugin is asked as by `plugin inspect`. All files are signed, or none.\n\nExamples:\n  volhost plugin sign target/plugins/archive.wasm --key acme.key\n  volhost plugin sign plugins/*.wasm --key acme.key --password-file - < password"
    )]
    Sign(SignArguments),
    /// Put a plugin into an OCI registry, with the signature file beside it
    #[command(
        after_help = "The login is that of docker (`docker login HOST`), or VOLHOST_REGISTRY_USER and VOLHOST_REGISTRY_PASSWORD. Prints the reference with the digest that pins the plugin.\n\nExamples:\n  volhost plugin publish registry.example.com/acme/archive:1.0 target/plugins/archive.wasm"
    )]
    Publish(PublishArguments),
    /// Get a plugin from an OCI registry, with its signature; a running daemon loads it from its
    /// plugin folder
    #[command(
        after_help = "The plugin is neither run nor interpreted: the daemon checks signature and grants when it loads it.\n\nExamples:\n  volhost plugin pull registry.example.com/acme/archive:1.0 --out /var/lib/volhost/plugins\n  volhost plugin pull registry.example.com/acme/archive@sha256:... && volhost plugin inspect archive.wasm"
    )]
    Pull(PullArguments),
    /// Find plugins in an index
    #[command(
        after_help = "Examples:\n  volhost plugin search nfs --index registry.example.com/acme/plugins:latest\n  VOLHOST_PLUGIN_INDEX=~/plugin-index volhost plugin search"
    )]
    Search(SearchArguments),
    /// Show all that an index says of a plugin, and how to get it
    #[command(after_help = "Example:\n  volhost plugin info archive --index registry.example.com/acme/plugins:latest")]
    Info(InfoArguments),
    /// Keep an index of plugins
    #[command(subcommand)]
    Index(IndexCommand),
}

/// The whole command, with the environment's variables named in the help of `run`.
pub(super) fn command() -> clap::Command {
    Cli::command().mut_subcommand("run", with_variables).mut_subcommand("doctor", with_variables)
}

mod plugin;
#[cfg(test)]
mod tests;

pub(super) use plugin::{
    BuildArguments, DevArguments, EncodeArguments, GrantArguments, IndexAddArguments, IndexCommand,
    IndexPublishArguments, IndexSource, InfoArguments, KeyCommand, NewArguments, NewKeyArguments, PublishArguments,
    PullArguments, RegistryArguments, SearchArguments, SignArguments, TemplateChoice, TestArguments, TryArguments,
};
