//! A foreign plugin on a node: its imports are listed, granted, pending approval and revoked; its
//! signature is checked; and the daemon itself keeps no right that it does not need.

use std::fs;

use volhost_hardening::capabilities::KEPT;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

const NAME: &str = "fixture.volhost/well-behaved";
const FILE: &str = "fixture-well-behaved.wasm";

fn install(node: &Node, fixture: &str, file: &str) {
    let folder = node.folder().join("plugins");
    fs::copy(artifacts::fixture(fixture), folder.join(format!(".{file}"))).unwrap();
    fs::rename(folder.join(format!(".{file}")), folder.join(file)).unwrap();
}

fn listed(node: &Node, words: &[&str]) -> bool {
    node.ok(&["get", "plugins"]).lines().any(|line| words.iter().all(|word| line.contains(word)))
}

#[test]
fn a_version_that_asks_for_more_is_pending_until_it_is_granted_and_unloaded_when_that_is_revoked() {
    let node = Node::builder()
        .config("# the operator's own words\n")
        .plugin(artifacts::fixture("fixture-well-behaved"))
        .start();
    let config = node.folder().join("volhost.toml");
    install(&node, "fixture-well-behaved-greedy", FILE);
    node.wait_event(&["PluginNotLoaded", "version 3.0.0 is pending approval", "asks for host-paths", "keeps running"]);
    assert!(listed(&node, &[NAME, "1.0.0", "PendingApproval", "host-paths"]), "{}", node.ok(&["get", "plugins"]));
    assert!(node.ok(&["describe", "plugin", NAME]).contains("the grant of host-paths"));
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, wellBehaved: { size: 1Mi }"]));
    node.wait_mounted("default/a");

    let config = config.to_str().unwrap();
    let grant = ["plugin", "grant", NAME, "--config", config, "--host-path", "/srv"];
    let shown = node.ok(&[&grant[..], &["--dry-run"]].concat());
    assert!(shown.contains("+host-paths = [\"/srv\"]"), "{shown}");
    assert!(listed(&node, &[NAME, "1.0.0", "PendingApproval"]), "a look at it grants nothing");
    node.ok(&grant);
    node.wait_event(&["PluginLoaded", NAME, "version 3.0.0"]);
    assert!(listed(&node, &[NAME, "3.0.0", "Ready"]), "{}", node.ok(&["get", "plugins"]));
    assert!(fs::read_to_string(config).unwrap().starts_with("# the operator's own words\n"));

    node.ok(&[&grant[..], &["--remove"]].concat());
    node.wait_event(&["PluginRetired", NAME]);
    assert!(listed(&node, &[NAME, "3.0.0", "Retired", "host-paths"]), "{}", node.ok(&["get", "plugins"]));
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
}

/// A node whose folder has these files, of fixtures.
fn with_files(config: &str, files: &[(&str, &str)]) -> Node {
    let node = Node::builder().config(config).build();
    for (fixture, file) in files {
        install(&node, fixture, file);
    }
    node
}

#[test]
fn a_file_that_sorts_first_serves_no_source_of_kubernetes_own() {
    let mut node = with_files("", &[("fixture-same-source", "a.wasm"), ("fixture-same-name", "aa.wasm")]);
    node.start();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: data, emptyDir: {}"]));
    node.wait_mounted("default/a");
    assert!(node.volume("uid-a", "kubernetes.io~empty-dir", "data").is_dir());
    assert!(listed(&node, &["kubernetes.io/empty-dir", "Ready"]), "{}", node.ok(&["get", "plugins"]));
    node.wait_event(&["PluginNotLoaded", "a.wasm", "Kubernetes' own"]);
    node.wait_event(&["PluginNotLoaded", "aa.wasm", "belong to the plugins that come with volhost"]);

    // The operator can give it away.
    let config = node.folder().join("volhost.toml");
    let grant = ["plugin", "grant", "fixture.volhost/same-source", "--config", config.to_str().unwrap()];
    node.ok(&[&grant[..], &["--source", "emptyDir"]].concat());
    node.wait_event(&["PluginLoaded", "fixture.volhost/same-source"]);
    assert!(listed(&node, &["fixture.volhost/same-source", "Ready"]), "{}", node.ok(&["get", "plugins"]));
    node.ok(&[&grant[..], &["--source", "emptyDir", "--remove"]].concat());
    node.wait_event(&["PluginRetired", "fixture.volhost/same-source"]);
    // And take it back.
    node.manifest("b.yaml", &pod("b", "uid-b", &["name: data, emptyDir: {}"]));
    node.wait_mounted("default/b");
    assert!(node.volume("uid-b", "kubernetes.io~empty-dir", "data").is_dir());
}

#[test]
fn another_file_of_a_granted_name_waits_until_it_is_approved() {
    let grants = format!("[grants.{NAME:?}]\nfilesystems = [\"tmpfs\"]\n");
    let mut node = with_files(&grants, &[("fixture-well-behaved", FILE)]);
    node.start();
    assert!(listed(&node, &[NAME, "1.0.0", "Ready"]));
    // It asks for no more, and its name is unchanged.
    install(&node, "fixture-well-behaved-next", FILE);
    node.wait_event(&["PluginNotLoaded", "version 2.0.0 is pending approval", "not the one that has the grant"]);
    assert!(listed(&node, &[NAME, "1.0.0", "PendingApproval", "approval"]), "{}", node.ok(&["get", "plugins"]));
    assert!(node.ok(&["describe", "plugin", NAME]).contains("approval"));

    node.kill();
    node.start();
    assert!(
        listed(&node, &[NAME, "PendingApproval", "approval"]),
        "a restart approves nothing: {}",
        node.ok(&["get", "plugins"])
    );

    let config = node.folder().join("volhost.toml");
    let shown = node.ok(&["plugin", "grant", NAME, "--config", config.to_str().unwrap()]);
    assert!(shown.contains("+sha256 = [") && shown.contains(FILE), "{shown}");
    node.wait_event(&["PluginLoaded", NAME, "version 2.0.0"]);
    assert!(listed(&node, &[NAME, "2.0.0", "Ready"]), "{}", node.ok(&["get", "plugins"]));
}

#[test]
fn the_next_version_under_a_pinned_grant_waits_for_approval_after_a_restart() {
    let digest = |fixture: &str| -> String {
        let bytes = fs::read(artifacts::fixture(fixture)).unwrap();
        <sha2::Sha256 as sha2::Digest>::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    // As the approval of an upgrade leaves it. The next version asks for host-paths, too.
    let pinned = digest("fixture-well-behaved");
    let grants = format!("[grants.{NAME:?}]\nhost-paths = [\"/srv\"]\nsha256 = [{pinned:?}]\n");
    let mut node = with_files(&grants, &[("fixture-well-behaved", FILE)]);
    node.start();
    assert!(listed(&node, &[NAME, "1.0.0", "Ready"]));
    node.kill();
    install(&node, "fixture-well-behaved-greedy", FILE);
    node.start();
    assert!(listed(&node, &[NAME, "3.0.0", "PendingApproval", "approval"]), "{}", node.ok(&["get", "plugins"]));
    assert!(!listed(&node, &[NAME, "host-paths"]), "the grant covers it: {}", node.ok(&["get", "plugins"]));
    let next = digest("fixture-well-behaved-greedy");
    assert!(node.ok(&["describe", "plugin", NAME]).contains(&next));

    let config = node.folder().join("volhost.toml");
    let shown = node.ok(&["plugin", "grant", NAME, "--config", config.to_str().unwrap()]);
    assert!(shown.contains(&next), "{shown}");
    node.wait_event(&["PluginLoaded", NAME, "version 3.0.0"]);
    assert!(listed(&node, &[NAME, "3.0.0", "Ready"]), "{}", node.ok(&["get", "plugins"]));
}

#[test]
fn of_two_files_that_claim_a_new_source_or_name_neither_serves_whichever_sorts_first() {
    // The same name with different content, twice over.
    for names in [["a.wasm", "b.wasm"], ["b.wasm", "a.wasm"]] {
        let files = [("fixture-well-behaved", names[0]), ("fixture-well-behaved-next", names[1])];
        let mut node = with_files("", &files);
        node.start();
        for file in names {
            node.wait_event(&["PluginNotLoaded", file, "too, with another content"]);
        }
        assert!(!listed(&node, &[NAME, "Ready"]), "{}", node.ok(&["get", "plugins"]));
        fs::remove_file(node.folder().join("plugins").join(names[1])).unwrap();
        node.wait_event(&["PluginLoaded", NAME, "version 1.0.0"]);
        // From then on it is the one that has the name, after a restart too.
        install(&node, "fixture-well-behaved-next", names[1]);
        node.wait_event(&["PluginNotLoaded", names[1], "loaded from"]);
        node.kill();
        node.start();
        assert!(listed(&node, &[NAME, "1.0.0", "Ready"]), "{}", node.ok(&["get", "plugins"]));
    }
}

#[test]
fn without_the_list_of_shipped_plugins_none_of_their_names_is_taken_and_an_unsafe_list_stops_the_start() {
    let plugin = fs::read(artifacts::plugin("empty-dir")).unwrap();
    let digest: String = <sha2::Sha256 as sha2::Digest>::digest(&plugin).iter().map(|b| format!("{b:02x}")).collect();
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none");
    fs::write(&none, "").unwrap();
    fs::set_permissions(&none, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let mut node = Node::builder()
        .arguments(&["--shipped-plugins", none.to_str().unwrap()])
        .config(&format!(
            "[grants.\"kubernetes.io/empty-dir\"]\ninterfaces = [\"huge-pages\", \"quotas\"]\nsha256 = [{digest:?}]\n"
        ))
        .build();
    node.start();
    assert!(listed(&node, &["kubernetes.io/empty-dir", "Ready"]), "content that is named needs no list");
    assert!(listed(&node, &["host-path.wasm", "Failed"]), "{}", node.ok(&["get", "plugins"]));

    let list = node.folder().join("list");
    fs::write(&list, format!("{digest}  empty-dir.wasm\n")).unwrap();
    fs::set_permissions(&list, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let mut open = Node::builder().arguments(&["--shipped-plugins", list.to_str().unwrap()]).build();
    assert!(!open.try_start());
    assert!(open.log().contains("chmod go-w") && open.log().contains("666"), "{}", open.log());
}

#[test]
fn a_file_of_grants_that_cannot_be_read_changes_nothing_and_sighup_reads_it_too() {
    let node = Node::builder()
        .config("[grants.\"fixture.volhost/ungranted\"]\nhost-paths = [\"/srv\"]\n")
        .plugin(artifacts::fixture("fixture-ungranted"))
        .start();
    assert!(listed(&node, &["fixture.volhost/ungranted", "Ready"]), "{}", node.ok(&["get", "plugins"]));
    let config = node.folder().join("volhost.toml");
    fs::write(&config, "[grants.\"fixture.volhost/ungranted\"]\nhost-paths = [\"srv\"]\n").unwrap();
    node.poke("-HUP");
    let printed = || node.log().contains("the grants cannot be read again") && node.log().contains("line 2");
    assert!(eventually(printed), "{}", node.log());
    assert!(listed(&node, &["fixture.volhost/ungranted", "Ready"]), "{}", node.ok(&["get", "plugins"]));
    let refused = node.fails(&["plugin", "grant", "a/b", "--config", config.to_str().unwrap(), "--memory", "1Mi"]);
    assert!(refused.contains("line 2, key grants"), "an existing error is reported: {refused}");
}

#[test]
fn an_inspection_shows_what_is_asked_for_granted_and_missing() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    fs::write(&config, "[grants.\"fixture.volhost/ungranted\"]\ninterfaces = [\"quotas\"]\n").unwrap();
    let file = artifacts::fixture("fixture-ungranted");
    let arguments = ["plugin", "inspect", file.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let shown = std::process::Command::new(artifacts::volhost()).args(arguments).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    for line in ["Imports:     host-paths, ", "Granted:     quotas", "Not granted: host-paths", "volhost plugin grant"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn where_signatures_are_required_only_content_that_is_named_needs_none() {
    use sha2::Digest;
    let plugin = artifacts::fixture("fixture-well-behaved");
    let digest: String =
        sha2::Sha256::digest(fs::read(&plugin).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect();
    let node = Node::builder()
        .config(&format!(
            "trusted-keys = \"$NODE/keys\"\nrequire-signature = true\n[grants.\"{NAME}\"]\nsha256 = [{digest:?}]\n"
        ))
        .prepare("mkdir -m 755 $NODE/keys; printf 'untrusted comment: a key\\nRWQBAQEBAQEBAddamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea\\n' > $NODE/keys/a.pub; chmod 644 $NODE/keys/a.pub")
        .plugin(plugin)
        .plugin(artifacts::fixture("fixture-ungranted"))
        .start();
    assert!(listed(&node, &[NAME, "Ready"]), "{}", node.ok(&["get", "plugins"]));
    let wide = node.ok(&["get", "plugins", "-o", "wide"]);
    assert!(
        wide.contains("it is not signed") && wide.contains("fixture-ungranted.wasm.minisig is not there"),
        "{wide}"
    );
    assert!(
        listed(&node, &["kubernetes.io/empty-dir", "Ready"]),
        "what comes with volhost is as trusted as volhost is"
    );
}

/// A value of `/proc/PID/status`.
fn status(node: &Node, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key} in {text}")).trim().to_owned()
}

fn capabilities(node: &Node, key: &str) -> u64 {
    u64::from_str_radix(&status(node, key), 16).unwrap()
}

#[test]
fn the_daemon_keeps_no_right_that_it_does_not_need() {
    let kept = KEPT.iter().fold(0, |all, (one, _)| all | one.bits());
    let node = Node::start_default();
    for key in ["CapPrm", "CapEff", "CapBnd"] {
        let has = capabilities(&node, key);
        assert_eq!(has & !kept, 0, "{key} {has:x}");
        assert_ne!(has & 1 << 21, 0, "{key} {has:x}: it mounts");
    }
    assert_eq!((capabilities(&node, "CapInh"), capabilities(&node, "CapAmb")), (0, 0));
    assert_eq!((status(&node, "NoNewPrivs").as_str(), status(&node, "Seccomp").as_str()), ("1", "2"));

    // Drivers of the operator's may need more; the daemon itself does not.
    let folder = tempfile::tempdir().unwrap();
    let node = Node::builder().arguments(&["--flex-driver-dir", folder.path().to_str().unwrap()]).start();
    let has = capabilities(&node, "CapEff") | capabilities(&node, "CapPrm");
    assert_eq!(has & !kept, 0, "{has:x}");
    let mine = fs::read_to_string("/proc/self/status").unwrap();
    assert!(mine.contains(&format!("CapBnd:\t{}", status(&node, "CapBnd"))), "{mine}");
}

/// The page about security.
fn page() -> String {
    fs::read_to_string(artifacts::workspace().join("docs/security.md")).unwrap()
}

#[test]
fn the_page_names_every_right_that_is_kept() {
    let page = page();
    let rows: Vec<&str> = page.lines().skip_while(|line| *line != "| kept | for |").skip(2).collect();
    let rows: Vec<&str> = rows.into_iter().take_while(|line| line.starts_with('|')).collect();
    let named = |(one, why): &(rustix::thread::CapabilitySet, &str)| {
        let name = one.iter_names().next().unwrap().0;
        rows.contains(&format!("| `{name}` | {why} |").as_str())
    };
    let missing: Vec<_> = KEPT.iter().filter(|kept| !named(kept)).collect();
    assert!(missing.is_empty() && rows.len() == KEPT.len(), "{missing:?}");
}

/// The lines of code below a folder, without blanks, comments and tests.
fn lines_of_code(folder: &std::path::Path) -> usize {
    let mut lines = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            lines += lines_of_code(&path);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let counts = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
            lines += code.lines().filter(counts).count();
        }
    }
    lines
}

#[test]
fn the_page_says_how_much_code_has_to_be_right() {
    let mut seen = 0;
    for row in page().lines().filter(|line| line.starts_with("| `host/")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let folder = cells[1].trim_matches('`');
        let printed: usize = cells[2].parse().unwrap();
        let counted = lines_of_code(&artifacts::workspace().join(folder));
        assert!(
            counted.abs_diff(printed) <= printed / 10,
            "{folder}: docs/security.md says {printed}, and it has {counted}"
        );
        seen += 1;
    }
    assert_eq!(seen, 34);
}
