//! A plugin of shares that breaks one rule at a time: the suite finds each with a real server.

use crate::nfs_server::{EXPORTS, Server};
use crate::suite;

const PLUGIN: &str = "fixture-share-mutants";
/// The case file of the conformance suite.
const CASE: &str = include_str!("../../conformance/mutant-share.yaml");

/// A broken rule, and the case that finds it.
type Mutant = (&'static str, &'static str);

/// With `network-mounts`.
const OF_MOUNTS: [Mutant; 7] = [
    ("shows-memory-for-the-share", "publish/is-mounted"),
    ("passes-over-a-server-that-fails", "publish/fault-is-reported"),
    ("keeps-the-servers-words-to-itself", "publish/fault-in-the-kernels-words"),
    ("blames-the-volume-for-its-server", "publish/fault-is-not-invalid-argument"),
    ("empties-the-folder-each-time", "unpublish/data"),
    ("leaves-the-share-mounted", "unpublish/gone"),
    ("passes-over-a-share-that-stays", "unpublish/fault-is-reported"),
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

#[test]
fn every_rule_that_is_broken_with_a_share_or_its_folders_is_found() {
    let server = Server::start();
    let guest = &server.guest;
    guest.run(&format!("mkdir -p {EXPORTS}/mutants; chmod 777 {EXPORTS}/mutants"));
    server.export("mutants");
    let mutants = [OF_MOUNTS.as_slice(), &OF_FOLDERS].concat();
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
}
