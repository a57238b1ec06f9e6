//! The specification's own test of drivers, csi-sanity, against `loop` with everything it can do.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use volhost_tests::artifacts::{tool_cache, workspace};

use crate::csi_serve::kit::Host;

/// The release of csi-test that `deploy/setup.sh --tests` installs.
const VERSION: &str = "v5.5.0";

fn tool() -> PathBuf {
    let tool = tool_cache().join("bin").join(format!("csi-sanity-{VERSION}"));
    assert!(tool.is_file(), "{} is not there; run deploy/setup.sh --tests", tool.display());
    tool
}

/// The names of the specs with this status in a JUnit report.
fn with_status(report: &str, status: &str) -> BTreeSet<String> {
    let cases = report.split("<testcase name=\"[It] ").skip(1);
    let wanted = cases.filter(|case| case.split('>').next().unwrap().contains(&format!("status=\"{status}\"")));
    wanted.map(|case| case.split('"').next().unwrap().to_owned()).collect()
}

/// The specs that docs/csi-serve.md says are skipped.
fn documented() -> BTreeSet<String> {
    let page = fs::read_to_string(workspace().join("docs/csi-serve.md")).unwrap();
    let (_, table) = page.split_once("| skipped spec | why |\n").expect("docs/csi-serve.md lists what is skipped");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with("| "));
    rows.map(|row| row.split('`').nth(1).expect("a spec's name between backquotes").to_owned()).collect()
}

fn run(host: &Host, arguments: &[&str]) -> String {
    let folder = host.node.folder();
    let report = folder.join("junit.xml");
    let class = folder.join("class.yaml");
    fs::write(&class, "allocation: full\n").unwrap();
    let output = host
        .node
        .inside(tool())
        .arg(format!("-csi.endpoint=unix://{}", host.served.socket().display()))
        .arg(format!("-csi.mountdir={}", folder.join("sanity-target").display()))
        .arg(format!("-csi.stagingdir={}", folder.join("sanity-staging").display()))
        .arg(format!("-csi.testvolumemutableparameters={}", class.display()))
        .arg("-ginkgo.no-color")
        .arg(format!("-ginkgo.junit-report={}", report.display()))
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\nthe driver's log:\n{}", host.served.log());
    fs::read_to_string(report).unwrap()
}

#[test]
fn every_spec_of_csi_sanity_passes_but_those_that_the_documents_name() {
    let host = Host::start(&["--enable-attach", "--max-volumes-per-node", "4"]);
    let report = run(&host, &["-csi.testnodevolumeattachlimit"]);
    assert_eq!(with_status(&report, "failed"), BTreeSet::new());
    assert_eq!(with_status(&report, "skipped"), documented());
    let passed = with_status(&report, "passed").len();
    assert_eq!(passed + documented().len(), 95, "{passed} passed");
    host.assert_clean();
    assert!(host.images().is_empty(), "{:?}", host.images());
}

#[test]
fn every_spec_of_csi_sanity_passes_with_devices() {
    let host = Host::start(&["--enable-attach"]);
    let sizes =
        ["-csi.testvolumeaccesstype=block", "-csi.testvolumesize=10485760", "-csi.testvolumeexpandsize=20971520"];
    let report = run(&host, &sizes);
    assert_eq!(with_status(&report, "failed"), BTreeSet::new());
    assert!(with_status(&report, "passed").len() >= 80, "{report}");
    host.assert_clean();
}
