//! Every link of the documentation leads somewhere, and a link that does not is noticed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

use std::fs;
use std::path::Path;

use volhost_book::book::{Book, CONTRACT};
use volhost_book::generated;
use volhost_book::links::{anchors, links};

#[test]
fn every_link_of_the_documentation_leads_to_a_file_and_heading() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let contract = generated::contract(&checkout).unwrap();
    let problems = Book::read(&checkout).unwrap().with_generated(CONTRACT, contract).problems();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A checkout of these files, beside empty ones where every checkout has some.
fn checkout(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let summary = "[a](../README.md) [b](../CHANGELOG.md) [c](../CONTRIBUTING.md) [d](../RELEASE.md) \
                   [e](../SECURITY.md) [f](wit.md) [g](commands.md) [h](a.md) [i](../plugins/p/README.md)";
    let empty = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASE.md", "SECURITY.md", "plugins/p/README.md"];
    let all = empty.map(|file| (file, "")).into_iter().chain([("docs/SUMMARY.md", summary)]);
    for (file, text) in all.chain(files.iter().copied()) {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn links_to_missing_files_and_headings_and_pages_that_are_not_listed_are_problems() {
    let page = "# A page\n\n[here](#a-page) [gone](#gone) [file](../nothing)\n[other](b.md#b)\n`[code](x)`\n";
    let folder = checkout(&[("docs/a.md", page), ("docs/b.md", "# B\n")]);
    let problems = Book::read(folder.path()).unwrap().problems();
    assert_eq!(
        problems,
        [
            "docs/a.md:3: #gone: docs/a.md has no heading with this anchor",
            "docs/a.md:3: ../nothing: there is no nothing",
            "docs/SUMMARY.md does not list docs/b.md",
        ]
    );
}

#[test]
fn links_lead_to_pages_of_the_book_and_else_to_the_repository() {
    let page = "[a](../../docs/a.md#x) [file](src/lib.rs) [far](https://example.com) [here](#y)";
    let folder = checkout(&[("docs/a.md", "# x\n"), ("plugins/p/README.md", page), ("plugins/p/src/lib.rs", "")]);
    let out = folder.path().join("out");
    Book::read(folder.path()).unwrap().write(&out).unwrap();
    let written = fs::read_to_string(out.join("kinds/p.md")).unwrap();
    let repository = env!("CARGO_PKG_REPOSITORY");
    assert_eq!(
        written,
        format!(
            "[a](../a.md#x) [file]({repository}/blob/main/plugins/p/src/lib.rs) [far](https://example.com) [here](#y)"
        )
    );
}

#[test]
fn headings_have_the_anchors_of_github() {
    let page = "# What `volhost get` says\n```\n# no heading\n```\n## R1: [a](b.md)?\n## Twice\n## Twice\n#no\n";
    assert_eq!(anchors(page), ["what-volhost-get-says", "r1-a", "twice", "twice-1"]);
}

#[test]
fn code_holds_no_links() {
    let page = "`a](b)` ``c`](d)`` [e](f) ~\n~~~\n[g](h)\n```\n~~~\n[i](j) `open [k](l)\n";
    let targets: Vec<&str> = links(page).iter().map(|link| link.target).collect();
    assert_eq!(targets, ["f", "j", "l"]);
}
