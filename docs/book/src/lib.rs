//! The documentation as a book: collects its pages from the checkout, generates the reference
//! pages, checks every link, and writes what mdBook builds.
//!
//! ```text
//!  README.md, docs/*.md, plugins/*/README.md, ... --\
//!  wit/ --------------> the contract's page ---------+--> links checked, rewritten --> mdBook
//!  volhost --help ----> the commands' page ---------/
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`book`] | which pages there are, what is wrong with them, and writing them |
//! | [`generated`] | the pages that are made of the contract and of the program |
//! | [`links`] | links and headings of a page |
#![forbid(unsafe_code)]

pub mod book;
pub mod generated;
pub mod links;
