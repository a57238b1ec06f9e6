//! The figures of a node, read from the text.

use std::net::SocketAddr;

use volhost_tests::csi::{CsiDriver, REGISTRY};
use volhost_tests::manifests::{csi_volume, local_volume, pod};
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

/// Figures by name and labels.
pub(crate) struct Figures(pub(crate) String);

impl Figures {
    /// As the command line prints them.
    pub(crate) fn of(node: &Node) -> Self {
        Self(node.ok(&["metrics"]))
    }

    /// The first that are like this: a volume's figures are missing until its storage has answered.
    pub(crate) fn once(node: &Node, are: impl Fn(&Self) -> bool) -> Self {
        let mut figures = Self(String::new());
        let is_so = eventually(|| {
            figures = Self::of(node);
            are(&figures)
        });
        assert!(is_so, "{}", figures.0);
        figures
    }

    /// The value of the only line with this name and all these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let found: Vec<&str> = self.0.lines().filter(|line| is(line, name, labels)).collect();
        let [line] = found.as_slice() else { panic!("{name} {labels:?}: {found:?} in\n{}", self.0) };
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap()
    }

    /// Whether there is a line with this name and all these labels.
    pub(crate) fn has(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.0.lines().any(|line| is(line, name, labels))
    }
}

fn is(line: &str, name: &str, labels: &[(&str, &str)]) -> bool {
    let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']));
    rest.is_some_and(|rest| labels.iter().all(|(label, value)| rest.contains(&format!("{label}=\"{value}\""))))
}

/// Where a node says that it serves its metrics.
pub(crate) fn address(node: &Node) -> SocketAddr {
    let log = node.log();
    let rest = log.split("metrics are served at http://").nth(1).unwrap_or_else(|| panic!("no address in\n{log}"));
    rest.split("/metrics").next().unwrap().parse().unwrap()
}

/// A node with one pod that has a volume of a claim and an emptyDir, both mounted.
pub(crate) fn node_with_a_claim(arguments: &[&str]) -> Node {
    let node = Node::builder().arguments(arguments).prepare("mkdir $NODE/disk/data").start();
    let disk = node.folder().join("disk/data").display().to_string();
    let claimed = local_volume("data", &disk, "test-node");
    let volumes =
        ["name: data, persistentVolumeClaim: { claimName: data-claim }", "name: fast, emptyDir: { medium: Memory }"];
    node.manifest("a.yaml", &format!("{claimed}---\n{}", pod("a", "uid-a", &volumes)));
    node.wait_mounted("default/a");
    node
}

/// The CSI driver of [`node_with_a_driver`].
pub(crate) const DRIVER: &str = "csi.test";

/// A node that has every figure: beside the volumes of [`node_with_a_claim`], one of a CSI driver
/// that was called.
pub(crate) fn node_with_a_driver(arguments: &[&str]) -> (Node, CsiDriver) {
    let builder = Node::builder().plugin(artifacts::plugin("csi")).arguments(arguments);
    let mut node = builder.prepare("mkdir $NODE/disk/data").build();
    let registry = node.folder().join(REGISTRY).display().to_string();
    node.add_arguments(&["--plugin-registry", &registry]);
    node.start();
    let driver = CsiDriver::start(&node, DRIVER, &["stage", "attach"]);
    node.wait_event(&["DriverRegistered", DRIVER]);
    let disk = node.folder().join("disk/data").display().to_string();
    let volumes = [local_volume("data", &disk, "test-node"), csi_volume(DRIVER, "disk", "", "Filesystem")];
    let wanted = [
        "name: data, persistentVolumeClaim: { claimName: data-claim }",
        "name: disk, persistentVolumeClaim: { claimName: disk-claim }",
        "name: fast, emptyDir: { medium: Memory }",
    ];
    node.manifest("a.yaml", &format!("{}---\n{}", volumes.join("---\n"), pod("a", "uid-a", &wanted)));
    node.wait_mounted("default/a");
    (node, driver)
}
