//! Records that are damaged, gone, or of another volume cost one more publish at the most. The
//! volumes of live pods stay, unwanted ones go.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};
use volhost_tests::kill_points::{KillPoint, KilledProcess};
use volhost_tests::manifests::{device_pod, loop_volume, pod};
use volhost_tests::wait::eventually;

use crate::exhaustive::Operation;
use crate::pods::{Departure, Known, UID};
use crate::site::{EMPTY_DIR, LOOP, Site};
use crate::subjects::Image;
use crate::witness::Witness;

fn claimed(name: &str) -> String {
    format!("name: data, persistentVolumeClaim: {{ claimName: {name}-claim }}")
}

/// Every file below the folder of records.
fn records(site: &Site) -> Vec<PathBuf> {
    fn below(folder: &Path, all: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() { below(&entry.path(), all) } else { all.push(entry.path()) }
        }
    }
    let mut all = Vec::new();
    below(&site.node.path(&site.node.root().join("state")), &mut all);
    // No record: see `starts.rs`.
    all.retain(|file| !file.ends_with("state/version"));
    all.sort();
    all
}

/// A node with a pod that stays and one that goes, each with a file system, a device and a folder;
/// `damage` is done to the records between a death and the next start.
fn survives(damage: impl Fn(&[PathBuf])) {
    let mut site = Site::start().with_witness(Witness::of_folders());
    let empty = site.inventory();
    for (who, size) in [("stays", "16Mi"), ("goes", "16Mi")] {
        let (files, raw) = (format!("{who}-files"), format!("{who}-raw"));
        let block = "  volumeMode: Block";
        let file_system = loop_volume(&files, &format!("{files}.img"), "ext4", size, "");
        site.node.manifest(&format!("{files}.yaml"), &file_system);
        site.node.manifest(&format!("{raw}.yaml"), &loop_volume(&raw, &format!("{raw}.img"), "ext4", "4Mi", block));
        let volumes = ["name: scratch, emptyDir: {}", "name: fast, emptyDir: { medium: Memory }", &claimed(&files)];
        site.node.manifest(&format!("{who}.yaml"), &pod(who, &format!("uid-{who}"), &volumes));
        let device = device_pod(&format!("{who}-dev"), &format!("uid-{who}-dev"), &format!("{raw}-claim"));
        site.node.manifest(&format!("{who}-dev.yaml"), &device);
    }
    let pods = ["stays", "stays-dev", "goes", "goes-dev"];
    for pod in pods {
        site.node.wait_mounted(&format!("default/{pod}"));
    }
    let file = |plugin: &str, name: &str| site.node.volume("uid-stays", plugin, name).join("file");
    let files = [file(EMPTY_DIR, "scratch"), file(EMPTY_DIR, "fast"), file(LOOP, "stays-files")];
    for file in &files {
        fs::write(file, "kept").unwrap();
    }
    let up = site.inventory();

    site.node.kill();
    let found = records(&site);
    assert_eq!(found.len(), 4 + 4 + 1, "{found:?}");
    damage(&found);
    for pod in ["goes", "goes-dev"] {
        site.node.remove_manifest(&format!("{pod}.yaml"));
    }
    site.revive();
    for pod in ["stays", "stays-dev"] {
        site.node.wait_mounted(&format!("default/{pod}"));
    }
    for file in &files {
        assert_eq!(fs::read_to_string(file).unwrap(), "kept", "{}\n{}", file.display(), site.log());
    }
    let is_of_going = |line: &String| {
        ["goes", "pin 1"].iter().any(|word| line.contains(word)) || (line.contains("state/") && !empty.contains(line))
    };
    let without_going =
        |inventory: crate::site::Inventory| inventory.into_iter().filter(|line| !is_of_going(line)).collect::<Vec<_>>();
    let wanted = without_going(up.clone());
    let gone = || !site.inventory().iter().any(|line| line.contains("goes"));
    assert!(eventually(gone), "{:#?}\n{}", site.inventory(), site.log());
    assert_eq!(without_going(site.inventory()), wanted);
    site.check_witness();

    // And nothing is left of those that stayed, once they go.
    for pod in ["stays", "stays-dev"] {
        site.node.remove_manifest(&format!("{pod}.yaml"));
    }
    site.assert_becomes(&empty, "in the end");
}

fn write_all(records: &[PathBuf], text: impl Fn(&[u8]) -> Vec<u8>) {
    for record in records {
        let old = fs::read(record).unwrap();
        fs::write(record, text(&old)).unwrap();
    }
}

#[test]
fn truncated_records() {
    survives(|records| write_all(records, |old| old[..old.len() / 2].to_vec()));
}

#[test]
fn empty_records() {
    survives(|records| write_all(records, |_| Vec::new()));
}

#[test]
fn records_full_of_noise() {
    survives(|records| write_all(records, |old| old.iter().map(|byte| byte.wrapping_mul(167) ^ 0x5a).collect()));
}

#[test]
fn records_of_a_version_that_is_not_known() {
    survives(|records| {
        write_all(records, |old| {
            let old = String::from_utf8_lossy(old);
            old.replace("\"version\":1", "\"version\":9999").replace("\"version\":2", "\"version\":9999").into_bytes()
        });
    });
}

/// What a death in the middle of an append leaves.
#[test]
fn records_without_their_end() {
    for torn in
        [r#"{"volume":{"plugin":"kubernetes.io/em"#, r#"{"gone":{"plugin":"kubernetes.io/empty-dir","name":"fast"}}"#]
    {
        survives(|records| {
            for record in pods_files(records) {
                let mut file = fs::File::options().append(true).open(record).unwrap();
                file.write_all(torn.as_bytes()).unwrap();
            }
        });
    }
}

#[test]
fn records_with_a_line_that_is_garbled() {
    survives(|records| {
        for record in pods_files(records) {
            let text = fs::read_to_string(record).unwrap();
            let (pod, volumes) = text.split_once('\n').unwrap();
            fs::write(record, format!("{pod}\n{{\"gone\":{{\n{volumes}")).unwrap();
        }
    });
}

/// A file for each volume, as earlier versions wrote them. They are moved, so that nothing is
/// published again.
#[test]
fn records_of_the_earlier_form() {
    let before = std::cell::RefCell::new(Vec::new());
    survives(|records| {
        for record in pods_files(records) {
            before.borrow_mut().push(record.clone());
            let text = fs::read_to_string(record).unwrap();
            let lines = text.lines().filter(|line| !line.is_empty());
            let lines: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
            let pod = lines[0]["pod"]["pod"].clone();
            let folder = record.ancestors().nth(2).unwrap().join("volumes").join(record.file_name().unwrap());
            fs::create_dir_all(&folder).unwrap();
            for volume in lines.iter().filter_map(|line| line["volume"].as_object()) {
                let mut old = volume.clone();
                let name = format!("{}\n{}", old["plugin"].as_str().unwrap(), old["spec"]["name"].as_str().unwrap());
                old.insert("version".to_owned(), 1.into());
                old.insert("pod".to_owned(), pod.clone());
                let file = folder.join(format!("{}.json", &sha256(&name)[..32]));
                fs::write(file, serde_json::to_vec(&old).unwrap()).unwrap();
            }
            fs::write(folder.join(".0123.json.new"), "{\"version\":1").unwrap();
            fs::write(folder.join("4567.json"), "not a record").unwrap();
            fs::remove_file(record).unwrap();
        }
    });
    assert_eq!(before.borrow().len(), 5);
}

#[test]
fn with_records_of_the_earlier_form_nothing_is_published_again() {
    for is_earlier in [true, false] {
        let mut site = Site::start();
        site.node.manifest("a.yaml", &pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory }"]));
        site.node.wait_mounted("default/a");
        let version = |site: &Site| site.node.path(&site.node.root().join("state/pods/uid-a"));
        site.node.kill();
        let text = fs::read_to_string(version(&site)).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        fs::remove_file(version(&site)).unwrap();
        if is_earlier {
            let folder = site.node.path(&site.node.root().join("state/volumes/uid-a"));
            fs::create_dir_all(&folder).unwrap();
            let mut old = lines[1]["volume"].as_object().unwrap().clone();
            old.insert("version".to_owned(), 1.into());
            old.insert("pod".to_owned(), lines[0]["pod"]["pod"].clone());
            let name = sha256("kubernetes.io/empty-dir\nfast");
            fs::write(folder.join(format!("{}.json", &name[..32])), serde_json::to_vec(&old).unwrap()).unwrap();
        }
        let published = |site: &Site| site.node.log().matches("MountVolume.SetUp succeeded").count();
        let before = published(&site);
        site.revive();
        site.node.wait_mounted("default/a");
        assert_eq!(published(&site) > before, !is_earlier, "{}", site.log());
        assert!(!site.node.path(&site.node.root().join("state/volumes")).exists());
        assert!(version(&site).exists());
        site.node.remove_manifest("a.yaml");
        assert!(eventually(|| !version(&site).exists()), "{}", site.log());
    }
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The records of published volumes: a file for each pod.
fn pods_files(records: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
    records.iter().filter(|record| record.parent().is_some_and(|folder| folder.ends_with("state/pods")))
}

#[test]
fn missing_records() {
    survives(|records| records.iter().for_each(|record| fs::remove_file(record).unwrap()));
}

#[test]
fn records_of_other_volumes() {
    survives(|records| {
        let contents: Vec<Vec<u8>> = records.iter().map(|record| fs::read(record).unwrap()).collect();
        for (place, record) in records.iter().enumerate() {
            fs::write(record, &contents[(place + 1) % contents.len()]).unwrap();
        }
    });
}

#[test]
fn files_and_folders_that_are_no_records() {
    survives(|records| {
        for record in records {
            fs::write(record.with_file_name("note.txt"), "not volhost's").unwrap();
            fs::write(record.with_file_name(".0123.json.new"), "{\"version\":1").unwrap();
        }
        let state = records[0].ancestors().find(|folder| folder.ends_with("state")).unwrap();
        fs::create_dir_all(state.join("volumes/uid-nobody")).unwrap();
        fs::create_dir(state.join("pods/uid-nothing")).unwrap();
        fs::write(state.join("volumes/uid-nobody/0123.json"), "{}").unwrap();
    });
}

#[test]
fn a_death_between_the_pods_unmount_and_the_nodes() {
    let mut site = Site::start().with_witness(Witness::of_folders());
    let mut departure = Departure(Known::learn(Image::new("ext4", 16), &site));
    let pods_mount = site.node.volume_inside(UID, LOOP, "image");
    let mut between = false;
    for point in 0.. {
        departure.prepare(&site);
        let following = site.follow(KillPoint { who: KilledProcess::Daemon, before: Some(point) });
        departure.begin(&site);
        assert!(eventually(|| following.has_ended() || departure.is_done(&site)), "{}", site.log());
        let seen = following.end();
        site.node.kill();
        let mounts = site.node.all_mounts();
        let is_staged = mounts.iter().any(|mount| mount.point.ends_with("globalmount"));
        between |= seen.killed && is_staged && !mounts.iter().any(|mount| mount.point == pods_mount);
        site.revive();
        departure.assert_done(&site);
        if between || !seen.killed {
            break;
        }
    }
    assert!(between, "no death was between the two");
}

#[test]
fn after_the_machine_was_restarted_folders_keep_their_data_and_pods_are_set_up_again() {
    let mut site = Site::start();
    let empty = site.inventory();
    site.node.manifest("files.yaml", &loop_volume("files", "files.img", "ext4", "16Mi", ""));
    let volumes = ["name: scratch, emptyDir: {}", "name: fast, emptyDir: { medium: Memory }", &claimed("files")];
    for name in ["stays", "goes"] {
        site.node.manifest(&format!("{name}.yaml"), &pod(name, &format!("uid-{name}"), &volumes));
        site.node.wait_mounted(&format!("default/{name}"));
    }
    let file = |site: &Site, plugin: &str, name: &str| site.node.volume("uid-stays", plugin, name).join("file");
    fs::write(file(&site, EMPTY_DIR, "scratch"), "kept").unwrap();
    fs::write(file(&site, LOOP, "files"), "kept").unwrap();
    site.node.kill();
    power_off(&site);
    let kept = fs::read_to_string(site.node.root().join("pods/uid-stays/volumes").join(EMPTY_DIR).join("scratch/file"));
    assert_eq!(kept.unwrap(), "kept", "the folder is on the disk");

    site.node.remove_manifest("goes.yaml");
    site.revive();
    site.node.wait_mounted("default/stays");
    assert_eq!(fs::read_to_string(file(&site, EMPTY_DIR, "scratch")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(file(&site, LOOP, "files")).unwrap(), "kept");
    assert!(eventually(|| !site.inventory().iter().any(|line| line.contains("uid-goes"))), "{}", site.log());
    site.node.remove_manifest("stays.yaml");
    site.assert_becomes(&empty, "in the end");
}

/// Takes from the node what does not outlive a machine: mounts, with the records on them, and loop
/// devices.
pub(crate) fn power_off(site: &Site) {
    let mut mounts: Vec<PathBuf> = site.node.all_mounts().into_iter().map(|mount| mount.point).collect();
    mounts.sort();
    for mount in mounts.iter().rev() {
        assert!(site.node.inside("umount").arg(mount).status().unwrap().success(), "{}", mount.display());
    }
    for device in site.loop_devices() {
        assert!(Command::new("losetup").args(["-d", &device]).status().unwrap().success());
    }
}
