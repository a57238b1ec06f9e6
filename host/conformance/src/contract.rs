//! The sentences of the contract, as their page numbers them. The page is the one place where they
//! are written.

/// The page.
pub const PAGE: &str = include_str!("../../../docs/contract.md");

/// A sentence of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sentence {
    /// Its number, such as `M2`.
    pub number: &'static str,
    /// What it says.
    pub text: &'static str,
    /// The cases that check it, as the page lists them.
    cases: &'static str,
}

impl Sentence {
    /// The names of the cases that check it, as the page lists them.
    pub fn cases(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.cases.split('`').skip(1).step_by(2)
    }
}

/// Every sentence, in the page's order: the rows `| NUMBER | text | cases |` of its tables.
pub fn sentences() -> impl Iterator<Item = Sentence> {
    PAGE.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (number, text, cases) = (cells.next()?, cells.next()?, cells.next()?);
        let numbered =
            number.starts_with(|c: char| c.is_ascii_uppercase()) && number.ends_with(|c: char| c.is_ascii_digit());
        numbered.then_some(Sentence { number, text, cases })
    })
}

/// What the sentence of this number says.
#[must_use]
pub fn sentence(number: &str) -> Option<&'static str> {
    sentences().find(|sentence| sentence.number == number).map(|sentence| sentence.text)
}
