//! A plugin of shares that breaks one rule at a time: the suite finds each with a real server.

use crate::nfs_server::Server;
use crate::suite;

const PLUGIN: &str = "fixture-share-mutants";
/// The case file of the conformance suite.
const CASE: &str = include_str!("../../conformance/mutant-share.yaml");

/// A broken rule, and the case that finds it.
type Mutant = (&'static str, &'static str);

/// With `network-mounts`.
const OF_MOUNTS: [Mutant; 8] = [
    ("shows-memory-for-the-share", "publish/is-mounted"),
    ("passes-over-a-server-that-fails", "publish/fault-is-reported"),
    ("keeps-the-servers-words-to-itself", "publish/fault-in-the-kernels-words"),
    ("blames-the-volume-for-its-server", "publish/fault-is-not-invalid-argument"),
    ("empties-the-folder-each-time", "unpublish/data"),
    ("leaves-the-share-mounted", "unpublish/gone"),
    ("passes-over-a-share-that-stays", "unpublish/fault-is-reported"),
    ("mounts-one-folder-for-all", "publish/leaves-other-volumes"),
];

/// With `share-folders`.
const OF_FOLDERS: [Mutant; 12] = [
    ("makes-another-folder-each-time", "create/idempotent"),
    ("gives-any-folder-of-the-name", "create/conflict"),
    ("takes-any-parameter", "create/unknown-parameter"),
    ("takes-a-begun-folder-for-made", "create/crash-then-repeat"),
    ("blames-the-request-for-the-server", "create/fault-then-repeat"),
    ("deletes-nothing", "delete/gone"),
    ("deletes-a-folder-once", "delete/idempotent"),
    ("refuses-where-it-began-to-delete", "delete/crash-then-repeat"),
    ("keeps-the-servers-words-when-it-deletes", "delete/fault-then-repeat"),
    ("begins-each-page-anew", "list-volumes/pages"),
    ("says-that-the-folder-grew", "expand-volume/grows"),
    ("answers-the-size-that-was-asked", "expand-volume/large-enough"),
];

/// Checks that the plugin passes these cases, and with each rule broken fails the rule's own.
fn check(mutants: &[Mutant]) {
    let server = Server::start();
    let guest = &server.guest;
    server.export_and_mount("mutants");
    let mut cases: Vec<&str> = mutants.iter().map(|(_, case)| *case).collect();
    cases.sort_unstable();
    cases.dedup();
    suite::check(guest, PLUGIN, CASE, &cases);
    let missed: Vec<String> = mutants
        .iter()
        .filter_map(|(rule, case)| {
            let found = suite::fails(guest, PLUGIN, CASE, rule, case);
            found.err().map(|report| format!("{rule} by {case}: {report}"))
        })
        .collect();
    assert!(missed.is_empty(), "not found: {missed:#?}");
    server.unmount("mutants");
}

#[test]
fn every_rule_that_is_broken_with_a_share_is_found() {
    check(&OF_MOUNTS);
}

#[test]
fn every_rule_that_is_broken_with_folders_of_a_share_is_found() {
    check(&OF_FOLDERS);
}
