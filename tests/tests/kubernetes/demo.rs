//! `make cluster-demo` as it is: the image that `make image` makes, `deploy/csi`, and a pod.

use std::process::{Command, Stdio};

use volhost_tests::artifacts;
use volhost_tests::cluster::Cluster;

use crate::image::image;

#[test]
fn the_demonstration_shows_a_volume_that_outlives_its_driver_and_leaves_nothing() {
    let image = image();
    // What the kubelet changes of this machine is as it was before only when the last cluster has
    // ended: this one, which the other tests share.
    let _shared = Cluster::shared();
    let output = Command::new(artifacts::volhost().with_file_name("cluster-demo"))
        .arg(image)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}\n{}", String::from_utf8_lossy(&output.stderr));
    for words in [
        "deployment \"volhost-csi-controller\" successfully rolled out",
        "Bound",
        "$ kill -9",
        "Left on the node: no mount",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}
