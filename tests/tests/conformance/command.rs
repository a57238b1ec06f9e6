//! `volhost conformance`, as an author or a CI job types it.

use std::fs;
use std::io::Read;
use std::path::Path;

use volhost_process::Program;
use volhost_tests::artifacts::{fixture, plugin, volhost};

use crate::run::case_file;

/// How a run of the command ended: its exit code, what it wrote, what it complained. Its temporary
/// files are in `folder`.
fn conformance(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    // The other tests of this process mount things: a child in the making must not keep them busy.
    let program = Program::new(volhost()).with_arguments(["conformance"]).with_arguments(arguments);
    let mut child = program.with_variable("TMPDIR", folder).start().unwrap();
    drop(child.stdin.take());
    let (mut out, mut complaints) = (String::new(), String::new());
    let mut errors = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).unwrap();
        text
    });
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    complaints.push_str(&said.join().unwrap());
    (child.wait().unwrap().code(), out, complaints)
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_plugin_that_passes_leaves_nothing_behind_and_the_exit_code_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (plugin, config) = (text(&fixture("fixture-mutants")), text(&case_file("mutant-disk")));
    let arguments = [&plugin, "--config", &config, "--only", "attach/idempotent", "--only", "measure"];
    let (code, out, complaints) = conformance(folder.path(), &arguments);
    assert_eq!(code, Some(0), "{out}{complaints}");
    for line in ["passed          attach/idempotent", "4 passed, 0 failed, 0 not applicable"] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let devices = fs::read_dir("/sys/block").unwrap().map(|device| device.unwrap().path().join("loop/backing_file"));
    let left: Vec<String> = devices.filter_map(|file| fs::read_to_string(file).ok()).collect();
    assert!(!left.iter().any(|file| file.starts_with(folder.path().to_str().unwrap())), "{left:?}");
}

#[test]
fn a_plugin_without_fields_needs_no_case_file() {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, complaints) = conformance(folder.path(), &[&text(&plugin("empty-dir"))]);
    assert_eq!(code, Some(0), "{out}{complaints}");
}

#[test]
fn a_plugin_that_fails_is_reported_case_by_case() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("case.yaml");
    let said = fs::read_to_string(case_file("mutant-memory")).unwrap() + "node: { name: does-nothing }\n";
    fs::write(&config, said).unwrap();
    let plugin = text(&fixture("fixture-mutants"));
    let run = |format: &str| {
        conformance(folder.path(), &[&plugin, "--config", &text(&config), "--only", "publish/is-mounted", "-o", format])
    };

    let (code, out, complaints) = run("text");
    assert_eq!(code, Some(1), "{out}{complaints}");
    for words in [
        "FAILED          publish/is-mounted",
        "contract M1: When",
        "done:     publish",
        "expected: ok",
        "happened: the plugin",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert!(complaints.contains("does not conform to the contract"), "{complaints}");

    let (code, out, complaints) = run("json");
    assert_eq!(code, Some(1), "{out}{complaints}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["plugin"], "fixture.volhost/mutants");
    assert_eq!(report["cases"][0]["outcome"], "failed");
    assert_eq!(report["cases"][0]["sentence"], "M1");
    assert!(complaints.contains("1 of 1: publish/is-mounted FAILED"), "{complaints}");

    let (code, out, _) = run("junit");
    assert_eq!(code, Some(1));
    assert!(out.contains("<testcase classname=\"publish\" name=\"is-mounted\""), "{out}");
    assert!(out.contains("<failure message="), "{out}");
}

#[test]
fn a_plugin_that_cannot_be_tested_is_distinct_from_one_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.yaml");
    fs::write(&wrong, "volume: { emptyDir: 7 }").unwrap();
    fs::write(folder.path().join("no.wasm"), "no plugin").unwrap();
    let (wrong, no_plugin) = (text(&wrong), text(&folder.path().join("no.wasm")));
    let good = text(&plugin("empty-dir"));
    for (arguments, code, words) in [
        (vec![good.as_str(), "--only", "publish/idempotant"], 2, "there is no case"),
        (vec![good.as_str(), "--config", &wrong], 2, "emptyDir is no map of fields"),
        (vec![good.as_str(), "--config", "/no/such.yaml"], 2, "/no/such.yaml"),
        (vec![], 2, "Usage"),
        (vec![no_plugin.as_str()], 4, "no.wasm"),
        (vec![good.as_str(), "--only", "attach"], 4, "no case applies"),
    ] {
        let (found, out, complaints) = conformance(folder.path(), &arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {out}{complaints}");
        assert!(complaints.contains(words), "{arguments:?}: {complaints}");
    }
}
