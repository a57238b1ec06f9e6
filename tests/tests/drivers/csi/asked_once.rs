//! What a driver is asked beside the calls that do something: times differ from run to run, these
//! numbers do not.

use volhost_tests::csi::CsiDriver;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use super::{NAME, assert_clean, claimed, node, object, volume};

/// The driver's calls but for probes.
fn calls(driver: &CsiDriver) -> Vec<String> {
    let names = driver.calls().into_iter().filter_map(|call| call.split(' ').next().map(str::to_owned));
    names.filter(|name| name != "Probe").collect()
}

#[test]
fn a_volume_costs_the_four_calls_that_do_something_and_each_connection_one_question() {
    let node = node();
    let mut driver = CsiDriver::start(&node, NAME, &["stage", "registered"]);
    node.wait_event(&["DriverRegistered", NAME]);
    node.manifest("driver.yaml", &object("{ attachRequired: false }"));
    let lives = |driver: &CsiDriver, name: &str| {
        node.manifest("pv.yaml", &volume(name, "", "Filesystem"));
        node.manifest("pod.yaml", &pod(name, name, &[&claimed(name)]));
        node.wait_mounted(&format!("default/{name}"));
        node.remove_manifest("pod.yaml");
        node.wait_unmounted(&format!("default/{name}"));
        let staged = driver.folder().join("staged").join(format!("{name}-id"));
        assert!(eventually(|| !staged.exists()), "{name} is not unstaged\n{}", node.log());
        node.remove_manifest("pv.yaml");
    };
    // Registration asks, too, to show the answer to users.
    let before = driver.count("NodeGetCapabilities");
    lives(&driver, "first");
    assert_eq!(driver.count("NodeGetCapabilities"), before + 1);
    let before = calls(&driver).len();
    lives(&driver, "second");
    assert_eq!(
        calls(&driver)[before..],
        ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]
    );

    let before = driver.count("NodeGetCapabilities");
    driver.kill();
    driver.run(&node);
    // Its registration socket stays as it was: it does not register again.
    let shown = || node.ok(&["get", "drivers"]);
    assert!(eventually(|| shown().contains("Ready")), "{}", shown());
    lives(&driver, "third");
    assert_eq!(driver.count("NodeGetCapabilities"), before + 1, "another process may be another version");
    assert_clean(&node);
}
