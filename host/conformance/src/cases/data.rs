//! What pods write into a volume.

use std::fs;
use std::io;

use volhost_model::Pod;

use crate::lifecycle::Lifecycle;
use crate::test_node::TestNode;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::HostCallPlan;

/// The file that the suite writes into a volume, as a pod would.
const FILE: &str = "conformance.txt";
/// What is in it.
const TEXT: &str = "written by a pod";

/// Whether pods can write to the volume.
pub(super) fn writable(test_node: &TestNode) -> bool {
    let read_only = test_node.spec().is_ok_and(|spec| spec.read_only) || test_node.plugin.info().read_only;
    test_node.case.expect.writable.unwrap_or(!read_only)
}

/// Writes the file, as a pod would; into a volume that is a file itself, its text.
pub(super) fn write(test_node: &TestNode, lifecycle: &Lifecycle, pod: &Pod) -> io::Result<()> {
    let path = test_node.volume_path(lifecycle, pod);
    if path.is_dir() { fs::write(path.join(FILE), TEXT) } else { fs::write(path, TEXT) }
}

/// Describes why a pod could not write, and how a case file declares a read-only volume.
pub(super) fn not_written(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            format!("{error}; if no pod can ever write to it, say `expect: {{ writable: false }}` in the case file")
        }
        _ => error.to_string(),
    }
}

/// Whether the file is there.
pub(super) fn is_there(test_node: &TestNode, lifecycle: &Lifecycle, pod: &Pod) -> bool {
    let path = test_node.volume_path(lifecycle, pod);
    let path = if path.is_dir() { path.join(FILE) } else { path };
    fs::read_to_string(path).is_ok_and(|text| text == TEXT)
}

/// Takes the volume up and writes the file into it.
fn written(test_node: &TestNode) -> Verdict<(Lifecycle, std::sync::Arc<Pod>)> {
    if !writable(test_node) {
        return not_applicable("pods cannot write to the volume");
    }
    let (lifecycle, pod) = (test_node.lifecycle()?, test_node.pod("a")?);
    test_node.bring_up(&lifecycle, &pod)?;
    write(test_node, &lifecycle, &pod)
        .or_else(|error| fail("writing a file into the volume", "ok", not_written(&error)))?;
    Ok((lifecycle, pod))
}

/// M10: repeated steps leave what the pod wrote.
pub(super) fn kept_when_repeated(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = written(test_node)?;
    for step in lifecycle.steps.clone() {
        let did = format!("{} again, after the pod has written", step.up());
        test_node.advance(&lifecycle, step, &pod, HostCallPlan::Watch)?.or_fail(&did)?;
        if !is_there(test_node, &lifecycle, &pod) {
            return fail(did, "what the pod wrote is there", "it is not");
        }
    }
    test_node.bring_down(&lifecycle, &pod)
}

/// M10: what a pod wrote goes with a volume of its own, and stays in a lasting one.
pub(super) fn after_unpublish(test_node: &TestNode) -> Verdict {
    let (lifecycle, pod) = written(test_node)?;
    // One that the node knows by a name lasts; one that is named by its pod goes with it.
    let lasts = test_node.case.expect.keeps_data.unwrap_or(!lifecycle.name.is_empty());
    test_node.bring_down(&lifecycle, &pod)?;
    let other = test_node.pod("b")?;
    test_node.bring_up(&lifecycle, &other)?;
    let found = is_there(test_node, &lifecycle, &other);
    test_node.bring_down(&lifecycle, &other)?;
    let did = "bringing the volume down after a pod has written, and up again for another";
    match (lasts, found) {
        (true, false) => fail(did, "what the first pod wrote is there", "it is not"),
        (false, true) => fail(did, "nothing of what the first pod wrote", "it is there"),
        _ => Ok(()),
    }
}
