//! `deploy/install.sh`, which `make install` runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use volhost_tests::artifacts::{self, workspace};

use crate::succeeds;

fn install(from: &Path, root: &Path, prefix: &str) -> Command {
    let mut command = Command::new(workspace().join("deploy/install.sh"));
    command.arg("--from").arg(from).arg("--destdir").arg(root).args(["--prefix", prefix]);
    command
}

fn built() -> std::path::PathBuf {
    artifacts::volhost().parent().unwrap().to_owned()
}

#[test]
fn everything_is_installed_below_the_prefix_and_a_configuration_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    succeeds(&mut install(&built(), root, "/opt/volhost"));
    let unit = fs::read_to_string(root.join("opt/volhost/lib/systemd/system/volhost.service")).unwrap();
    assert!(unit.contains("\nExecStart=/opt/volhost/bin/volhostd run --config /etc/volhost/config.toml\n"), "{unit}");
    let config = root.join("etc/volhost/config.toml");
    assert!(fs::read_to_string(&config).unwrap().contains("\nplugin-dir = \"/opt/volhost/lib/volhost/plugins\"\n"));
    for (file, mode) in [
        ("bin/volhost", 0o755),
        ("bin/volhostd", 0o755),
        ("bin/volhost-controller", 0o755),
        ("lib/volhost/plugins/empty-dir.wasm", 0o644),
        ("lib/volhost/shipped-plugins.sha256", 0o644),
        ("lib/systemd/system/volhost-docker.service", 0o644),
        ("lib/systemd/system/volhost-node-agent.service", 0o644),
        ("share/man/man1/volhost-get.1.gz", 0o644),
        ("share/volhost/grafana/volhost.json", 0o644),
        ("share/volhost/prometheus/volhost.rules.yml", 0o644),
        ("share/bash-completion/completions/volhost", 0o644),
        ("share/zsh/site-functions/_volhost", 0o644),
        ("share/fish/vendor_completions.d/volhost.fish", 0o644),
    ] {
        let found = fs::metadata(root.join("opt/volhost").join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(found.permissions().mode() & 0o7777, mode, "{file}");
    }
    let before = fs::metadata(built().join("volhostd")).unwrap().len();
    let after = fs::metadata(root.join("opt/volhost/bin/volhostd")).unwrap().len();
    assert!(after < before, "it is stripped: {before} {after}");

    fs::write(&config, "log-level = \"warn\"\n").unwrap();
    let said = succeeds(&mut install(&built(), root, "/opt/volhost"));
    assert!(said.contains("exists and is kept"), "{said}");
    assert_eq!(fs::read_to_string(&config).unwrap(), "log-level = \"warn\"\n");
}

#[test]
fn plugins_that_the_list_does_not_name_are_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    fs::create_dir_all(target.join("debug")).unwrap();
    for program in ["volhost", "volhostd", "volhost-controller"] {
        std::os::unix::fs::symlink(built().join(program), target.join("debug").join(program)).unwrap();
    }
    let root = folder.path().join("root");
    let refused = |expected: &str| {
        let output = install(&target.join("debug"), &root, "/usr").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{said}");
        assert!(!root.exists(), "nothing is installed");
    };
    refused("the list of the plugins, is missing; run make plugins");
    fs::write(target.join("shipped-plugins.sha256"), format!("{}  empty-dir.wasm\n", "a".repeat(64))).unwrap();
    refused("are not of one build; run make plugins");
    fs::remove_file(target.join("debug/volhostd")).unwrap();
    refused("volhostd is not built");
}
