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
    let installed = install(&built(), root, "/opt/volhost").env_remove("SIGNING_KEY").output().unwrap();
    let said = String::from_utf8_lossy(&installed.stderr).into_owned();
    assert!(installed.status.success() && said.contains("the plugins are not signed"), "{said}");
    let unit = fs::read_to_string(root.join("opt/volhost/lib/systemd/system/volhost.service")).unwrap();
    assert!(unit.contains("\nExecStart=/opt/volhost/bin/volhostd run --config /etc/volhost/config.toml\n"), "{unit}");
    let config = root.join("etc/volhost/config.toml");
    assert!(fs::read_to_string(&config).unwrap().contains("\nplugin-dir = \"/opt/volhost/lib/volhost/plugins\"\n"));
    for (file, mode) in [
        ("bin/volhost", 0o755),
        ("bin/volhostd", 0o755),
        ("bin/volhost-controller", 0o755),
        ("bin/kubectl-volhost", 0o755),
        ("lib/volhost/plugins/empty-dir.wasm", 0o644),
        ("lib/volhost/shipped-plugins.sha256", 0o644),
        ("lib/systemd/system/volhost-docker.service", 0o644),
        ("lib/systemd/system/volhost-node-agent.service", 0o644),
        ("lib/systemd/system/volhost-volume@.service", 0o644),
        ("share/man/man1/volhost-get.1.gz", 0o644),
        ("share/man/man1/kubectl-volhost.1.gz", 0o644),
        ("share/volhost/grafana/volhost.json", 0o644),
        ("share/volhost/prometheus/volhost.rules.yml", 0o644),
        ("share/volhost/schema/volhost.io-v1.json", 0o644),
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

    // Without a key the folder of keys that the configuration names is there, and empty.
    assert!(fs::read_to_string(&config).unwrap().contains("\ntrusted-keys = \"/etc/volhost/trusted-keys\"\n"));
    assert_eq!(fs::read_dir(root.join("etc/volhost/trusted-keys")).unwrap().count(), 0);
    assert!(!root.join("opt/volhost/lib/volhost/plugins/empty-dir.wasm.minisig").exists());

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
    for program in ["volhost", "volhostd", "volhost-controller", "kubectl-volhost"] {
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

#[test]
fn plugins_are_signed_with_a_key_and_a_wrong_password_installs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (root, password) = (folder.path().join("root"), folder.path().join("password"));
    fs::write(&password, "secret\n").unwrap();
    let mut key = Command::new(artifacts::volhost());
    key.args(["plugin", "key", "new", "release", "--password-file", "password"]).current_dir(folder.path());
    succeeds(&mut key);
    let signed = |password: &Path| {
        let mut command = install(&built(), &root, "/usr");
        command.current_dir(folder.path()).env("SIGNING_KEY", "release.key").env("SIGNING_PASSWORD_FILE", password);
        command
    };
    let wrong = folder.path().join("wrong");
    fs::write(&wrong, "guess\n").unwrap();
    let output = signed(&wrong).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("Wrong password") && said.contains("release.key"), "{said}");
    assert!(!root.exists(), "nothing is installed");

    succeeds(&mut signed(&password));
    let plugins = root.join("usr/lib/volhost/plugins");
    let mut verify = Command::new("minisign");
    verify.args(["-V", "-m"]).arg(plugins.join("empty-dir.wasm"));
    verify.arg("-p").arg(root.join("etc/volhost/trusted-keys/volhost.pub"));
    assert!(succeeds(&mut verify).contains("plugin:kubernetes.io/empty-dir"));
    // Plugins that are installed over these without a key are not taken for signed ones.
    succeeds(install(&built(), &root, "/usr").env_remove("SIGNING_KEY"));
    assert!(!plugins.join("empty-dir.wasm.minisig").exists());
}
