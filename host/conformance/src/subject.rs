//! What is tested: a plugin, a volume for it to work on, and what surrounds them.
//!
//! A *case file* says it in YAML. Every text in it may name the scratch file system as
//! `${scratch}`.
//!
//! ```yaml
//! files:                                   # made in the scratch file system before each case
//!   - folder: ${scratch}/images
//! grants:                                  # as under [grants."NAME"] in the configuration
//!   loop-files: ["${scratch}/images"]
//! persistentVolume:                        # or `volume:`, as in a pod without its name
//!   capacity: 64Mi
//!   csi: { driver: loop.volhost.io, volumeHandle: disk.img }
//! expect:
//!   kind: mount of ext4
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use volhost_fc::HostAdapters;
use volhost_iscsi::{OpenIscsi, Places};
use volhost_model::driver_programs::{DriverPrograms, NoPrograms};
use volhost_model::drivers::{Drivers, NoDrivers};
use volhost_model::fc::FcDevices;
use volhost_model::iscsi::IscsiSessions;
use volhost_process::Launcher;
use volhost_runtime::Compiler;

use crate::case_error::CaseError;
use crate::case_file::CaseFile;

/// The placeholder of the scratch file system's path in a case file.
pub const SCRATCH: &str = "${scratch}";
/// Why a case file cannot be used.
#[derive(Debug, Error)]
pub enum SubjectError {
    /// It cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's words.
        source: std::io::Error,
    },
    /// It is no case file.
    #[error("{path}: {reason}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// A field of it makes no sense.
    #[error("{path}: {field}: {reason}")]
    Field {
        /// The file.
        path: PathBuf,
        /// The field.
        field: String,
        /// What is wrong with it.
        #[source]
        reason: Box<CaseError>,
    },
}

/// The services of the host that the case file does not configure, and how the plugin is compiled.
#[derive(Debug, Clone)]
pub struct HostServices {
    /// Starts the compiler child.
    pub compiler: Compiler,
    /// Starts FUSE servers.
    pub launcher: Launcher,
    /// Where compiled plugins are kept from case to case; a folder of the run's own when none.
    pub cache: Option<PathBuf>,
    /// The external drivers that the plugin may call.
    pub drivers: Arc<dyn Drivers>,
    /// The external drivers that the plugin may run.
    pub programs: Arc<dyn DriverPrograms>,
    /// What makes sessions with iSCSI targets.
    pub iscsi: Arc<dyn IscsiSessions>,
    /// The Fibre Channel host adapters.
    pub fc: Arc<dyn FcDevices>,
}

impl HostServices {
    /// Creates services without drivers, with the node's open-iscsi and adapters, and with a cache of
    /// the run's own. The compiler's program is volhost's own, which launches FUSE servers, too.
    #[must_use]
    pub fn new(compiler: Compiler) -> Self {
        let launcher = Launcher::volhost(&compiler.program);
        Self {
            compiler,
            launcher,
            cache: None,
            drivers: Arc::new(NoDrivers),
            programs: Arc::new(NoPrograms),
            iscsi: Arc::new(OpenIscsi::new(Places::default())),
            fc: Arc::new(HostAdapters::new(volhost_fc::Places::default())),
        }
    }
}

/// A plugin and what it is tested with.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The plugin's file.
    pub plugin: PathBuf,
    /// Where the case file is, for messages; none without one.
    file: Option<PathBuf>,
    /// The case file's text.
    text: String,
}

impl Subject {
    /// A plugin with a case file.
    ///
    /// # Errors
    /// [`SubjectError`], which names the file and the field.
    pub fn read(plugin: &Path, case_file: &Path) -> Result<Self, SubjectError> {
        let text = std::fs::read_to_string(case_file)
            .map_err(|source| SubjectError::Read { path: case_file.to_owned(), source })?;
        Self::with(plugin, Some(case_file), text)
    }

    /// A plugin with the text of a case file.
    ///
    /// # Errors
    /// As [`Subject::read`].
    pub fn of_text(plugin: &Path, text: &str) -> Result<Self, SubjectError> {
        Self::with(plugin, None, text.to_owned())
    }

    /// A plugin whose volumes need no fields.
    ///
    /// # Errors
    /// None; as [`Subject::read`] for form's sake.
    pub fn bare(plugin: &Path) -> Result<Self, SubjectError> {
        Self::with(plugin, None, String::new())
    }

    fn with(plugin: &Path, file: Option<&Path>, text: String) -> Result<Self, SubjectError> {
        let subject = Self { plugin: plugin.to_owned(), file: file.map(Path::to_owned), text };
        subject.case_file(Path::new("/scratch"))?;
        Ok(subject)
    }

    fn path(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| PathBuf::from("case file"))
    }

    /// What the case file says for this scratch file system.
    pub(crate) fn case_file(&self, scratch: &Path) -> Result<CaseFile, SubjectError> {
        if self.text.trim().is_empty() {
            return Ok(CaseFile::default());
        }
        let text = self.text.replace(SCRATCH, &scratch.display().to_string());
        let read: CaseFile = serde_saphyr::from_str(&text)
            .map_err(|error| SubjectError::Syntax { path: self.path(), reason: error.to_string() })?;
        read.check().map_err(|wrong| SubjectError::Field {
            path: self.path(),
            field: wrong.field,
            reason: Box::new(wrong.reason),
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_file_that_is_wrong_is_refused_by_field() {
        for (text, words) in [
            ("volumes: {}", "volumes"),
            ("volume: { emptyDir: {}, hostPath: {} }", "more than one source: emptyDir, hostPath"),
            ("volume: { emptyDir: 7 }", "emptyDir is no map of fields"),
            ("volume: {}", "names no source"),
            ("volume: { a: {} }\npersistentVolume: { a: {} }", "volume: there is a persistentVolume too"),
            ("files: [{ folder: /a, file: /b }]", "files[0]: is one of `folder`, `file` and `run`"),
            ("files: [{ file: /a, size: lots }]", "files[0].size"),
            ("persistentVolume: { capacity: much, a: {} }", "persistentVolume.capacity"),
            ("persistentVolume: { mountOptions: [bind], a: {} }", "persistentVolume.mountOptions[0]"),
            ("controller: { size: lots }", "controller.size"),
            ("controller: { parameter: {} }", "parameter"),
            ("controller: { modify: {} }", "controller.modify.to: names no parameter"),
            ("controller: { modify: { to: { a: b }, shows: [stat, a] } }", "controller.modify.shows"),
            ("controller: { modify: { to: { a: b }, refused: { a: b } } }", "controller.modify.refused: a"),
            ("otherNodes: [a, a]", "otherNodes[1]"),
            ("node: { name: a }\notherNodes: [a]", "otherNodes[0]"),
            ("expect: { writeable: true }", "writeable"),
            ("volume: [", "case file"),
        ] {
            let error = Subject::of_text(Path::new("p.wasm"), text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn the_scratch_file_system_is_named_in_any_text() {
        let text = "volume: { hostPath: { path: \"${scratch}/a\" } }";
        let file = Subject::of_text(Path::new("p.wasm"), text).unwrap().case_file(Path::new("/tmp/x")).unwrap();
        let fields = file.volume.unwrap();
        assert_eq!(fields.get("hostPath").and_then(|of| of.get("path")), Some(&serde_json::Value::from("/tmp/x/a")));
    }
}
