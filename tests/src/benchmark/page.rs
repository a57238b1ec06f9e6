//! The table of docs/benchmarks.md.

use std::fmt::{self, Write as _};

use super::figure::{Figure, ratio_text};
use super::run::Run;

const BEGIN: &str = "<!-- recorded run: make bench RECORD=yes writes this -->";
const END: &str = "<!-- end of the recorded run -->";

/// The page does not have one table's place.
#[derive(Debug, PartialEq, Eq)]
pub struct PageError;

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "docs/benchmarks.md has no lines {BEGIN:?} and {END:?}, one after the other")
    }
}

impl std::error::Error for PageError {}

fn row(figure: &Figure) -> [String; 5] {
    let (beside, ratio) = match figure.bare() {
        None => (String::new(), String::new()),
        Some((bare, value)) => (format!("{}: {value}", bare.what), ratio_text(bare.ratio)),
    };
    let mut aim = figure.aim_text().unwrap_or_default();
    if figure.misses_aim() {
        aim.push_str(", **missed**");
    }
    [figure.what().to_owned(), figure.measured().to_string(), beside, ratio, aim]
}

/// The figures of a run as a Markdown table.
pub fn table(run: &Run) -> String {
    let mut text = "| what | figure | beside it | ratio | aim |\n|---|---|---|---|---|\n".to_owned();
    for figure in &run.figures {
        let _ = writeln!(text, "| {} |", row(figure).join(" | "));
    }
    text.replace("|  ", "| ")
}

/// The page with the run's table in place of the one between its two marks.
///
/// # Errors
/// If the page has no such marks.
pub fn replace_table(page: &str, run: &Run) -> Result<String, PageError> {
    let (before, rest) = page.split_once(BEGIN).ok_or(PageError)?;
    let (_, after) = rest.split_once(END).ok_or(PageError)?;
    let Run { commit, date, machine, noise, seconds, release, .. } = run;
    let build = if *release { "release" } else { "development" };
    let noise = 100.0 * noise;
    let source = format!("Commit {commit}, {build} build, {date}, in {seconds} s, noise {noise:.0} %.\n{machine}.\n");
    Ok(format!("{before}{BEGIN}\n{source}\n{}{END}{after}", table(run)))
}
