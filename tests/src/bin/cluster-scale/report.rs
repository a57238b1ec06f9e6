//! The figures, written whenever there are new ones: a run that is ended early has those until then.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

/// The report, in a JSON file.
pub(crate) struct Report {
    file: PathBuf,
    figures: Mutex<Map<String, Value>>,
}

impl Report {
    pub(crate) fn new(file: &str) -> Self {
        let report = Self { file: PathBuf::from(file), figures: Mutex::default() };
        report.set("complete", false.into());
        report
    }

    /// Adds a figure, or replaces it.
    pub(crate) fn set(&self, name: &str, value: Value) {
        self.figures().insert(name.to_owned(), value);
        let part = self.file.with_extension("part");
        fs::write(&part, format!("{}\n", self.text())).expect("the report is written");
        fs::rename(part, &self.file).expect("the report is put in place");
    }

    /// All figures, as JSON.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string_pretty(&*self.figures()).expect("figures are JSON")
    }

    fn figures(&self) -> MutexGuard<'_, Map<String, Value>> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
