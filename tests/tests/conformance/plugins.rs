//! Every plugin of this repository holds the contract.

use std::collections::BTreeSet;
use std::fs;

use volhost_tests::artifacts::{plugin, workspace};

use crate::run::passes_only;

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
    overlay_passes: "overlay" with "overlay";
    overlay_with_a_kept_top_passes: "overlay" with "overlay-kept";
}

/// Plugins that no case file is for, which docs/conformance.md says.
const WITHOUT_CASE: [&str; 3] = ["csi", "flex-volume", "git-repo"];

#[test]
fn every_plugin_and_every_case_file_is_run() {
    let names = |folder: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(workspace().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.to_str().unwrap().trim_end_matches(".yaml").to_owned()).collect()
    };
    let run: BTreeSet<String> = RUN.iter().map(|(plugin, _)| (*plugin).to_owned()).collect();
    let without = WITHOUT_CASE.map(str::to_owned);
    assert_eq!(names("plugins"), run.into_iter().chain(without).collect());
    let files: BTreeSet<String> = RUN.iter().map(|(_, case)| (*case).to_owned()).collect();
    let of_mutants = names("tests/conformance").into_iter().filter(|name| name.starts_with("mutant-"));
    assert_eq!(names("tests/conformance"), files.into_iter().chain(of_mutants).collect());
}
