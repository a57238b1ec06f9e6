//! Loading: from a file to a plugin that can be called.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use volhost_kernel::Kernel;
use volhost_model::PluginName;
use volhost_process::StopSwitch;
use wasmtime::Engine;
use wasmtime::component::{Component, HasSelf, Linker};

use crate::abi::{self, GRANTABLE_INTERFACES};
use crate::bindings::EveryCapability;
use crate::cache::{Cache, CompileRefusal, Note};
use crate::call::Call;
use crate::call_error::CallError;
use crate::check::{ComponentSurface, built_by, check};
use crate::compile::Compiler;
use crate::digest::{is_digest, sha256_hex};
use crate::engine;
use crate::error::{CompileError, LoadError, LoadProblem, NameReserved, NotGranted, OtherContent, RuntimeError};
use crate::exports::Exports;
use crate::file::PluginFile;
use crate::grant_bindings::{GrantBindings, NoBindings};
use crate::grants::{GrantPolicy, Granted, Reach, is_source};
use crate::handles::Description;
use crate::host::State;
use crate::limits::Limits;
use crate::plugin::{Capability, Plugin, PluginInfo, describe};
use crate::sandbox::SandboxShared;
use crate::sections::code_bytes;
use crate::settings::{self, BadSettings, SettingValue, Values};
use crate::signatures::{Signatures, Signers};
use crate::ticker::Ticker;
use crate::wasi;

/// The configuration of a runtime.
#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    /// Where compiled plugins are kept. Made with mode 0700 if missing; refused when others can
    /// write to it.
    pub cache_dir: PathBuf,
    /// Bounds on plugins.
    pub limits: Limits,
    /// How to start the compiler child.
    pub compiler: Compiler,
    /// What the operator grants.
    pub grants: GrantPolicy,
}

/// The kinds of plugin files.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// What is known of the plugin.
    pub info: PluginInfo,
    /// Interfaces that its name is granted.
    pub granted: Vec<String>,
    /// Interfaces it imports and is not granted. Empty: this host would load it.
    pub ungranted: Vec<String>,
    /// The values that the operator gives its name.
    pub values: BTreeMap<String, SettingValue>,
}

/// Loads plugins. Plugins it has loaded live on without it.
pub struct Runtime {
    shared: Arc<SandboxShared>,
    linker: Linker<State>,
    cache: Cache,
    compiler: Compiler,
    compilers: StopSwitch,
    grants: RwLock<Arc<GrantPolicy>>,
    signatures: Signatures,
    bindings: Arc<dyn GrantBindings>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("cache", &self.cache).field("grants", &self.grants()).finish_non_exhaustive()
    }
}

impl Runtime {
    /// A runtime whose plugins work on this kernel.
    ///
    /// # Errors
    /// [`RuntimeError`]; an unsafe cache folder above all.
    pub fn new(config: RuntimeConfig, kernel: Arc<dyn Kernel>) -> Result<Self, RuntimeError> {
        let compatibility = engine::compatibility().map_err(RuntimeError::Engine)?;
        let cache = Cache::open(config.cache_dir, compatibility)?;
        let engine = engine::running().map_err(RuntimeError::Engine)?;
        let linker = linker(&engine).map_err(RuntimeError::Link)?;
        let ticker = Ticker::start(&engine).map_err(RuntimeError::Ticker)?;
        let executor = wasi::executor().map_err(RuntimeError::Executor)?;
        let shared = Arc::new(SandboxShared { engine, kernel, limits: config.limits, ticker, executor });
        let grants = RwLock::new(Arc::new(config.grants));
        Ok(Self {
            shared,
            linker,
            cache,
            compiler: config.compiler,
            compilers: StopSwitch::default(),
            grants,
            signatures: Signatures::default(),
            bindings: Arc::new(NoBindings),
        })
    }

    /// Remembers which content the grants without `sha256` belong to. Without it, every content may
    /// use them.
    #[must_use]
    pub fn with_bindings(mut self, bindings: Arc<dyn GrantBindings>) -> Self {
        self.bindings = bindings;
        self
    }

    /// The same, which takes plugins of these makers.
    #[must_use]
    pub fn trusting(mut self, signatures: Signatures) -> Self {
        self.signatures = signatures;
        self
    }

    /// Returns what the operator grants now.
    pub fn grants(&self) -> Arc<GrantPolicy> {
        Arc::clone(&self.grants.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes what the operator grants from now on. Plugins that are loaded keep what they were
    /// loaded with: load them again.
    pub fn set_grants(&self, grants: GrantPolicy) {
        *self.grants.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(grants);
    }

    /// Returns whether the file's content comes with volhost or is named in a grant. False for a
    /// file that cannot be read. Blocks as long as the file takes to read.
    #[must_use]
    pub fn vouches_for(&self, file: &Path) -> bool {
        let digest = PluginFile::digest(file, self.shared.limits.file_bytes);
        digest.is_ok_and(|digest| self.grants().vouches_for(&digest))
    }

    /// Kills the compiler children that run and starts no further one: plugins that wait for one
    /// fail to load.
    pub fn stop_compiling(&self) {
        self.compilers.stop();
    }

    /// Forgets which plugins the compiler refused: they are compiled again when they are loaded
    /// again.
    pub fn forget_refusals(&self) {
        self.cache.forget_refusals();
    }

    /// Loads a plugin from its file if that needs no compiler; none if it does. Blocks as long as
    /// reading the file and `describe` take.
    ///
    /// # Errors
    /// [`LoadError`], as [`Runtime::load`].
    pub fn load_compiled(&self, file: &Path) -> Result<Option<Arc<Plugin>>, LoadError> {
        let loaded = self.open_compiled(file).and_then(|opened| match opened {
            Opened::Compiled(opened) => self.admit_file(opened).map(Some),
            Opened::Source(..) => Ok(None),
        });
        loaded.map_err(|problem| LoadError { file: file.to_owned(), problem: Box::new(problem) })
    }

    /// Loads a plugin from its file. Blocks: tens of milliseconds when it must be compiled, less
    /// than one from the cache. A plugin that the compiler refused before is refused at once.
    ///
    /// # Expected flow
    /// Read the file once; find its code in the cache, or have it compiled; check its imports and
    /// exports against the contract; link; let it describe itself in a sandbox without grants;
    /// check its imports against what its name is granted.
    ///
    /// # Errors
    /// [`LoadError`], which names the file and what is wrong with it.
    pub fn load(&self, file: &Path) -> Result<Arc<Plugin>, LoadError> {
        let loaded = self.open(file).and_then(|opened| self.admit_file(opened));
        loaded.map_err(|problem| LoadError { file: file.to_owned(), problem: Box::new(problem) })
    }

    /// Loads a plugin whose file is gone from what the cache has of it, so that its volumes can
    /// still be torn down. `digest` is [`PluginInfo::digest`].
    ///
    /// # Errors
    /// [`LoadError`]; [`LoadProblem::NotCached`] when there is nothing.
    pub fn load_cached(&self, digest: &str) -> Result<Arc<Plugin>, LoadError> {
        let found = if is_digest(digest) { self.map_cached(digest) } else { None };
        let problem = match found {
            Some((component, note)) => {
                let grants = self.grants();
                let admitted = self.examine(&component, digest, note).and_then(|(info, exports)| {
                    // Only what was admitted once is in a record. An upgrade, or another version
                    // that was approved since, must not leave its volumes mounted.
                    let granted = grants.of_recorded(&info.name, &info.digest);
                    // With the values of now: a volume is unmounted whether or not they fit.
                    let values = grants.settings_of(&info.name);
                    self.admit(info, exports, &granted, None, values)
                });
                match admitted {
                    Ok(plugin) => return Ok(plugin),
                    Err(problem) => problem,
                }
            }
            None => LoadProblem::NotCached,
        };
        Err(LoadError { file: PathBuf::from(digest), problem: Box::new(problem) })
    }

    /// Removes compiled plugins from the cache, except those of `digests`. Loaded plugins are not
    /// harmed.
    pub fn keep_only_cached(&self, digests: &[String]) {
        self.cache.keep_only(digests);
    }

    /// Says what a plugin file is, whether or not this host would take it: [`Runtime::load`]
    /// without the grants.
    ///
    /// # Errors
    /// [`LoadError`], as [`Runtime::load`], but for a missing grant.
    pub fn inspect(&self, file: &Path) -> Result<Inspection, LoadError> {
        let examined = self
            .open(file)
            .and_then(|OpenedPlugin { component, digest, note, .. }| self.examine(&component, &digest, note));
        let (info, _) = examined.map_err(|problem| LoadError { file: file.to_owned(), problem: Box::new(problem) })?;
        let grants = self.grants();
        let of_file = grants.of(&info.name, &info.digest);
        let granted = match of_file {
            Granted::NotItsName(_) => Vec::new(),
            _ => grants.granted_to(&info.name).into_iter().map(str::to_owned).collect(),
        };
        let ungranted = ungranted(&info, &of_file).cloned().collect();
        let values = grants.settings_of(&info.name);
        Ok(Inspection { info, granted, ungranted, values })
    }

    /// A file's code, from the cache or the compiler.
    fn open(&self, path: &Path) -> Result<OpenedPlugin, LoadProblem> {
        match self.open_compiled(path)? {
            Opened::Compiled(opened) => Ok(opened),
            Opened::Source(file, signers) => {
                let (component, note) = self.compile(path, &file)?;
                Ok(OpenedPlugin { component, digest: file.digest, note, signers })
            }
        }
    }

    /// A file's code from the cache, or the file when it has to be compiled.
    fn open_compiled(&self, path: &Path) -> Result<Opened, LoadProblem> {
        let file = PluginFile::read(path, self.shared.limits.file_bytes)?;
        // Before anything of it is interpreted, by the compiler child too.
        let signers = self.signatures.check(path, &file.wasm, || self.grants().vouches_for(&file.digest))?;
        if let Some((component, note)) = self.map_cached(&file.digest) {
            let note = Note { file: path.to_owned(), ..note };
            return Ok(Opened::Compiled(OpenedPlugin { component, digest: file.digest, note, signers }));
        }
        match self.cache.refusal(&file.digest, &self.refused_by(&file)) {
            Some(reason) => Err(LoadProblem::RefusedBefore { reason }),
            None => Ok(Opened::Source(file, signers)),
        }
    }

    /// Names the host and the limits that a refusal depends on.
    fn refused_by(&self, file: &PluginFile) -> String {
        let Limits { compiled_bytes, .. } = self.shared.limits;
        let seconds = self.shared.limits.compile_cpu(code_bytes(&file.wasm));
        format!("volhost {}, {seconds} s, {compiled_bytes} bytes", env!("CARGO_PKG_VERSION"))
    }

    /// The cached code of this digest, if it is whole and made for this engine.
    fn map_cached(&self, digest: &str) -> Option<(Component, Note)> {
        let note = self.cache.find(digest)?;
        match self.map(digest) {
            Ok(component) => Some((component, note)),
            Err(error) => {
                tracing::warn!(digest, error = format!("{error:#}"), "a cached plugin is of no use and is made again");
                self.cache.forget(digest);
                None
            }
        }
    }

    fn compile(&self, path: &Path, file: &PluginFile) -> Result<(Component, Note), LoadProblem> {
        let compiled = self.compiler.compile(&file.wasm, &self.shared.limits, &self.compilers);
        let code = compiled.map_err(|error| {
            let lasting = error.is_lasting();
            let problem = match error {
                CompileError::Refused(reason) => LoadProblem::Invalid { reason },
                other => LoadProblem::Compile(other),
            };
            if lasting {
                let refusal = CompileRefusal { reason: problem.to_string(), by: self.refused_by(file) };
                self.cache.refuse(&file.digest, &refusal);
            }
            problem
        })?;
        let note = Note { code: sha256_hex(&code), file: path.to_owned(), sdk: file.sdk() };
        self.cache.store(&file.digest, &code, &note)?;
        let component = self.map(&file.digest).map_err(LoadProblem::Map)?;
        Ok((component, note))
    }

    #[expect(unsafe_code, reason = "that compiled code is the compiler's cannot be checked by looking at it")]
    fn map(&self, digest: &str) -> wasmtime::Result<Component> {
        let path = self.cache.code_path(digest);
        // SAFETY: the file contains what our compiler child wrote for an engine of the same
        // configuration. It lies in a folder that only this user can write to (checked at the
        // start), its content was checked against the digest noted beside it or was written by us
        // just now, and files there are replaced or unlinked but never written in place, so that it
        // does not change while it is mapped.
        unsafe { Component::deserialize_file(&self.shared.engine, path) }
    }

    /// From the code of a file to a plugin: every check but those on the file itself.
    fn admit_file(&self, opened: OpenedPlugin) -> Result<Arc<Plugin>, LoadProblem> {
        let OpenedPlugin { component, digest, note, signers } = opened;
        let (info, exports) = self.examine(&component, &digest, note)?;
        let grants = self.grants();
        let granted = grants.of(&info.name, &info.digest);
        let granted = check_name(&info, granted)?;
        if !grants.vouches_for(&info.digest) {
            signers.check_vendor(&info.name)?;
        }
        let bound = match granted {
            Granted::ToAnotherContent(_) => Some(grants.pinned_to(&info.name)),
            _ => self.bindings.bound(&info.name).filter(|_| grants.binds(&info.name)),
        };
        let values = grants.settings_of(&info.name);
        let problems = settings::check(&info.settings, &values);
        let plugin = info.name.clone();
        let admitted = self.admit(info, exports, &granted, bound, values)?;
        // What it lacks and what has to be approved comes first: it may be another plugin's values.
        if problems.is_empty() { Ok(admitted) } else { Err(BadSettings { plugin, problems }.into()) }
    }

    /// From a component that has described itself to a plugin with its grant. `bound` is the
    /// content that the grant belongs to, if it belongs to one.
    fn admit(
        &self,
        info: PluginInfo,
        exports: Exports,
        granted: &Granted<'_>,
        bound: Option<String>,
        values: Values,
    ) -> Result<Arc<Plugin>, LoadProblem> {
        let other_content = bound.filter(|bound| *bound != info.digest);
        // Approval of this content would give it all that the grant of its name covers.
        let after_approval = match granted {
            Granted::ToAnotherContent(grant) => &Granted::To(grant),
            granted => granted,
        };
        let missing: Vec<String> = ungranted(&info, after_approval).cloned().collect();
        if !missing.is_empty() {
            return Err(LoadProblem::NotGranted(Box::new(NotGranted {
                plugin: info.name.clone(),
                version: info.version.clone(),
                digest: info.digest.clone(),
                lines: lines_of_grant(&missing),
                missing,
                pinned: match granted {
                    Granted::ToAnotherContent(_) => {
                        format!(" with the content {}: the grant's sha256 names another", info.digest)
                    }
                    Granted::Nothing | Granted::To(_) | Granted::NotItsName(_) => String::new(),
                },
                other_content: other_content.is_some(),
            })));
        }
        if let Some(bound) = other_content {
            let (plugin, version, digest) = (info.name.clone(), info.version.clone(), info.digest.clone());
            return Err(LoadProblem::OtherContent(Box::new(OtherContent { plugin, version, digest, bound })));
        }
        let reach = match granted {
            Granted::To(grant) => grant.reach(),
            Granted::Nothing | Granted::ToAnotherContent(_) | Granted::NotItsName(_) => Reach::default(),
        };
        let reach = Reach { settings: values, ..reach };
        let plugin = Plugin { info, exports, reach: Arc::new(reach), shared: Arc::clone(&self.shared) };
        if plugin.exports(Capability::GroupSnapshotter) {
            self.thaw(&plugin.reach.loop_files);
        }
        Ok(Arc::new(plugin))
    }

    /// Ends what `copy-together` of a process that was killed has left: pods that write to these
    /// volumes stand still.
    fn thaw(&self, folders: &[PathBuf]) {
        match self.shared.kernel.thaw_images(folders) {
            Ok(thawed) => {
                for device in thawed {
                    let device = device.display();
                    tracing::warn!(%device, "a file system was left frozen, and can be written again");
                }
            }
            Err(error) => tracing::warn!(%error, "file systems that were left frozen could not be thawed"),
        }
    }

    /// Links a component and lets it describe itself.
    fn examine(&self, component: &Component, digest: &str, note: Note) -> Result<(PluginInfo, Exports), LoadProblem> {
        let sdk = note.sdk.as_deref();
        let surface = check(component, &self.shared.engine, sdk)?;
        let misfit =
            |error: wasmtime::Error| LoadProblem::WrongShape { sdk: built_by(sdk), reason: format!("{error:#}") };
        let pre = if surface.imports_wasi {
            let mut linker = linker(&self.shared.engine).map_err(misfit)?;
            wasi::link(&mut linker, component, &self.shared.engine).map_err(misfit)?;
            linker.instantiate_pre(component)
        } else {
            self.linker.instantiate_pre(component)
        };
        let pre = pre.map_err(misfit)?;
        let has = |name: &str| surface.exports.iter().any(|export| export == name);
        let exports = Exports::find(pre, surface.imports_wasi, has).map_err(misfit)?;
        let call = Call::bare(self.shared.limits.describe_time);
        let description = describe(&self.shared, &exports, &call, &Arc::default()).map_err(|error| match error {
            // Types of exports are compared when the plugin is first instantiated.
            CallError::Sandbox { reason } => LoadProblem::WrongShape { sdk: built_by(sdk), reason },
            other => LoadProblem::Describe(other),
        })?;
        let name = PluginName::new(description.name.clone()).map_err(LoadProblem::Name)?;
        check_description(&description)?;
        Ok((info(name, description, surface, digest, note), exports))
    }
}

/// A plugin file's code, and who signed the file.
struct OpenedPlugin {
    component: Component,
    digest: String,
    note: Note,
    signers: Signers,
}

/// The result of opening a plugin file without the compiler.
enum Opened {
    /// Its code is there.
    Compiled(OpenedPlugin),
    /// It has to be compiled.
    Source(PluginFile, Signers),
}

/// A name of the vendors that volhost reserves is for the plugins that come with it.
fn check_name<'a>(info: &PluginInfo, granted: Granted<'a>) -> Result<Granted<'a>, LoadProblem> {
    match granted {
        Granted::NotItsName(why) => Err(LoadProblem::NameReserved(Box::new(NameReserved {
            plugin: info.name.clone(),
            digest: info.digest.clone(),
            why,
        }))),
        granted => Ok(granted),
    }
}

/// A linker with every interface of the contract.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    EveryCapability::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// The lines with which the operator would grant these interfaces.
fn lines_of_grant(missing: &[String]) -> String {
    let names: Vec<String> = missing.iter().map(|name| format!("{name:?}")).collect();
    let further = missing.iter().filter_map(|name| {
        Some(match name.as_str() {
            "host-paths" => "\nhost-paths = [\"/folder/it/may/open\"]",
            "loop-devices" => "\nloop-files = [\"/folder/for/its/images\"]",
            "grpc" => "\ncsi-drivers = [\"name.of.a.driver\"]",
            "image-files" => "\nimage-files = [\"/folder/of/its/images\"]",
            "network-mounts" => "\nnetwork-servers = [\"name-of-its-server\"]",
            "block-devices" => "\nblock-devices = [\"/dev/of-its-own\"]",
            "fuse-servers" => {
                "\nfuse-servers.NAME = { program = \"/usr/bin/PROGRAM\", arguments = [\"-f\", \"{mount}\"] }"
            }
            "driver-exec" => "\nflex-drivers = [\"vendor/driver\"]",
            _ => return None,
        })
    });
    format!("interfaces = [{}]{}", names.join(", "), further.collect::<String>())
}

/// The interfaces that a plugin imports and is not granted.
fn ungranted<'a>(info: &'a PluginInfo, granted: &'a Granted<'a>) -> impl Iterator<Item = &'a String> {
    info.imports.iter().filter(move |import| {
        let covered = matches!(granted, Granted::To(grant) if grant.covers(import));
        GRANTABLE_INTERFACES.contains(&import.as_str()) && !covered
    })
}

fn info(name: PluginName, description: Description, surface: ComponentSurface, digest: &str, note: Note) -> PluginInfo {
    PluginInfo {
        name,
        version: crate::text::tame(&description.version, description.version.len()),
        sources: description.sources,
        accepts_mount_options: description.accepts_mount_options,
        follows_its_source: description.follows_its_source,
        read_only: description.read_only,
        settings: description.settings,
        digest: digest.to_owned(),
        gives_to_group: surface.gives_to_group,
        selinux_mount: surface.selinux_mount,
        abi: surface.abi.unwrap_or(abi::VERSION).to_string(),
        sdk: note.sdk,
        exports: surface.exports,
        imports: surface.imports,
        file: note.file,
    }
}

/// A source is a field's name, or `csi:DRIVER`, `flexVolume:DRIVER`.
fn check_description(description: &Description) -> Result<(), LoadProblem> {
    if description.sources.is_empty() {
        return Err(LoadProblem::BadDescription(
            "it serves no volume source; `describe` must call `serves`".to_owned(),
        ));
    }
    for source in &description.sources {
        if !is_source(source) {
            return Err(LoadProblem::BadDescription(format!(
                "it serves {source:?}, which is not a source such as `emptyDir` or `csi:driver.example.com`"
            )));
        }
    }
    Ok(())
}
