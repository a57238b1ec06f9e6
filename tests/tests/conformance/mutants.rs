//! A plugin that breaks one rule at a time.

use volhost_conformance::CaseOutcome;
use volhost_tests::artifacts::fixture;

use crate::run::{case_file, passes, passes_only, run, with_cache};

/// A broken rule, and the case that finds it.
type Mutant = (&'static str, &'static str);

const OF_MEMORY: &[Mutant] = &[
    ("describes-itself-by-the-node", "describe/stable"),
    ("makes-an-image-to-describe-itself", "describe/changes-nothing"),
    ("makes-an-image-to-describe-itself", "describe/reaches-nothing"),
    ("makes-an-image-to-identify", "identify/changes-nothing"),
    ("makes-an-image-to-identify", "identify/reaches-nothing"),
    ("takes-unknown-fields", "identify/unknown-field"),
    ("refuses-unknown-fields-without-a-name", "identify/unknown-field"),
    ("refuses-unknown-fields-for-now", "identify/unknown-field"),
    ("takes-any-type", "identify/wrong-type"),
    ("crashes-over-a-wrong-type", "identify/wrong-type"),
    ("misses-fields-as-unsupported", "identify/missing-field"),
    ("crashes-over-an-odd-text", "identify/edge-values"),
    ("does-nothing", "publish/is-mounted"),
    ("is-a-folder", "publish/is-mounted"),
    ("is-always-read-only", "publish/is-mounted"),
    ("sets-up-once", "publish/idempotent"),
    ("mounts-anew-each-time", "publish/idempotent"),
    ("takes-a-folder-for-the-volume", "publish/over-an-empty-folder"),
    ("refuses-a-second-pod", "publish/two-pods-at-once"),
    ("crashes-over-a-long-name", "publish/long-name"),
    ("remembers-instead-of-looking", "publish/remounts"),
    ("asks-more-for-some-pods", "publish/same-calls"),
    ("leaves-an-image-a-pod", "publish/leaves-nothing"),
    ("leaves-a-loop-device-a-pod", "publish/leaves-nothing"),
    ("takes-what-it-began-for-done", "publish/crash-then-repeat"),
    ("locks-and-never-gives-back-after-a-crash", "publish/crash-then-undo"),
    ("crashes-over-a-fault", "publish/fault-is-reported"),
    ("passes-over-a-fault", "publish/fault-is-reported"),
    ("keeps-the-kernels-words-to-itself", "publish/fault-in-the-kernels-words"),
    ("blames-the-volume", "publish/fault-is-not-invalid-argument"),
    ("looks-at-the-mount-and-passes-its-error-on", "publish/fault-changes-nothing-or-is-uncertain"),
    ("refuses-where-it-locked-before", "publish/fault-then-repeat"),
    ("locks-and-never-gives-back-after-a-fault", "publish/fault-then-undo"),
    ("tears-down-once", "unpublish/idempotent"),
    ("tears-down-once", "unpublish/never-taken"),
    ("makes-a-folder-of-what-is-gone", "unpublish/gone"),
    ("refuses-to-unpublish-where-it-locked-before", "unpublish/crash-then-repeat"),
    ("refuses-what-is-going", "unpublish/crash-then-redo"),
    ("crashes-over-a-fault-on-the-way-down", "unpublish/fault-is-reported"),
    ("keeps-the-kernels-words-to-itself-on-the-way-down", "unpublish/fault-in-the-kernels-words"),
    ("refuses-to-unpublish-where-it-locked-before", "unpublish/fault-then-repeat"),
    ("passes-over-busy", "unpublish/busy"),
    ("says-retryable-for-busy", "unpublish/busy"),
    ("logs-too-much", "limits/lines"),
    ("asks-too-much", "limits/host-calls"),
    ("takes-too-much-memory", "limits/memory-and-time"),
];

const OF_FOLDERS: &[Mutant] = &[
    ("empties-the-folder-each-time", "publish/keeps-data-when-repeated"),
    ("removes-only-empty-folders", "unpublish/gone"),
    ("leaves-what-is-no-mount", "unpublish/gone"),
];

const OF_IMAGES: &[Mutant] = &[
    ("shows-a-tmpfs-instead", "publish/is-mounted"),
    ("is-a-folder", "publish/is-mounted"),
    ("mounts-anew-each-time", "publish/idempotent"),
    ("passes-over-a-failed-pull", "publish/fault-is-reported"),
    ("keeps-the-words-of-a-pull-to-itself", "publish/fault-in-the-kernels-words"),
    ("blames-the-reference", "publish/fault-is-not-invalid-argument"),
];

const OF_UNITS: &[Mutant] = &[
    ("connects-once", "stage/crash-then-repeat"),
    ("connects-once", "stage-device/idempotent"),
    ("disconnects-once", "unstage/never-taken"),
    ("disconnects-once", "unstage-device/idempotent"),
    ("leaves-the-unit-connected", "stage/leaves-nothing"),
    ("leaves-the-unit-connected", "stage-device/leaves-nothing"),
    ("disconnects-only-what-is-mounted", "stage/crash-then-undo"),
    ("disconnects-only-what-is-mounted", "unstage/crash-then-repeat"),
    ("passes-over-a-unit-that-stays", "unstage/fault-is-reported"),
    ("keeps-quiet-about-the-unit", "unstage/fault-in-the-kernels-words"),
    ("keeps-the-targets-words-to-itself", "stage/fault-in-the-kernels-words"),
    ("blames-the-volume-for-its-target", "stage-device/fault-is-not-invalid-argument"),
    ("connects-one-unit-for-all", "publish/leaves-other-volumes"),
    ("disconnects-every-unit", "map-device/leaves-other-volumes"),
    ("mounts-memory-for-the-unit", "unpublish/data"),
    ("formats-the-unit-each-time", "unpublish/data"),
];

const OF_SERVERS: &[Mutant] = &[
    ("serves-read-only", "publish/is-mounted"),
    ("serves-anew-each-time", "stage/idempotent"),
    ("leaves-the-server-running", "stage/leaves-nothing"),
    ("passes-over-a-server-that-fails", "stage/fault-is-reported"),
    ("passes-over-a-server-that-stays", "unstage/fault-is-reported"),
    ("keeps-the-servers-words-to-itself", "stage/fault-in-the-kernels-words"),
    ("keeps-quiet-about-the-server", "unstage/fault-in-the-kernels-words"),
    ("blames-the-volume-for-its-server", "stage/fault-is-not-invalid-argument"),
    ("serves-one-folder-for-all", "publish/leaves-other-volumes"),
    ("shows-memory-for-what-is-served", "unpublish/data"),
];

const OF_DISKS: &[Mutant] = &[
    ("names-by-the-state", "identify/stable"),
    ("names-by-the-state", "identify/reaches-nothing"),
    ("names-by-the-pods-name", "identify/same-for-every-outer-name"),
    ("gives-one-name-to-all", "identify/unique"),
    ("names-nothing", "identify/named"),
    ("names-with-a-line-break", "identify/named"),
    ("drops-mount-options", "publish/mount-options"),
    ("takes-any-mount-option", "publish/unknown-mount-option"),
    ("gives-it-to-no-group", "publish/fs-group"),
    ("shows-a-tmpfs-instead", "unpublish/data"),
    ("removes-the-device-of-all-pods", "unpublish/leaves-the-other-pod"),
    ("attaches-once", "attach/idempotent"),
    ("attaches-as-something-else-each-time", "attach/idempotent"),
    ("attaches-nothing", "attach/idempotent"),
    ("locks-while-it-attaches", "attach/crash-then-undo"),
    ("detaches-once", "detach/idempotent"),
    ("detaches-nothing", "detach/idempotent"),
    ("detaches-once", "detach/never-taken"),
    ("mounts-the-device-once", "stage/idempotent"),
    ("never-mounts-what-has-data", "stage/after-its-undo"),
    ("unmounts-the-device-once", "unstage/never-taken"),
    ("keeps-quiet-about-the-device", "unstage/fault-in-the-kernels-words"),
    ("blames-the-volume-for-its-device", "stage-device/fault-is-not-invalid-argument"),
    ("never-tears-the-device-down", "unstage-device/idempotent"),
    ("never-unmaps", "unmap-device/never-taken"),
    ("detaches-nothing", "attach/is-found"),
    ("takes-all-for-attached", "are-attached/in-order"),
    ("answers-out-of-order", "are-attached/in-order"),
    ("finds-no-device", "wait-for-attach/finds-the-device"),
    ("gives-up-waiting", "wait-for-attach/no-device"),
    ("shows-a-tmpfs-instead", "publish/same-for-every-pod"),
    ("hands-over-another-device-each-time", "stage-device/returns-a-device"),
    ("reports-a-capacity-that-is-not-there", "measure/truthful"),
    ("reports-more-free-than-there-is", "measure/truthful"),
    ("says-that-it-grew", "expand/grows-as-a-device"),
    ("measures-by-changing", "measure/changes-nothing"),
    ("measures-by-the-mount", "measure/answers-without-a-mount"),
];

const OF_GROWTH: &[Mutant] = &[
    ("says-that-it-grew", "expand/grows"),
    ("grows-the-device-alone", "expand/grows"),
    ("answers-what-was-asked", "expand/large-enough"),
    ("grows-once", "expand/large-enough"),
    ("takes-the-image-for-the-file-system", "expand/crash-then-repeat"),
    ("blames-the-volume-for-its-size", "expand/fault-then-repeat"),
];

const OF_STORAGE: &[Mutant] = &[
    ("answers-another-size", "create/is-found"),
    ("lists-no-volume", "create/is-found"),
    ("finds-no-snapshot", "create-snapshot/is-found"),
    ("makes-another-volume-each-time", "create/idempotent"),
    ("makes-another-snapshot-each-time", "create-snapshot/idempotent"),
    ("gives-any-volume-of-the-name", "create/conflict"),
    ("takes-a-name-of-another-volumes-snapshot", "create-snapshot/conflict"),
    ("takes-any-parameter", "create/unknown-parameter"),
    ("refuses-a-parameter-without-its-name", "create/unknown-parameter"),
    ("passes-a-size-on", "create/out-of-range"),
    ("takes-a-begun-volume-for-made", "create/crash-then-repeat"),
    ("refuses-where-it-began-to-delete", "delete/crash-then-repeat"),
    ("takes-a-begun-growth-for-done", "expand-volume/crash-then-repeat"),
    ("takes-a-begun-snapshot-for-made", "create-snapshot/crash-then-repeat"),
    ("blames-the-request", "create/fault-then-repeat"),
    ("keeps-the-kernels-words-when-it-deletes", "delete/fault-then-repeat"),
    ("deletes-nothing", "delete/gone"),
    ("leaves-a-file-a-volume", "delete/gone"),
    ("deletes-no-snapshot", "delete-snapshot/gone"),
    ("deletes-a-volume-once", "delete/idempotent"),
    ("deletes-a-snapshot-once", "delete-snapshot/idempotent"),
    ("begins-each-page-anew", "list-volumes/pages"),
    ("takes-any-token", "list-volumes/unknown-token"),
    ("says-that-the-made-volume-grew", "expand-volume/grows"),
    ("answers-the-size-that-was-asked", "expand-volume/large-enough"),
    ("makes-a-volume-of-no-snapshot", "create/of-a-snapshot"),
];

const OF_CHANGES: &[Mutant] = &[
    ("changes-nothing", "modify/values-are-kept"),
    ("forgets-changes-when-the-volume-is-asked-for", "modify/values-are-kept"),
    ("changes-a-volume-once", "modify/idempotent"),
    ("resets-the-other-parameters", "modify/leaves-the-others"),
    ("takes-any-mutable-parameter", "modify/unknown-parameter"),
    ("changes-what-it-can-before-it-refuses", "modify/unknown-parameter"),
    ("takes-any-value", "modify/wrong-value"),
    ("changes-what-it-can-before-it-refuses", "modify/wrong-value"),
    ("refuses-a-change-without-its-name", "modify/wrong-value"),
    ("changes-a-volume-that-is-not-there", "modify/no-volume"),
    ("takes-a-begun-change-for-made", "modify/crash-then-repeat"),
    ("blames-the-change", "modify/fault-then-repeat"),
    ("keeps-the-kernels-words-when-it-changes", "modify/fault-then-repeat"),
    ("drops-mutable-parameters-when-it-makes", "create/mutable-parameters"),
    ("makes-a-volume-with-any-mutable-parameter", "create/unknown-mutable-parameter"),
];

const OF_GROUPS: &[Mutant] = &[
    ("finds-no-group", "create-group/is-found"),
    ("makes-another-group-each-time", "create-group/idempotent"),
    ("gives-any-group-of-the-name", "create-group/conflict"),
    ("copies-before-it-looks-for-all", "create-group/no-volume"),
    ("forgets-the-group-of-a-snapshot", "create-group/snapshots-are-listed"),
    ("lists-no-snapshot-of-a-group", "create-group/snapshots-are-listed"),
    ("lists-snapshots-of-any-volume", "create-group/snapshots-are-listed"),
    ("deletes-one-snapshot-of-a-group", "delete-snapshot/of-a-group"),
    ("makes-no-volume-of-a-groups-snapshot", "create/of-a-group"),
    ("deletes-the-volumes-that-are-not-of-the-group", "create/of-a-group"),
    ("deletes-no-group", "delete-group/gone"),
    ("deletes-the-group-without-its-snapshots", "delete-group/gone"),
    ("deletes-a-group-once", "delete-group/idempotent"),
    ("takes-a-begun-group-for-whole", "create-group/crash-then-repeat"),
    ("finds-what-is-no-group-yet", "create-group/crash-then-repeat"),
    ("leaves-a-begun-group", "create-group/crash-then-delete"),
    ("refuses-where-it-began-to-delete-a-group", "delete-group/crash-then-repeat"),
    ("blames-the-group", "create-group/fault-then-repeat"),
    ("keeps-the-kernels-words-when-it-deletes-a-group", "delete-group/fault-then-repeat"),
];

const OF_NODES: &[Mutant] = &[
    ("names-no-other-node", "attached-to/names-the-node"),
    ("names-one-node-for-all", "attached-to/names-the-node"),
    ("names-this-node-too", "attached-to/none-but-this-one"),
    ("looks-for-the-node-by-changing", "attached-to/changes-nothing"),
    ("takes-what-another-node-has-for-its-own", "attach/for-the-named-node"),
    ("detaches-from-every-node", "attach/for-the-named-node"),
    ("attaches-what-another-node-has", "attach/conflict"),
    ("refuses-without-the-nodes-name", "attach/conflict"),
    ("leaves-it-with-the-other-node", "detach-from/gone"),
    ("takes-it-away-once", "detach-from/idempotent"),
    ("takes-it-away-from-this-node-too", "detach-from/idempotent"),
    ("takes-all-away-from-the-node", "detach-from/leaves-other-volumes"),
    ("refuses-where-it-began-to-take-away", "detach-from/crash-then-repeat"),
    ("blames-the-volume-for-its-node", "detach-from/fault-then-repeat"),
];

/// Each mutant fails the case that is named for its rule.
fn are_found(mutants: &[Mutant], case: &str) {
    let plugin = fixture("fixture-mutants");
    let mut missed = Vec::new();
    with_cache(&plugin, |cache| {
        for (rule, name) in mutants {
            let report = run(&plugin, &case_file(case), Some(rule), &[name], cache);
            if !matches!(report.cases[0].outcome, CaseOutcome::Failed { .. }) {
                missed.push(format!("{rule} by {name}: {:?}", report.cases[0].outcome));
            }
        }
    });
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

#[test]
fn the_fixture_without_a_broken_rule_passes_with_a_volume_in_memory() {
    passes(&fixture("fixture-mutants"), "mutant-memory");
}

#[test]
fn the_fixture_without_a_broken_rule_passes_with_a_folder() {
    passes(&fixture("fixture-mutants"), "mutant-folder");
}

#[test]
fn the_fixture_without_a_broken_rule_passes_with_a_disk() {
    passes(&fixture("fixture-mutants"), "mutant-disk");
}

#[test]
fn the_fixture_without_a_broken_rule_passes_with_an_oci_image() {
    passes_only(&fixture("fixture-mutants"), "mutant-image", &["identify", "publish", "unpublish"]);
}

/// The groups of cases of a volume that is staged, and staged as a device.
const OF_STAGED: [&str; 8] =
    ["stage", "unstage", "publish", "unpublish", "stage-device", "unstage-device", "map-device", "unmap-device"];

#[test]
fn the_fixture_without_a_broken_rule_passes_with_a_unit_of_an_iscsi_target() {
    passes_only(&fixture("fixture-mutants"), "mutant-unit", &OF_STAGED);
}

#[test]
fn the_fixture_without_a_broken_rule_passes_with_a_unit_of_a_fibre_channel_target() {
    passes_only(&fixture("fixture-mutants"), "mutant-fc-unit", &OF_STAGED);
}

#[test]
fn the_fixture_without_a_broken_rule_passes_with_a_server_that_writes_back_at_its_end() {
    passes_only(&fixture("fixture-mutants"), "mutant-served", &["stage", "unstage", "publish", "unpublish"]);
}

#[test]
fn the_fixture_without_a_broken_rule_passes_when_its_volume_grows() {
    passes_only(&fixture("fixture-mutants"), "mutant-xfs", &["publish/is-mounted", "expand"]);
}

#[test]
fn every_rule_that_is_broken_with_a_volume_in_memory_is_found() {
    are_found(OF_MEMORY, "mutant-memory");
}

#[test]
fn every_rule_that_is_broken_with_a_folder_is_found() {
    are_found(OF_FOLDERS, "mutant-folder");
}

#[test]
fn every_rule_that_is_broken_with_an_oci_image_is_found() {
    are_found(OF_IMAGES, "mutant-image");
}

#[test]
fn every_rule_that_is_broken_with_a_unit_of_an_iscsi_target_is_found() {
    are_found(OF_UNITS, "mutant-unit");
}

#[test]
fn every_rule_that_is_broken_with_a_unit_of_a_fibre_channel_target_is_found() {
    are_found(OF_UNITS, "mutant-fc-unit");
}

#[test]
fn every_rule_that_is_broken_with_a_served_folder_is_found() {
    are_found(OF_SERVERS, "mutant-served");
}

#[test]
fn every_rule_that_is_broken_with_a_disk_is_found() {
    are_found(OF_DISKS, "mutant-disk");
}

#[test]
fn every_rule_that_is_broken_when_a_volume_grows_is_found() {
    are_found(OF_GROWTH, "mutant-xfs");
}

#[test]
fn every_rule_that_is_broken_when_volumes_are_made_is_found() {
    are_found(OF_STORAGE, "mutant-disk");
}

#[test]
fn every_rule_that_is_broken_when_made_volumes_are_changed_is_found() {
    are_found(OF_CHANGES, "mutant-disk");
}

#[test]
fn every_rule_that_is_broken_when_groups_of_snapshots_are_made_is_found() {
    are_found(OF_GROUPS, "mutant-disk");
}

#[test]
fn every_rule_that_is_broken_when_other_nodes_have_the_volume_is_found() {
    are_found(OF_NODES, "mutant-disk");
}

#[test]
fn there_are_mutants_for_every_sentence_that_a_plugin_alone_can_break() {
    let of_volumes = [OF_MEMORY, OF_FOLDERS, OF_UNITS, OF_DISKS, OF_GROWTH].concat();
    let mutants = [of_volumes, [OF_STORAGE, OF_CHANGES, OF_GROUPS, OF_NODES].concat()].concat();
    let found: Vec<&str> = mutants.into_iter().map(|(_, case)| case).collect();
    let sentences: Vec<&str> = volhost_conformance::suite::held_sentences()
        .filter(|(case, _)| found.contains(case))
        .map(|(_, sentence)| sentence)
        .collect();
    // The host enforces these three: it makes the mount of a read-only volume read-only, gives a
    // unpublish nothing of the source, and sets how a mount propagates.
    let of_the_host = ["M9", "M12", "M17"];
    let missing: Vec<&str> = volhost_conformance::contract::sentences()
        .map(|sentence| sentence.number)
        .filter(|number| !sentences.contains(number) && !of_the_host.contains(number))
        .collect();
    assert!(missing.is_empty(), "no mutant breaks {missing:?}");
}
