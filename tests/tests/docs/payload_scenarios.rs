//! The scenarios that Kubernetes' own tests have for volumes that show objects (configMap, secret,
//! downwardAPI, projected) and for the way in which their files are written (the atomic writer),
//! each with our test of it. A test of this page makes sure that each one named is there.

use std::fs;

use volhost_tests::artifacts::workspace;

const SUITE: &str = "host/testing/kernel/tests/suite/payloads.rs";
const PATHS: &str = "host/testing/kernel/tests/suite/payload_paths.rs";
const REAL: &str = "host/testing/kernel/tests/real/payloads.rs";
const NODE: &str = "tests/tests/volumes/payload.rs";
const CONFIG_MAP: &str = "plugins/config-map/src/tests.rs";
const SECRET: &str = "plugins/secret/src/tests.rs";
const DOWNWARD: &str = "plugins/downward-api/src/tests.rs";
const PROJECTED: &str = "plugins/projected/src/tests.rs";
const NESTED: &str = "host/objects/src/nested_mounts.rs";
const TOKENS: &str = "host/objects/src/payload/tokens.rs";

/// The scenario, the file, the test.
const SCENARIOS: &[(&str, &str, &str)] = &[
    // The atomic writer.
    (
        "path validation (9): good, empty, absolute, `..` in every place, too long",
        PATHS,
        "a_payload_with_a_bad_path_is_refused_and_changes_nothing",
    ),
    ("path validation: what is allowed", PATHS, "payload_paths_that_are_allowed_are_published"),
    (
        "payload validation (7): one bad path refuses the whole",
        PATHS,
        "a_payload_with_a_bad_path_is_refused_and_changes_nothing",
    ),
    ("paths to remove (8): files, folders, nested, all, renamed", SUITE, "a_payload_is_updated_to_exactly_the_new_set"),
    (
        "write once (12): flat, nested, hidden, empty, binary",
        SUITE,
        "a_payload_is_published_with_content_modes_and_owners",
    ),
    ("update (12): change, come, go, file to folder and back", SUITE, "a_payload_is_updated_to_exactly_the_new_set"),
    ("update: the same again writes nothing", SUITE, "the_same_payload_again_writes_nothing"),
    ("multi-update (7)", SUITE, "many_updates_in_a_row_leave_one_set"),
    ("visible files: links are made, and put back", SUITE, "missing_links_are_put_back"),
    ("visible files: what the pod put there stays", SUITE, "a_pods_own_files_stay"),
    ("setPerms: modes and owners alone are applied", SUITE, "a_mode_or_owner_alone_is_published"),
    ("setPerms fails or the volume is full: the old set stays", SUITE, "a_full_volume_keeps_the_old_set"),
    ("killed before the visible links, or anywhere else", SUITE, "what_a_crash_left_over_does_not_block"),
    ("readers see one set", REAL, "readers_see_whole_sets_only"),
    ("readers see one set, on a node", NODE, "readers_see_all_of_the_old_or_all_of_the_new_files"),
    ("an umask changes nothing", REAL, "an_umask_or_a_setgid_volume_changes_no_payload"),
    ("links that a pod plants (CVE-2017-1002102)", SUITE, "what_a_pod_planted_is_not_followed"),
    ("links that a pod plants, on a node", NODE, "links_that_a_pod_plants_are_never_followed"),
    (
        "nested mount points (7): none, one, deeper ones, several containers",
        NESTED,
        "the_uppermost_folders_inside_are_found",
    ),
    ("nested mount points: init containers and others", NESTED, "containers_are_looked_at_one_by_one"),
    ("nested mount points are made", NODE, "a_folder_for_a_volume_that_is_mounted_inside_is_there"),
    // MakePayload of configMap and secret.
    ("all keys; binary; mixed", CONFIG_MAP, "every_key_is_a_file_whether_text_or_binary"),
    (
        "mapping; sub-folders (3); per-item mode; default mode",
        CONFIG_MAP,
        "items_choose_keys_and_put_them_into_sub_folders_with_modes_of_their_own",
    ),
    ("a missing key", CONFIG_MAP, "a_missing_config_map_or_key_is_named_and_nothing_is_made"),
    ("an optional key; an optional object", CONFIG_MAP, "an_optional_config_map_or_key_may_be_missing"),
    ("secret: mapping, modes", SECRET, "items_modes_and_fs_group_are_as_for_config_maps"),
    ("secret: an optional object", SECRET, "optional_secrets_may_be_missing_and_others_not"),
    ("the plugin's happy path", NODE, "every_kind_shows_its_files_with_exact_modes_and_contents"),
    (
        "a reboot: the folder is there and its files or its memory are not",
        NODE,
        "after_the_machine_started_anew_the_files_are_shown_again",
    ),
    ("an optional object that comes and goes", NODE, "what_is_optional_appears_and_disappears"),
    ("an invalid path", NODE, "bad_sources_are_refused_with_the_fields_path_and_change_nothing"),
    ("fsGroup", NODE, "fs_group_owns_the_files_and_can_read_them"),
    // projected.
    ("collect: each source; the merge", PROJECTED, "sources_of_every_kind_share_one_folder_in_memory"),
    ("collect: paths that conflict", PROJECTED, "a_later_source_replaces_an_earlier_ones_file"),
    ("collect: every source that fails is told", PROJECTED, "every_failed_source_is_reported_and_nothing_changes"),
    ("token: another path, default audience and expiry", PROJECTED, "a_token_is_requested_as_the_source_specifies"),
    (
        "token: no default mode; fsUser and fsGroup modes",
        PROJECTED,
        "only_the_pods_user_and_group_can_read_a_token_where_they_are_known",
    ),
    (
        "token: it is renewed",
        TOKENS,
        "a_token_is_the_same_until_four_fifths_of_its_life_and_a_renewal_is_asked_for_in_time",
    ),
    ("clusterTrustBundle: by name, by signer, mode", PROJECTED, "certificates_come_by_name_or_by_signer_and_labels"),
    ("clusterTrustBundle on a node", NODE, "certificates_come_from_trust_bundles"),
    // downwardAPI.
    ("labels, annotations, name, namespace; a nested path", DOWNWARD, "fields_of_the_pod_are_files"),
    ("written twice without a change, and with one", DOWNWARD, "a_changed_label_changes_its_file_only"),
    ("two items; default and item mode", DOWNWARD, "modes_and_fs_group_apply"),
    ("an invalid field", DOWNWARD, "an_unknown_field_or_resource_is_named_and_changes_nothing"),
    ("resources with divisors", DOWNWARD, "resources_are_files_divided_by_their_divisor"),
];

/// Kubernetes' scenarios that have no test here, and why.
const WITHOUT: &[(&str, &str)] = &[
    (
        "configMap, secret: no default mode is an error",
        "a default mode that is missing is 0644, as the API server fills it in",
    ),
    ("podCertificate: bundle, split", "the signer of a cluster would have to issue it"),
];

#[test]
fn every_scenario_has_a_test() {
    for (scenario, file, test) in SCENARIOS {
        let text = fs::read_to_string(workspace().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("fn {test}(")), "{scenario}: {file} has no test {test}");
    }
    assert!(WITHOUT.iter().all(|(scenario, why)| !scenario.is_empty() && !why.is_empty()));
}
