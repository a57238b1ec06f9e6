//! What needs no daemon.

use std::fs;
use std::path::PathBuf;

use crate::daemon::{command, finish};

#[tokio::test]
async fn help_teaches_and_wrong_usage_has_its_own_code() {
    let help = finish(command(&["--help"])).await;
    assert!(
        help.code == 0
            && help.out.contains("Look:\n  get ")
            && help.out.contains("Examples:")
            && help.out.contains("Exit codes:"),
        "{help:?}"
    );
    for bad in [vec!["frobnicate"], vec![], vec!["get", "nonsense"], vec!["wait", "pod", "x", "--timeout", "5"]] {
        let ran = finish(command(&bad)).await;
        assert_eq!(ran.code, 2, "{bad:?}");
    }
    let timeout = finish(command(&["wait", "pod", "x", "--timeout", "5"])).await.err;
    assert!(timeout.contains("a number without a unit; write numbers with units h, m, s or ms: `2m3s`"), "{timeout}");
}

#[tokio::test]
async fn the_clients_version_needs_no_daemon() {
    let ran = finish(command(&["version", "--client"])).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "Client: 0.1.0 (plugin contract 0.1.0)\n"));
}

#[tokio::test]
async fn completions_and_manual_pages_cover_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = finish(command(&["completions", shell])).await;
        assert!(ran.code == 0 && ran.out.contains("operation-deadline") && !ran.out.is_empty(), "{shell}");
    }
    let page = finish(command(&["man"])).await;
    assert!(page.code == 0 && page.out.contains(".TH volhost 1"), "{page:?}");
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let ran = finish(command(&["man", "--dir", pages.to_str().unwrap()])).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    for page in ["volhost.1", "volhost-get.1", "volhost-run.1", "volhost-plugin-inspect.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
}

#[tokio::test]
async fn manual_pages_replace_planted_links_and_reach_a_folder_behind_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (pages, victim) = (folder.path().join("man1"), folder.path().join("victim"));
    fs::create_dir(&pages).unwrap();
    fs::write(&victim, "root's").unwrap();
    std::os::unix::fs::symlink(&victim, pages.join("volhost.1")).unwrap();
    std::os::unix::fs::symlink("man1", folder.path().join("linked")).unwrap();
    let ran = finish(command(&["man", "--dir", folder.path().join("linked").to_str().unwrap()])).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "root's");
    assert!(fs::symlink_metadata(pages.join("volhost.1")).unwrap().is_file());
    assert!(fs::read_to_string(pages.join("volhost.1")).unwrap().contains(".TH volhost 1"));
    let left: Vec<_> = fs::read_dir(&pages).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[tokio::test]
async fn a_bad_configuration_stops_the_daemon_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    fs::write(&file, "# options\nroto-dir = '/x'\n").unwrap();
    let ran = finish(command(&["run", "--config", file.to_str().unwrap()])).await;
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("config.toml, line 2, key roto-dir: unknown field"), "{}", ran.err);
    let mut by_variable = command(&["run"]);
    by_variable.env("VOLHOST_LOG_FORMAT", "xml");
    let ran = finish(by_variable).await;
    assert!(ran.code == 2 && ran.err.contains("the environment variable VOLHOST_LOG_FORMAT"), "{ran:?}");
}

#[tokio::test]
async fn a_file_that_is_no_plugin_is_told_for_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.wasm");
    for (content, says) in
        [(&b"hello"[..], "it is not WebAssembly"), (&b"\0asm\x01\0\0\0"[..], "it is a core module, not a component")]
    {
        fs::write(&file, content).unwrap();
        let ran = finish(command(&["plugin", "inspect", file.to_str().unwrap()])).await;
        assert!(ran.code == 1 && ran.err.contains(says), "{ran:?}");
    }
    assert_eq!(finish(command(&["plugin", "inspect", "/nowhere.wasm"])).await.code, 1);
}

/// Needs `make plugins`.
#[tokio::test]
async fn a_plugin_file_tells_its_name_capabilities_and_wishes() {
    let built = std::env::var_os("VOLHOST_PLUGIN_OUT")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/plugins")), PathBuf::from);
    let file = built.join("host-path.wasm");
    assert!(file.exists(), "{} is missing: run `make plugins`", file.display());
    let ran = finish(command(&["plugin", "inspect", file.to_str().unwrap(), "-o", "json"])).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(found["name"], "kubernetes.io/host-path", "{found}");
    assert_eq!(found["contract"], "0.1.0");
    assert_eq!(found["problem"], serde_json::Value::Null);
    let has = |list: &str, name: &str| found[list].as_array().unwrap().iter().any(|found| found == name);
    assert!(has("exports", "publisher") && has("imports", "host-paths"), "{found}");
    assert_eq!(found["digest"].as_str().map(str::len), Some(64));
}
