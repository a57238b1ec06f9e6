//! The book: which pages it has, what is wrong with them, and writing them for mdBook.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::links::{anchors, links};

/// The table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The contract's reference: generated, in no checkout.
pub const CONTRACT: &str = "docs/wit.md";
/// The commands' reference, likewise.
pub const COMMANDS: &str = "docs/commands.md";
/// Pages at the checkout's root, and their names in the book.
const ROOT_PAGES: [(&str, &str); 5] = [
    ("README.md", "README.md"),
    ("CHANGELOG.md", "changelog.md"),
    ("CONTRIBUTING.md", "contributing.md"),
    ("RELEASE.md", "release.md"),
    ("SECURITY.md", "reporting.md"),
];
/// Where files that are not in the book are shown.
const FILES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

/// Why the book could not be made.
#[derive(Debug, Error)]
pub enum BookError {
    /// A file or program could not be used.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The contract could not be read.
    #[error("the contract: {0}")]
    Contract(String),
    /// The program did not say what commands it has.
    #[error("the program: {0}")]
    Program(String),
}

impl BookError {
    pub(crate) fn at(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// A page.
#[derive(Debug)]
struct Page {
    /// Its path in the book.
    name: String,
    /// None for a generated page that was not generated.
    text: Option<String>,
}

/// The pages, by their paths in the checkout.
#[derive(Debug)]
pub struct Book {
    checkout: PathBuf,
    pages: BTreeMap<String, Page>,
}

impl Book {
    /// Reads the pages of a checkout.
    ///
    /// # Errors
    /// [`BookError::Io`].
    pub fn read(checkout: &Path) -> Result<Self, BookError> {
        let mut book = Self { checkout: checkout.to_owned(), pages: BTreeMap::new() };
        for (source, name) in ROOT_PAGES {
            book.add(source.to_owned(), name.to_owned())?;
        }
        for file in names(&checkout.join("docs"))?.into_iter().filter(|file| file.ends_with(".md")) {
            book.add(format!("docs/{file}"), file)?;
        }
        for plugin in names(&checkout.join("plugins"))? {
            let source = format!("plugins/{plugin}/README.md");
            if checkout.join(&source).is_file() {
                book.add(source, format!("kinds/{plugin}.md"))?;
            }
        }
        for source in [CONTRACT, COMMANDS] {
            let name = source.trim_start_matches("docs/").to_owned();
            book.pages.insert(source.to_owned(), Page { name, text: None });
        }
        Ok(book)
    }

    fn add(&mut self, source: String, name: String) -> Result<(), BookError> {
        let path = self.checkout.join(&source);
        let text = fs::read_to_string(&path).map_err(|error| BookError::at(&path, error))?;
        self.pages.insert(source, Page { name, text: Some(text) });
        Ok(())
    }

    /// Adds the text of a generated page, [`CONTRACT`] or [`COMMANDS`].
    #[must_use]
    pub fn with_generated(mut self, source: &str, text: String) -> Self {
        if let Some(page) = self.pages.get_mut(source) {
            page.text = Some(text);
        }
        self
    }

    /// Returns what is wrong: links to files or headings that do not exist, and pages that the
    /// table of contents leaves out. Anchors of a page that was not generated are not checked.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut listed = Vec::new();
        for (source, page) in &self.pages {
            let text = page.text.as_deref().unwrap_or_default();
            for link in links(text).into_iter().filter(|link| !link.target.contains("://")) {
                let (path, anchor) = resolve(source, link.target);
                let at = format!("{source}:{}: {}", link.line, link.target);
                if source == SUMMARY {
                    listed.push(path.clone());
                }
                match (self.pages.get(&path), anchor) {
                    (Some(Page { text: Some(text), .. }), Some(anchor)) if !anchors(text).contains(&anchor) => {
                        problems.push(format!("{at}: {path} has no heading with this anchor"));
                    }
                    (None, _) if !self.checkout.join(&path).exists() => {
                        problems.push(format!("{at}: there is no {path}"));
                    }
                    _ => {}
                }
            }
        }
        let left_out = self.pages.keys().filter(|source| *source != SUMMARY && !listed.contains(source));
        problems.extend(left_out.map(|source| format!("{SUMMARY} does not list {source}")));
        problems
    }

    /// Writes the pages into `folder`, in place of what was there. Links to files that are not in
    /// the book lead to the repository.
    ///
    /// # Errors
    /// [`BookError::Io`].
    pub fn write(&self, folder: &Path) -> Result<(), BookError> {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|source| BookError::at(folder, source))?;
        }
        for (source, page) in &self.pages {
            let Some(text) = &page.text else { continue };
            let path = folder.join(&page.name);
            let above = path.parent().unwrap_or(folder);
            fs::create_dir_all(above).map_err(|source| BookError::at(above, source))?;
            fs::write(&path, self.rewritten(source, page, text)).map_err(|source| BookError::at(&path, source))?;
        }
        Ok(())
    }

    /// The text with links as they are right in the book.
    fn rewritten(&self, source: &str, page: &Page, text: &str) -> String {
        let mut rewritten = text.to_owned();
        for link in links(text).into_iter().rev() {
            if link.target.contains("://") || link.target.starts_with('#') {
                continue;
            }
            let (path, anchor) = resolve(source, link.target);
            let target = match self.pages.get(&path) {
                Some(other) => format!("{}{}", "../".repeat(page.name.matches('/').count()), other.name),
                None => format!("{FILES}{path}"),
            };
            let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
            rewritten.replace_range(link.at, &format!("{target}{anchor}"));
        }
        rewritten
    }
}

/// The path in the checkout that a link on the page `source` leads to, and the anchor there.
fn resolve(source: &str, target: &str) -> (String, Option<String>) {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    if path.is_empty() {
        return (source.to_owned(), anchor.map(str::to_owned));
    }
    let mut parts: Vec<&str> = source.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    (parts.join("/"), anchor.map(str::to_owned))
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>, BookError> {
    let failed = |source| BookError::at(folder, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}
