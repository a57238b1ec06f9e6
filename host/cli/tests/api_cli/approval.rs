//! Approving content that waits: what the daemon read gets the grant, and nothing else.

use std::fs;

use crate::daemon::Daemon;
use crate::world::{self, World};

#[tokio::test]
async fn content_that_came_into_the_file_after_the_daemon_read_it_is_not_approved() {
    let folder = tempfile::tempdir().unwrap();
    let (file, config) = (folder.path().join("c.wasm"), folder.path().join("volhost.toml"));
    let digest: String =
        <sha2::Sha256 as sha2::Digest>::digest(b"looked at").iter().map(|byte| format!("{byte:02x}")).collect();
    let mut world = World::default();
    world.plugins = vec![volhost_model::view::PluginView {
        name: "a.b/c".into(),
        state: "PendingApproval".into(),
        file: file.display().to_string(),
        waits_for: vec!["approval".into()],
        pending_digest: digest.clone(),
        ..world::plugin()
    }];
    let daemon = Daemon::start(world);
    let grant = ["plugin", "grant", "a.b/c", "--config", config.to_str().unwrap()];

    fs::write(&file, "swapped").unwrap();
    let ran = daemon.run(&grant).await;
    assert!(ran.code != 0 && ran.err.contains("has changed") && ran.err.contains(&digest), "{ran:?}");
    assert!(!config.exists(), "nothing is granted");

    fs::write(&file, "looked at").unwrap();
    let ran = daemon.run(&grant).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(fs::read_to_string(&config).unwrap().contains(&digest), "{ran:?}");
}
