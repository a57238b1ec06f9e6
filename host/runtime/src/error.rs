//! Why the runtime could not start, and why a plugin could not be loaded.

use std::path::PathBuf;

use thiserror::Error;
use volhost_model::{NameError, PluginName};

use crate::abi::{PACKAGE, VERSION, Version};
use crate::call_error::CallError;
use crate::grants::NotShipped;
use crate::settings::BadSettings;
use crate::signatures::SignatureError;

/// Why the runtime could not start.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// The engine refused its configuration: a defect of this build, or a processor it was not made
    /// for.
    #[error("the WebAssembly engine cannot start: {0}")]
    Engine(wasmtime::Error),
    /// The host functions could not be linked: a defect of this build.
    #[error("the host's functions cannot be linked: {0}")]
    Link(wasmtime::Error),
    /// The clock's thread could not be made.
    #[error("the clock of running plugins cannot start")]
    Ticker(#[source] std::io::Error),
    /// What WASI functions run on could not be made.
    #[error("the runtime of WASI functions cannot start")]
    Executor(#[source] std::io::Error),
    /// The folder for compiled plugins is of no use.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// A problem of the folder for compiled plugins.
#[derive(Debug, Error)]
pub enum CacheError {
    /// It cannot be made.
    #[error("the folder for compiled plugins {path} cannot be made")]
    Create {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It cannot be looked at.
    #[error("the folder for compiled plugins {path} cannot be inspected")]
    Inspect {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no folder, or a symbolic link.
    #[error(
        "the folder for compiled plugins {path} is not a folder (a symbolic link is not followed); remove it or name another"
    )]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Others may write to it: they could make this process run their code.
    #[error(
        "the folder for compiled plugins {path} is not safe: it belongs to user {owner} and has mode {mode:o}, and a user who can \
         write to it controls this process; make it yours with mode 700 (chmod 700), or name another"
    )]
    WritableByOthers {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// A compiled plugin cannot be written.
    #[error("the compiled plugin {path} cannot be written")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Why a plugin could not be loaded: the file, and what is wrong with it.
#[derive(Debug, Error)]
#[error("plugin {name}: {problem}", name = .file.display())]
pub struct LoadError {
    /// The file, or the digest asked for.
    pub file: PathBuf,
    /// What is wrong.
    #[source]
    pub problem: Box<LoadProblem>,
}

impl LoadError {
    /// The text for the user, causes included.
    #[must_use]
    pub fn message(&self) -> String {
        let mut message = self.to_string();
        let mut cause = std::error::Error::source(&*self.problem);
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        message
    }
}

/// A problem of a plugin file.
#[derive(Debug, Error)]
pub enum LoadProblem {
    /// The file cannot be read.
    #[error("it cannot be read")]
    Read(#[source] std::io::Error),
    /// It is a folder, a device, a pipe.
    #[error("it is not a regular file")]
    NotAFile,
    /// It is empty.
    #[error("it is empty; it may still be being written")]
    Empty,
    /// It is too large.
    #[error("it is larger than {limit} bytes, which is the most a plugin may have")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It is something else.
    #[error("it is not WebAssembly; a plugin is a component, as `volhost plugin build` makes it")]
    NotWasm,
    /// It is a core module.
    #[error("it is a core module, not a component: encode it with volhost-plugin-build, or `volhost plugin build`")]
    CoreModule,
    /// A version of WebAssembly's binary format that this host cannot read.
    #[error("it is WebAssembly of a version that this host does not know")]
    UnknownBinary,
    /// No trusted signer has signed it, or it is not what they signed.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The compiler refused it.
    #[error("it is not a valid component: {reason}")]
    Invalid {
        /// The compiler's words.
        reason: String,
    },
    /// The compiler child failed.
    #[error("it could not be compiled: {0}")]
    Compile(#[from] CompileError),
    /// An earlier try to compile this content failed, and another one would fail the same way.
    #[error(
        "it was refused before and is not compiled again: {reason}; replace the file, or send SIGHUP to have it tried again"
    )]
    RefusedBefore {
        /// Why it was refused.
        reason: String,
    },
    /// The cache of compiled plugins failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Nothing compiled is there any more.
    #[error("nothing compiled of it is in the cache; put its file back into the plugin folder")]
    NotCached,
    /// The compiled code was refused even when fresh.
    #[error("its compiled code cannot be mapped: {0}")]
    Map(wasmtime::Error),
    /// It is no volume plugin.
    #[error("it is a component, but not a volume plugin: it lacks the exports {missing}; it exports {found}")]
    WrongWorld {
        /// What is missing.
        missing: String,
        /// What is there.
        found: String,
    },
    /// It was built for another version of the contract.
    #[error("it was built for {PACKAGE}@{built_for}{sdk}, and this host speaks {}.{}.x; {way_out}", VERSION.major, VERSION.minor)]
    OtherAbi {
        /// The version it names.
        built_for: String,
        /// The tool that built it, in parentheses, or nothing.
        sdk: String,
        /// What to do.
        way_out: &'static str,
    },
    /// It needs something that this host does not have.
    #[error("it imports {import}, which this host does not have{hint}")]
    UnknownImport {
        /// The imports' names.
        import: String,
        /// What to do.
        hint: String,
    },
    /// It imports something that it is not granted.
    #[error(transparent)]
    NotGranted(Box<NotGranted>),
    /// Its name belongs to a plugin that comes with volhost.
    #[error(transparent)]
    NameReserved(Box<NameReserved>),
    /// The grant of its name belongs to another content.
    #[error(transparent)]
    OtherContent(Box<OtherContent>),
    /// The operator's values for it do not fit.
    #[error(transparent)]
    Settings(#[from] BadSettings),
    /// An import or export is of another shape.
    #[error("it does not fit the contract {PACKAGE}@{VERSION}{sdk}: {reason}")]
    WrongShape {
        /// The tool that built it, in parentheses, or nothing.
        sdk: String,
        /// wasmtime's words.
        reason: String,
    },
    /// It could not say what it is.
    #[error("it failed to describe itself: {}", .0.message())]
    Describe(CallError),
    /// Its name is of no use.
    #[error("it describes itself badly")]
    Name(#[source] NameError),
    /// It serves nothing, or something that cannot be.
    #[error("it describes itself badly: {0}")]
    BadDescription(String),
}

/// The interfaces that a plugin imports and is not granted.
#[derive(Debug, Error)]
#[error(
    "it imports {}, which is not granted to {plugin}{pinned}. If it shall have it, grant it with `volhost plugin grant`, or in the \
     configuration file:\n\n[grants.\"{plugin}\"]\n{lines}\n",
    .missing.join(", ")
)]
pub struct NotGranted {
    /// The plugin's name.
    pub plugin: PluginName,
    /// Its version, as it says.
    pub version: String,
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// The interfaces.
    pub missing: Vec<String>,
    /// The lines of a grant of them.
    pub lines: String,
    /// A word on a grant for another content.
    pub pinned: String,
    /// The grant of its name belongs to another content, too.
    pub other_content: bool,
}

/// A plugin that took the name of one that comes with volhost.
#[derive(Debug, Error)]
#[error(
    "it calls itself {plugin}, but names of the vendors kubernetes.io and volhost.io belong to the plugins that come with volhost, and {why}. \
     Give it a name of your own. If it is a plugin of volhost's that you changed, grant the name to its content: volhost plugin grant {plugin} \
     --sha256 {digest}, with all else that it needs"
)]
pub struct NameReserved {
    /// The name.
    pub plugin: PluginName,
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// Why the file is none of volhost's.
    pub why: NotShipped,
}

/// A plugin whose name has a grant that another content uses.
#[derive(Debug, Error)]
#[error(
    "it calls itself {plugin}, and the grant of {plugin} belongs to another content (sha256 {bound}) than this \
     file's (sha256 {digest}). If it is to have the grant: volhost plugin grant {plugin} --sha256 {digest}"
)]
pub struct OtherContent {
    /// The plugin's name.
    pub plugin: PluginName,
    /// Its version, as it says.
    pub version: String,
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// SHA-256 of the content that has the grant.
    pub bound: String,
}

/// Why the compiler child failed.
#[derive(Debug, Error)]
pub enum CompileError {
    /// It could not be started.
    #[error("the compiler {program} cannot be started")]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It did not end in time and was killed.
    #[error("the compiler took more than {seconds} s and was killed")]
    TimedOut {
        /// The bound.
        seconds: u64,
    },
    /// It used more processor time than a plugin with so much code may.
    #[error(
        "compiling its {bytes} bytes of code takes more than {seconds} s of processor time, which is the most for so much code"
    )]
    OutOfTime {
        /// The bound, in seconds.
        seconds: u64,
        /// How much code the plugin has.
        bytes: usize,
    },
    /// The host stops, and killed it.
    #[error("volhost stopped before it was compiled")]
    Stopped,
    /// It made more than the host takes.
    #[error("the compiled code is larger than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: u64,
    },
    /// The plugin is not valid: the compiler says so.
    #[error("{0}")]
    Refused(String),
    /// It died, or failed for a reason of its own.
    #[error("the compiler failed ({how}): {said}")]
    Died {
        /// Its exit status.
        how: String,
        /// What it wrote.
        said: String,
    },
    /// Talking to it failed.
    #[error("talking to the compiler failed")]
    Pipe(#[source] std::io::Error),
}

impl CompileError {
    /// Returns whether another try would fail the same way. A child that was killed by others or
    /// could not be started says nothing of the plugin.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::OutOfTime { .. } | Self::TooLarge { .. } | Self::Refused(_))
    }
}

/// The advice to the owner of a plugin for version `found`.
pub(crate) fn way_out(found: Option<Version>) -> &'static str {
    match found {
        Some(found) if found > VERSION => "update volhost, or use an older release of the plugin",
        Some(_) => "rebuild the plugin with a current SDK",
        None => "a contract's version is three numbers; rebuild the plugin with a released SDK",
    }
}
