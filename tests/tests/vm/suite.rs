//! The conformance suite in a guest.

use volhost_tests::vm::{Finished, Guest};

use crate::kit::fill_cache;

/// Runs these cases of the suite against a plugin, with a case file. They must pass.
pub(crate) fn check(guest: &Guest, plugin: &str, case_file: &str, cases: &[&str]) {
    let run = run(guest, plugin, case_file, cases);
    assert!(run.succeeded(), "{}\n{}", run.output, run.error);
    for case in cases {
        let passed = run.output.lines().any(|line| line.contains("passed") && line.contains(case));
        assert!(passed, "{case}: {}", run.output);
    }
}

/// Whether this case fails with the plugin on a node of this name, as the suite's report says.
pub(crate) fn fails(guest: &Guest, plugin: &str, case_file: &str, node: &str, case: &str) -> Result<(), String> {
    let run = run(guest, plugin, &format!("{case_file}\nnode: {{ name: {node} }}"), &[case]);
    let failed = run.output.lines().any(|line| line.starts_with("FAILED") && line.contains(case));
    if failed && run.status == 1 { Ok(()) } else { Err(format!("{}{}", run.output, run.error)) }
}

fn run(guest: &Guest, plugin: &str, case_file: &str, cases: &[&str]) -> Finished {
    let folder = format!("/disk/conformance-{plugin}");
    let only: String = cases.iter().map(|case| format!(" --only {case}")).collect();
    guest.try_run(&format!(
        "mkdir -p {folder}; cat >{folder}/case.yaml <<'END'\n{case_file}\nEND
         {cache}
         /payload/volhost conformance /payload/plugins/{plugin}.wasm --config {folder}/case.yaml --cache-dir {folder}/cache{only}",
        cache = fill_cache(&format!("{folder}/cache"))
    ))
}
