//! Running the suite in a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volhost_conformance::{CaseReport, HostServices, Report, Subject, Suite};
use volhost_runtime::Compiler;
use volhost_tests::artifacts::{volhost, workspace};
use volhost_tests::compiled;

use crate::targets::Target;

/// The case file of this name.
pub(crate) fn case_file(name: &str) -> PathBuf {
    workspace().join("tests/conformance").join(format!("{name}.yaml"))
}

/// Returns services that keep compiled plugins in this folder, with targets of their own.
pub(crate) fn services(cache: &Path) -> HostServices {
    let compiler = Compiler { program: volhost(), args: vec!["internal".into(), "compile-plugin".into()] };
    HostServices {
        cache: Some(cache.to_owned()),
        iscsi: Arc::new(Target::new()),
        fc: Arc::new(Target::new()),
        ..HostServices::new(compiler)
    }
}

/// Calls `act` with a cache for this plugin, which other tests may have compiled already.
pub(crate) fn with_cache<T>(plugin: &Path, act: impl FnOnce(&Path) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    compiled::seed(&cache, &[plugin.to_owned()]);
    let result = act(&cache);
    compiled::keep(&cache);
    result
}

/// Runs these cases, all when none are named, with a case file on a node of this name.
pub(crate) fn run(plugin: &Path, case_file: &Path, node: Option<&str>, only: &[&str], cache: &Path) -> Report {
    run_among(services(cache), plugin, case_file, node, only)
}

fn run_among(services: HostServices, plugin: &Path, case_file: &Path, node: Option<&str>, only: &[&str]) -> Report {
    let mut text = fs::read_to_string(case_file).unwrap();
    if let Some(node) = node {
        text.push_str(&format!("node: {{ name: {node} }}\n"));
    }
    let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
    let subject = Subject::of_text(plugin, &text).unwrap();
    let suite = Suite::new(subject, services, &only).unwrap_or_else(|error| panic!("{error}"));
    suite.run(|_| {}).unwrap_or_else(|error| panic!("{}: {error}", case_file.display()))
}

/// Returns the failed cases as text.
pub(crate) fn failures(report: &Report) -> String {
    report.failures().map(CaseReport::to_text).collect::<Vec<_>>().join("\n")
}

/// The plugin passes every case that applies.
pub(crate) fn passes(plugin: &Path, case: &str) {
    passes_only(plugin, case, &[]);
}

/// The plugin passes those of these cases that apply.
pub(crate) fn passes_only(plugin: &Path, case: &str, only: &[&str]) {
    passes_among(plugin, case, only, |services| services);
}

/// [`passes_only`] in services that `make` has changed.
pub(crate) fn passes_among(plugin: &Path, case: &str, only: &[&str], make: impl FnOnce(HostServices) -> HostServices) {
    let report = with_cache(plugin, |cache| run_among(make(services(cache)), plugin, &case_file(case), None, only));
    assert!(report.is_good(), "{case}: {}\n{}", report.summary(), failures(&report));
}
