//! The page of the contract and the cases agree.

use std::collections::BTreeSet;

use volhost_conformance::contract::{sentence, sentences};
use volhost_conformance::suite::held_sentences;

#[test]
fn the_page_lists_every_case_with_the_sentence_it_checks_and_no_other() {
    let on_page: BTreeSet<(&str, &str)> =
        sentences().flat_map(|sentence| sentence.cases().map(move |case| (case, sentence.number))).collect();
    let held: BTreeSet<(&str, &str)> = held_sentences().collect();
    assert_eq!(on_page, held);
    assert!(held.iter().all(|(_, number)| sentence(number).is_some()));
}

#[test]
fn names_and_numbers_are_given_once() {
    let cases: Vec<&str> = held_sentences().map(|(case, _)| case).collect();
    assert_eq!(cases.iter().collect::<BTreeSet<_>>().len(), cases.len());
    let numbers: Vec<&str> = sentences().map(|sentence| sentence.number).collect();
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len());
}
