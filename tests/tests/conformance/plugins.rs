//! Every plugin of this repository follows the contract.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use volhost_conformance::HostServices;
use volhost_process::linux_kernel;
use volhost_tests::artifacts::{fixture, plugin, workspace};
use volhost_tests::s3_server::S3Server;

use crate::csi::FolderDriver;
use crate::flex::Scripts;
use crate::run::{case_file, failures, passes, passes_among, passes_only, run, with_cache};

/// A test for each case file: the plugin, the file, and the group of cases that it is for.
macro_rules! each_passes {
    ($($test:ident: $plugin:literal with $case:literal $(only $only:literal)?;)*) => {
        $(
            #[test]
            fn $test() {
                passes_only(&plugin($plugin), $case, &[$($only)?]);
            }
        )*

        /// The case files that are run, with their plugins.
        const RUN: &[(&str, &str)] = &[$(($plugin, $case)),*];
    };
}

each_passes! {
    empty_dir_on_disk_passes: "empty-dir" with "empty-dir";
    empty_dir_in_memory_passes: "empty-dir" with "empty-dir-memory";
    host_path_of_a_folder_passes: "host-path" with "host-path";
    host_path_of_a_file_passes: "host-path" with "host-path-file";
    config_map_passes: "config-map" with "config-map";
    secret_passes: "secret" with "secret";
    downward_api_passes: "downward-api" with "downward-api";
    projected_passes: "projected" with "projected";
    local_passes: "local" with "local";
    loop_passes: "loop" with "loop";
    loop_with_a_file_system_that_grows_passes: "loop" with "loop-xfs" only "expand";
    image_file_passes: "image-file" with "image-file";
    image_passes: "image" with "image";
    overlay_passes: "overlay" with "overlay";
    overlay_with_a_kept_top_passes: "overlay" with "overlay-kept";
    tmpfs_passes: "tmpfs" with "tmpfs";
}

/// Those whose volumes take an external driver; the case file has the plugin's name.
const WITH_DRIVER: [&str; 2] = ["csi", "flex-volume"];
/// Those whose storage this machine's kernel may lack: the case file has the plugin's name, and
/// `tests/tests/vm` runs it in a guest.
const IN_A_GUEST: [&str; 3] = ["cifs", "iscsi", "nfs"];
/// Those whose storage is a target of the test, on loop devices: the case file has the plugin's name.
const OF_TARGETS: [&str; 1] = ["fc"];
/// The groups of cases that are run with them: such a target enlarges no unit.
const GROUPS_OF_TARGETS: [&str; 11] = [
    "describe",
    "identify",
    "stage",
    "unstage",
    "publish",
    "unpublish",
    "stage-device",
    "unstage-device",
    "map-device",
    "unmap-device",
    "limits",
];
/// Those whose storage is a server that a test starts: the case file has the plugin's name.
const OF_SERVERS: [&str; 2] = ["s3", "sshfs"];
/// The cases that are run with them: each volume of each pod logs in to the server.
const CASES_OF_SERVERS: [&str; 7] = [
    "publish/is-mounted",
    "publish/idempotent",
    "publish/two-pods-at-once",
    "publish/read-only",
    "publish/crash-then-undo",
    "unpublish/gone",
    "unpublish/data",
];
/// The plugin that no case file is for, since it takes no volume.
const WITHOUT_CASE: [&str; 1] = ["git-repo"];

#[test]
fn flex_volume_passes_with_the_driver_of_the_examples() {
    passes_among(&plugin("flex-volume"), "flex-volume", &[], |services| HostServices {
        programs: Arc::new(Scripts),
        ..services
    });
}

#[test]
fn fc_passes_with_a_target_on_loop_devices() {
    passes_only(&plugin("fc"), "fc", &GROUPS_OF_TARGETS);
}

#[test]
fn sshfs_passes_with_a_real_server() {
    passes_only(&plugin("sshfs"), "sshfs", &CASES_OF_SERVERS);
}

#[test]
fn s3_passes_with_a_real_server() {
    let server = S3Server::with_bucket("conformance");
    let text = fs::read_to_string(case_file("s3")).unwrap();
    let text = text.replace("@ENDPOINT@", server.endpoint()).replace("@ACCESS_KEY@", server.access_key());
    let folder = tempfile::tempdir().unwrap();
    let case = folder.path().join("s3.yaml");
    fs::write(&case, text.replace("@SECRET_KEY@", server.secret_key())).unwrap();
    let report = with_cache(&plugin("s3"), |cache| run(&plugin("s3"), &case, None, &CASES_OF_SERVERS, cache));
    assert!(report.is_good(), "{}\n{}", report.summary(), failures(&report));
}

#[test]
fn csi_passes_with_a_driver_of_folders() {
    passes_among(&plugin("csi"), "csi", &[], |services| HostServices {
        drivers: Arc::new(FolderDriver(linux_kernel())),
        ..services
    });
}

/// The fixture whose storage knows nodes by their names.
const OF_NODES: &str = "array";

#[test]
fn a_storage_that_knows_other_nodes_passes() {
    passes(&fixture("fixture-array"), OF_NODES);
}

#[test]
fn every_plugin_and_every_case_file_is_run() {
    let names = |folder: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(workspace().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.to_str().unwrap().trim_end_matches(".yaml").to_owned()).collect()
    };
    let set = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|&name| name.to_owned()).collect() };
    let (run, files): (Vec<&str>, Vec<&str>) = RUN.iter().copied().unzip();
    let with_case = [WITH_DRIVER.to_vec(), IN_A_GUEST.to_vec(), OF_TARGETS.to_vec(), OF_SERVERS.to_vec()].concat();
    let plugins = [run, with_case.clone(), WITHOUT_CASE.to_vec()].concat();
    assert_eq!(names("plugins"), set(&plugins));
    let of_mutants = names("tests/conformance").into_iter().filter(|name| name.starts_with("mutant-"));
    let files = set(&[files, with_case, vec![OF_NODES]].concat());
    assert_eq!(names("tests/conformance"), files.into_iter().chain(of_mutants).collect());
}
