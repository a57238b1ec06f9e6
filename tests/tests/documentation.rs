//! What the documentation names is there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

use std::fs;

use volhost_tests::artifacts::workspace;

const RULES: &str = "host/core/tests/simulation/rules.rs";

/// What stands between backquotes on a line of a list.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(workspace().join(path)).ok()
}

/// Why a named test does not exist, if it does not.
fn missing(name: &str) -> Option<String> {
    if let Some(rule) = name.strip_prefix("Rule::") {
        let there = read(RULES).is_some_and(|rules| rules.contains(&format!("    {rule},\n")));
        return (!there).then(|| format!("{RULES} has no rule {rule}"));
    }
    let (file, test) = name.rsplit_once("::").map_or((name, None), |(file, test)| (file, Some(test)));
    match (read(file), test) {
        (None, _) => Some(format!("there is no file {file}")),
        (Some(text), Some(test)) if !text.contains(&format!("fn {test}(")) => {
            Some(format!("{file} has no test {test}"))
        }
        (Some(text), None) if !text.contains("#[test]") && !text.contains("world: &dyn World") => {
            Some(format!("{file} holds no tests"))
        }
        _ => None,
    }
}

#[test]
fn every_test_on_the_page_of_guarantees_exists_and_every_rule_has_some() {
    let page = read("docs/guarantees.md").expect("the page is there");
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    let rules: Vec<&str> = sections.iter().filter_map(|section| section.split(':').next()).collect();
    let expected: Vec<String> = (1..=11).map(|rule| format!("R{rule}")).collect();
    assert_eq!(rules, expected);
    let mut wrong = Vec::new();
    for section in sections {
        let listed: Vec<&str> = section.lines().filter(|line| line.starts_with("- ")).flat_map(names).collect();
        assert!(!listed.is_empty(), "no test holds {section}");
        wrong.extend(listed.into_iter().filter_map(missing));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_name_that_does_not_exist_is_noticed() {
    for name in ["Rule::NoSuch", "tests/tests/no_such.rs", "tests/tests/walk.rs::no_such", "docs/guarantees.md"] {
        assert!(missing(name).is_some(), "{name}");
    }
}
