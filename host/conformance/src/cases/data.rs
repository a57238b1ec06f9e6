//! What pods write into a volume.

use std::fs;
use std::io;

use volhost_model::Pod;

use crate::bench::Bench;
use crate::ladder::Ladder;
use crate::verdict::{Verdict, fail, not_applicable};
use crate::watch::Plan;

/// The file that the suite writes into a volume, as a pod would.
const FILE: &str = "conformance.txt";
/// What is in it.
const TEXT: &str = "written by a pod";

/// Whether pods can write to the volume.
pub(super) fn writable(bench: &Bench) -> bool {
    let read_only = bench.spec().is_ok_and(|spec| spec.read_only) || bench.plugin.info().read_only;
    bench.case.expect.writable.unwrap_or(!read_only)
}

/// Writes the file, as a pod would; into a volume that is a file itself, its text.
pub(super) fn write(bench: &Bench, ladder: &Ladder, pod: &Pod) -> io::Result<()> {
    let path = bench.volume_path(ladder, pod);
    if path.is_dir() { fs::write(path.join(FILE), TEXT) } else { fs::write(path, TEXT) }
}

/// What happened when a pod could not write. Who has not told the suite that a volume is read-only is told how to.
pub(super) fn not_written(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            format!("{error}; if no pod can ever write to it, say `expect: {{ writable: false }}` in the case file")
        }
        _ => error.to_string(),
    }
}

/// Whether the file is there.
pub(super) fn is_there(bench: &Bench, ladder: &Ladder, pod: &Pod) -> bool {
    let path = bench.volume_path(ladder, pod);
    let path = if path.is_dir() { path.join(FILE) } else { path };
    fs::read_to_string(path).is_ok_and(|text| text == TEXT)
}

/// Takes the volume up and writes the file into it.
fn written(bench: &Bench) -> Verdict<(Ladder, std::sync::Arc<Pod>)> {
    if !writable(bench) {
        return not_applicable("pods cannot write to the volume");
    }
    let (ladder, pod) = (bench.ladder()?, bench.pod("a")?);
    bench.climb(&ladder, &pod)?;
    write(bench, &ladder, &pod).or_else(|error| fail("writing a file into the volume", "ok", not_written(&error)))?;
    Ok((ladder, pod))
}

/// M10: a repeated way up leaves what the pod wrote.
pub(super) fn kept_when_repeated(bench: &Bench) -> Verdict {
    let (ladder, pod) = written(bench)?;
    for rung in ladder.rungs.clone() {
        let did = format!("{} again, after the pod has written", rung.up());
        bench.up(&ladder, rung, &pod, Plan::Watch)?.or_fail(&did)?;
        if !is_there(bench, &ladder, &pod) {
            return fail(did, "what the pod wrote is there", "it is not");
        }
    }
    bench.descend(&ladder, &pod)
}

/// M10: what a pod wrote goes with a volume of its own, and stays in a lasting one.
pub(super) fn after_tear_down(bench: &Bench) -> Verdict {
    let (ladder, pod) = written(bench)?;
    // One that the node knows by a name lasts; one that is named by its pod goes with it.
    let lasts = bench.case.expect.keeps_data.unwrap_or(!ladder.name.is_empty());
    bench.descend(&ladder, &pod)?;
    let other = bench.pod("b")?;
    bench.climb(&ladder, &other)?;
    let found = is_there(bench, &ladder, &other);
    bench.descend(&ladder, &other)?;
    let did = "the whole way down after a pod has written, and up again for another";
    match (lasts, found) {
        (true, false) => fail(did, "what the first pod wrote is there", "it is not"),
        (false, true) => fail(did, "nothing of what the first pod wrote", "it is there"),
        _ => Ok(()),
    }
}
