//! What volhost cannot read, or cannot read yet, takes nothing away from a pod that lives.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use volhost_tests::manifests::{local_volume, pod};
use volhost_tests::wait::eventually;

use crate::site::{EMPTY_DIR, LOCAL, Site, builder};
use crate::witness::Witness;

/// A node with a pod that nothing may be taken from, and one that has a claim.
fn site() -> Site {
    with_pods(Site::start())
}

fn with_pods(site: Site) -> Site {
    let disk = site.node.folder().join("disk/local");
    fs::create_dir(&disk).unwrap();
    let both = local_volume("disk", &disk.display().to_string(), "test-node");
    let (volume, claim) = both.split_once("---\n").unwrap();
    site.node.manifest("volume.yaml", volume);
    site.node.manifest("claim.yaml", claim);
    let volumes = ["name: data, persistentVolumeClaim: { claimName: disk-claim }", "name: scratch, emptyDir: {}"];
    site.node.manifest("claims.yaml", &pod("claims", "uid-claims", &volumes));
    site.node.wait_mounted("default/claims");
    fs::write(site.node.volume("uid-claims", LOCAL, "disk").join("file"), "kept").unwrap();
    fs::write(site.node.volume("uid-claims", EMPTY_DIR, "scratch").join("file"), "kept").unwrap();
    site.with_witness(Witness::of_folders())
}

fn manifests(site: &Site) -> PathBuf {
    site.node.folder().join("manifests")
}

/// Another pod comes and goes, by request: anything that would be unmounted by mistake has been by
/// then.
fn assert_untouched(site: &Site) {
    let file = site.node.folder().join("other.yaml");
    fs::write(&file, pod("other", "uid-other", &["name: fast, emptyDir: { medium: Memory }"])).unwrap();
    site.node.ok(&["apply", "-f", &file.display().to_string()]);
    site.node.wait_mounted("default/other");
    site.node.ok(&["delete", "pod", "default/other"]);
    site.node.wait_unmounted("default/other");
    site.check_witness();
    for (plugin, name) in [(LOCAL, "disk"), (EMPTY_DIR, "scratch")] {
        let file = site.node.volume("uid-claims", plugin, name).join("file");
        assert_eq!(fs::read_to_string(file).unwrap(), "kept", "{name}: {}", site.log());
    }
}

/// Both pods are wanted again and have what they had.
fn assert_settled(site: &Site) {
    site.node.wait_mounted("default/claims");
    site.node.wait_mounted("default/witness");
    assert_untouched(site);
}

#[test]
fn a_manifest_folder_that_vanishes_unmounts_nothing() {
    let mut site = site();
    let away = site.node.folder().join("away");
    fs::rename(manifests(&site), &away).unwrap();
    site.node.wait_event(&["InvalidManifest", "manifest folder cannot be read"]);
    assert_untouched(&site);
    // Nor does it when the daemon finds it missing at its start.
    site.node.kill();
    site.revive();
    site.node.wait_event(&["InvalidManifest", "manifest folder cannot be read"]);
    assert_untouched(&site);
    fs::rename(&away, manifests(&site)).unwrap();
    assert_settled(&site);
}

#[test]
fn a_manifest_folder_that_is_a_file_unmounts_nothing() {
    let mut site = site();
    let away = site.node.folder().join("away");
    site.node.kill();
    fs::rename(manifests(&site), &away).unwrap();
    fs::write(manifests(&site), "no folder").unwrap();
    site.revive();
    site.node.wait_event(&["InvalidManifest", "manifest folder cannot be read"]);
    assert_untouched(&site);
    fs::remove_file(manifests(&site)).unwrap();
    fs::rename(&away, manifests(&site)).unwrap();
    assert_settled(&site);
}

#[test]
fn a_manifest_folder_of_which_a_part_is_read_unmounts_nothing() {
    let mut site = site();
    site.node.kill();
    // The pod's own file, and the claim's: neither can be opened.
    for name in ["claims.yaml", "witness.yaml", "claim.yaml"] {
        fs::rename(manifests(&site).join(name), site.node.folder().join(name)).unwrap();
        symlink(name, manifests(&site).join(name)).unwrap();
    }
    site.revive();
    site.node.wait_event(&["InvalidManifest", "claims.yaml"]);
    assert_untouched(&site);
    for name in ["claims.yaml", "witness.yaml", "claim.yaml"] {
        fs::rename(site.node.folder().join(name), manifests(&site).join(name)).unwrap();
    }
    assert_settled(&site);
}

#[test]
fn a_claim_that_cannot_be_read_at_the_start_unmounts_nothing() {
    let mut site = site();
    for broken in ["claim.yaml", "volume.yaml"] {
        let text = fs::read_to_string(manifests(&site).join(broken)).unwrap();
        site.node.kill();
        site.node.manifest(broken, "kind: [\n");
        site.revive();
        site.node.wait_event(&["InvalidManifest", broken]);
        assert_untouched(&site);
        site.node.manifest(broken, &text);
        assert_settled(&site);
        // Nor does one that is not there.
        site.node.kill();
        site.node.remove_manifest(broken);
        site.revive();
        site.node.wait_event(&["UnresolvedVolume", "default/claims"]);
        assert_untouched(&site);
        site.node.manifest(broken, &text);
        assert_settled(&site);
    }
}

#[test]
fn a_manifest_that_is_empty_at_the_start_unmounts_nothing() {
    let mut site = site();
    let text = fs::read_to_string(manifests(&site).join("claims.yaml")).unwrap();
    // As a power cut or a full disk leaves it.
    for left in ["", "# The pods of this node\n"] {
        site.node.kill();
        fs::write(manifests(&site).join("claims.yaml"), left).unwrap();
        site.revive();
        site.node.wait_event(&["InvalidManifest", "claims.yaml", "is empty"]);
        assert_untouched(&site);
        site.node.manifest("claims.yaml", &text);
        assert_settled(&site);
    }
}

#[test]
fn a_manifest_that_is_being_written_at_the_start_or_a_reload_unmounts_nothing() {
    let mut site = site();
    let text = fs::read_to_string(manifests(&site).join("claims.yaml")).unwrap();
    let write = |site: &Site| {
        let mut writer = fs::File::create(manifests(site).join("claims.yaml")).unwrap();
        // A good manifest of its own, without the pod.
        writer.write_all(b"apiVersion: v1\nkind: ConfigMap\nmetadata: { name: first }\n").unwrap();
        writer
    };
    let mut writer = write(&site);
    site.node.poke("-HUP");
    assert_untouched(&site);
    site.node.kill();
    site.revive();
    site.node.wait_event(&["InvalidManifest", "claims.yaml", "is being written"]);
    assert_untouched(&site);
    writer.write_all(format!("---\n{text}").as_bytes()).unwrap();
    drop(writer);
    assert_settled(&site);
}

#[test]
fn a_folder_that_was_emptied_by_mistake_and_filled_within_the_grace_unmounts_nothing() {
    // Longer than any test, so that only putting the files back can end it.
    let mut site = with_pods(Site::of(builder().arguments(&["--manifest-grace", "1h"])));
    let away = site.node.folder().join("away");
    let empty = |site: &Site| {
        fs::create_dir(&away).unwrap();
        for entry in fs::read_dir(manifests(site)).unwrap() {
            let entry = entry.unwrap();
            fs::rename(entry.path(), away.join(entry.file_name())).unwrap();
        }
    };
    let fill = |site: &Site| {
        for entry in fs::read_dir(&away).unwrap() {
            let entry = entry.unwrap();
            fs::rename(entry.path(), manifests(site).join(entry.file_name())).unwrap();
        }
        fs::remove_dir(&away).unwrap();
    };
    empty(&site);
    site.node.wait_event(&["InvalidManifest", "claims.yaml", "the file is gone", "manifest-grace"]);
    assert_untouched(&site);
    fill(&site);
    site.node.wait_event(&["ManifestMended", "claims.yaml"]);
    assert_settled(&site);
    // And so when it is empty at the start.
    site.node.kill();
    empty(&site);
    site.revive();
    site.node.wait_event(&["InvalidManifest", "the manifest folder was empty at the start", "manifest-grace"]);
    assert_untouched(&site);
    fill(&site);
    assert_settled(&site);
}

#[test]
fn what_is_still_gone_when_the_grace_is_over_is_unmounted() {
    let mut site = Site::of(builder().arguments(&["--manifest-grace", "100ms"]));
    let down = site.inventory();
    let (volumes, file) = (["name: fast, emptyDir: { medium: Memory }"], "a.yaml");
    site.node.manifest(file, &pod("a", "uid-a", &volumes));
    site.node.wait_mounted("default/a");
    site.node.remove_manifest(file);
    site.assert_becomes(&down, "after the grace");

    site.node.manifest(file, &pod("a", "uid-a", &volumes));
    site.node.wait_mounted("default/a");
    site.node.kill();
    site.node.remove_manifest(file);
    site.revive();
    site.assert_becomes(&down, "after a start with an empty folder");
    assert!(eventually(|| site.node.pod_mounts().is_empty()));
}
