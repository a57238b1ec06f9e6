//! Checks the contract's reference page, and its compatibility with plugins of its release.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

use std::path::{Path, PathBuf};

use volhost_wit::compatibility::{Break, breaks};
use volhost_wit::contract::Contract;
use volhost_wit::surface::Surface;
use volhost_wit::{grants, page};

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn contract() -> Contract {
    Contract::read(&checkout().join("wit")).unwrap()
}

#[test]
fn the_page_has_every_function_with_its_grant() {
    let page = page::render(&contract());
    for words in [
        "### mounts.mount-target\n",
        "- `attach: func(mount: detached-mount) -> result<_, error>`\n\n  Attaches the mount here",
        "*Imported; needs a grant: `loop-files = [\"/srv/images\"]`.*",
        "*Imported; no grant is needed.*",
        "*Exported by plugins with the capability `expander`.*",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn plugins_of_the_release_fit_the_contract_as_it_is() {
    let current = contract();
    let version = current.name().split('@').nth(1).unwrap().to_owned();
    let released = checkout().join(format!("wit/released/{version}.wit"));
    let released = Contract::read(&released).unwrap_or_else(|error| {
        panic!("{error}\nA version that was released is recorded: cargo run --bin volhost-wit -- record")
    });
    let found: Vec<_> = breaks(&Surface::of(&released), &Surface::of(&current)).iter().map(Break::to_string).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

const OLD: &str = "package a:b@0.1.0;
interface things {
    record size { bytes: u64 }
    resource thing { grow: func(to: size) -> result<_, string>; }
    find: func(name: string) -> option<thing>;
}
interface able { do-it: func(); }
world plugin { import things; export able; }
world every-capability { import things; export able; }
";

/// The breaking changes from OLD to this.
fn broken(change: &[(&str, &str)]) -> Vec<Break> {
    let newer = change.iter().fold(OLD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    let surface = |text: &str| Surface::of(&Contract::parse("test.wit", text).unwrap());
    breaks(&surface(OLD), &surface(&newer))
}

#[test]
fn imports_may_grow_and_capabilities_may_be_added() {
    let grown = [
        ("find:", "lose: func(name: string);\n    find:"),
        ("grow:", "shrink: func();\n    grow:"),
        ("interface able", "interface more { x: func(); }\ninterface also { y: func(); }\ninterface able"),
        (
            "world plugin { import things;",
            "world also-capability { export also; }\nworld plugin { import things; import more;",
        ),
        ("world every-capability { import things;", "world every-capability { import things; export also;"),
    ];
    assert_eq!(broken(&grown), []);
    assert_eq!(broken(&[("bytes: u64", "bytes: u64, // in bytes\n")]), [], "comments may change");
}

#[test]
fn removed_and_changed_items_are_named() {
    let gone = broken(&[("find: func(name: string) -> option<thing>;", "")]);
    assert_eq!(gone, [Break::Gone { item: "things.find".to_owned() }]);
    let message = broken(&[("grow: func(to: size)", "grow: func(to: u64)")])[0].to_string();
    assert!(message.contains("things.thing.grow has changed"), "{message}");
    assert!(
        message.contains("was: func(to: size) -> result<_, string>") && message.contains("is:  func(to: u64)"),
        "{message}"
    );
    assert!(
        matches!(&broken(&[("bytes: u64", "bytes: u64, unit: string")])[..], [Break::Changed { item, .. }] if item == "things.size")
    );
    let renamed = broken(&[("func(name: string)", "func(key: string)")]);
    assert!(
        matches!(&renamed[..], [Break::Changed { .. }]),
        "a parameter's name is a part of its function: {renamed:?}"
    );
    assert_eq!(broken(&[("world plugin { import things;", "world plugin {")]).len(), 1);
}

#[test]
fn nothing_more_is_required_of_existing_plugins() {
    let grown = broken(&[("do-it: func();", "do-it: func();\n undo-it: func();")]);
    assert_eq!(grown, [Break::Demanded { item: "able.undo-it".to_owned() }]);
    let wanted = broken(&[
        ("interface able", "interface also { y: func(); }\ninterface able"),
        ("world plugin { import things;", "world plugin { import things; export also;"),
    ]);
    assert_eq!(wanted, [Break::Demanded { item: "world plugin: export also".to_owned() }]);
}

#[test]
fn a_record_can_be_read_again() {
    let current = contract();
    let again = Contract::parse("recorded.wit", &current.text().unwrap()).unwrap();
    assert_eq!(Surface::of(&again), Surface::of(&current));
}

#[test]
fn interfaces_without_a_line_of_their_own_are_granted_by_name() {
    assert_eq!(grants::line("mounts"), None);
    assert_eq!(grants::line("quotas").unwrap(), "interfaces = [\"quotas\"]");
}
