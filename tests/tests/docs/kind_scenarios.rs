//! The scenarios that Kubernetes' own tests have for the kinds of volume other than those that show
//! objects (`payload_scenarios.rs` has these): emptyDir, hostPath, local, generic ephemeral
//! volumes, gitRepo, and how volumes are given to a group; each with our test of it. A test of this
//! page makes sure that each one named is there.

use std::fs;

use volhost_tests::artifacts::workspace;

const EMPTY_DIR: &str = "plugins/empty-dir/src/tests.rs";
const EMPTY_DIR_NODE: &str = "tests/tests/volumes/empty_dir.rs";
const WALK: &str = "tests/tests/node/walk.rs";
const HOST_PATH: &str = "plugins/host-path/src/tests.rs";
const HOST_PATH_NODE: &str = "tests/tests/volumes/host_paths.rs";
const LOCAL: &str = "plugins/local/src/tests.rs";
const LOCAL_NODE: &str = "tests/tests/volumes/local_volumes.rs";
const OWNERSHIP: &str = "host/testing/kernel/tests/suite/ownership.rs";
const MOUNTS: &str = "host/testing/kernel/tests/suite/mounts.rs";
const USAGE: &str = "host/testing/kernel/tests/suite/usage.rs";
const QUOTAS: &str = "host/testing/kernel/tests/suite/quotas.rs";
const POPULATE: &str = "host/objects/src/populate/tests.rs";
const TEMPLATE: &str = "host/objects/src/ephemeral.rs";
const FIELDS: &str = "tests/tests/hostile/fields.rs";

/// The scenario, the file, the test.
const SCENARIOS: &[(&str, &str, &str)] = &[
    // emptyDir.
    ("plugin: set up, tear down, on disk", EMPTY_DIR, "the_default_medium_is_a_folder_that_all_users_may_write_to"),
    ("plugin: tear down in memory", EMPTY_DIR, "unpublish_unmounts_a_memory_volume"),
    ("hugetlbfs mounted", EMPTY_DIR_NODE, "huge_pages_stand_on_any_node_and_go_with_their_pod"),
    ("hugepage option table", EMPTY_DIR, "huge_pages_have_the_size_of_the_medium_or_else_of_the_pod"),
    (
        "hugepage option table: what is refused",
        EMPTY_DIR,
        "huge_pages_that_the_pod_does_not_request_or_of_ambiguous_size_are_refused",
    ),
    ("set up huge pages: size", EMPTY_DIR, "huge_pages_are_limited_by_the_lower_of_size_limit_and_the_pods_pages"),
    ("page size of a mount", EMPTY_DIR, "huge_pages_of_another_size_are_not_taken_for_these"),
    ("memory size computation", EMPTY_DIR, "the_least_limit_that_is_set_wins"),
    ("memory size, on a node", WALK, "a_memory_limit_of_the_pod_limits_its_tmpfs_too"),
    ("tmpfs options: noswap", EMPTY_DIR, "a_memory_volume_is_a_tmpfs_that_never_swaps"),
    ("tmpfs options: no noswap", EMPTY_DIR, "without_noswap_the_volume_is_mounted_and_the_pod_gets_one_event"),
    ("size limit by the pod's limit (8)", EMPTY_DIR, "the_lesser_of_the_volumes_limit_and_the_pods_counts_on_disk"),
    (
        "size limit: enforced by a quota",
        EMPTY_DIR_NODE,
        "a_limit_on_disk_is_enforced_on_btrfs_and_the_data_outlives_all_but_the_pod",
    ),
    ("size limit: measured", EMPTY_DIR_NODE, "a_limit_on_disk_that_nothing_enforces_is_measured_and_reported_once"),
    ("ready marker: a reboot", EMPTY_DIR_NODE, "a_restarted_machine_finds_the_data_on_disk_and_makes_the_rest_anew"),
    ("fsquota: on, off, add, remove", QUOTAS, "a_limited_folder_takes_no_more_than_its_limit"),
    ("fsquota: a file system without", QUOTAS, "where_there_are_no_quotas_nothing_is_made"),
    ("fsGroup of an emptyDir", EMPTY_DIR, "a_folder_belongs_to_the_pods_fs_group_and_passes_it_on"),
    // hostPath.
    (
        "type checker, real: existing, each type",
        HOST_PATH_NODE,
        "every_thing_is_mounted_where_its_type_or_none_is_asked_for",
    ),
    (
        "type checker, real: mismatch (35 cases of the end-to-end suite)",
        HOST_PATH_NODE,
        "every_thing_of_another_type_is_refused_with_both_named",
    ),
    ("type checker, real: becomes right", HOST_PATH_NODE, "a_thing_that_becomes_right_is_mounted"),
    ("type checker, mocked: each type", HOST_PATH, "every_other_kind_is_refused_with_both_named"),
    ("type checker, mocked: new ones", HOST_PATH, "a_missing_folder_is_created_with_its_parents"),
    ("type checker, mocked: new file", HOST_PATH, "a_missing_file_is_created_but_not_its_folder"),
    ("invalid path: back steps", HOST_PATH, "a_bad_field_is_named_with_its_value_and_what_is_right"),
    ("plugin: set up, tear down", HOST_PATH, "unpublish_unmounts_and_leaves_the_path_alone"),
    // local.
    ("fsGroup: second pod's rules", LOCAL_NODE, "the_first_pods_group_counts_and_a_later_one_gets_an_event"),
    ("block global path", LOCAL_NODE, "a_device_is_handed_over_as_it_is_and_a_folder_is_not"),
    ("folder global path", LOCAL, "the_folder_is_staged_and_published_without_the_mounts_below"),
    ("NodeExpand", LOCAL_NODE, "a_file_system_grows_with_its_device_while_it_is_used"),
    ("mount, unmount; a path that does not exist", LOCAL, "a_missing_path_is_waited_for_and_never_created"),
    (
        "reconstruct",
        LOCAL_NODE,
        "mounts_are_adopted_after_a_crash_with_and_without_records_and_all_are_unmounted_in_the_end",
    ),
    ("mount options", LOCAL, "mount_options_go_to_the_mount_or_the_file_system"),
    ("wrong node", WALK, "a_local_volume_of_another_node_is_refused_with_the_reason"),
    // Generic ephemeral volumes, gitRepo.
    ("ephemeral: owner check", POPULATE, "an_ephemeral_volume_needs_a_claim_of_the_pods_own"),
    ("ephemeral: the template", TEMPLATE, "a_template_is_checked_like_the_claim_that_is_made_of_it"),
    ("git_repo: disabled", FIELDS, "a_good_git_repo_is_refused_too_with_the_reason_and_the_way_out"),
    // What volumes share.
    ("fsGroup: skip table (8)", OWNERSHIP, "a_root_that_matches_is_not_walked_unless_it_must_be"),
    ("fsGroup: mode", OWNERSHIP, "a_volume_is_given_to_a_group_as_the_kubelet_does_it"),
    ("fsGroup: owner, symbolic links", OWNERSHIP, "links_and_mounts_are_not_followed_by_a_walk"),
    (
        "fsGroup: progress events",
        "host/runtime/src/host/slow_walk.rs",
        "a_walk_that_takes_long_emits_an_event_after_half_a_minute_and_then_every_minute",
    ),
    ("fsGroup: progress", OWNERSHIP, "a_walk_reports_its_progress"),
    ("metrics: statfs", USAGE, "a_file_system_reports_how_full_it_is"),
    ("metrics: du", USAGE, "files_are_added_up_on_one_file_system"),
    ("mounter: bind options, read-only", MOUNTS, "a_read_only_bind_refuses_writes_and_leaves_its_source_writable"),
    ("mounter: clean-up of a mount point", MOUNTS, "the_mount_point_comes_and_goes_with_the_mount"),
    ("mounter: clean-up, data in it", MOUNTS, "data_in_a_mount_point_survives_detach"),
    ("mounter: not mounted", MOUNTS, "detaching_nothing_is_done"),
];

/// Kubernetes' scenarios that have no test here, and why.
const WITHOUT: &[(&str, &str)] = &[
    (
        "emptyDir, local: SELinux context",
        "labels are given by the runtime that starts the containers; volhost starts none",
    ),
    ("emptyDir: legacy wrapped folder", "no version of volhost has ever made one"),
    ("hostPath: recycler, deleter, provisioner", "a controller's business, not a node's"),
    ("git_repo: clone layouts (10)", "the kind is refused"),
    ("recycler pod (4)", "a controller's business, not a node's"),
    ("fsquota: projects of ext4 and XFS", "only the quotas of btrfs are used; elsewhere the volume is measured"),
];

#[test]
fn every_scenario_has_a_test() {
    for (scenario, file, test) in SCENARIOS {
        let text = fs::read_to_string(workspace().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("fn {test}(")), "{scenario}: {file} has no test {test}");
    }
    assert!(WITHOUT.iter().all(|(scenario, why)| !scenario.is_empty() && !why.is_empty()));
}
