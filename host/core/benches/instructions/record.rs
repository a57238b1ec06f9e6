//! The counts that were recorded last, and what has changed since.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

/// A change by more than this, in percent, is reported.
const TOLERANCE: f64 = 5.0;

/// Instructions a round by workload, and what compiled them: another compiler's counts say nothing
/// about the code.
#[derive(Debug, PartialEq)]
pub(crate) struct Record {
    compiler: String,
    target: String,
    counts: BTreeMap<String, u64>,
}

/// A count that differs from the recorded one by more than the tolerance, or that is new or gone.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    Grown { name: String, from: u64, to: u64 },
    Shrunk { name: String, from: u64, to: u64 },
    New { name: String },
    Gone { name: String },
}

impl Record {
    pub(crate) fn of(counts: Vec<(&'static str, u64)>) -> Self {
        let version = Command::new("rustc").arg("--version").output().expect("rustc runs");
        Self {
            compiler: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            counts: counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        }
    }

    fn path() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/instructions/recorded.json")
    }

    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(Self::path()).expect("recorded.json is there");
        let value: Value = serde_json::from_str(&text).expect("recorded.json is JSON");
        let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let counts = value["instructions"].as_object().expect("recorded.json has instructions");
        let counts = counts.iter().map(|(name, count)| (name.clone(), count.as_u64().expect("a count")));
        Self { compiler: word("compiler"), target: word("target"), counts: counts.collect() }
    }

    pub(crate) fn write(&self) {
        let value = json!({ "compiler": self.compiler, "target": self.target, "instructions": self.counts });
        let text = serde_json::to_string_pretty(&value).expect("it is JSON") + "\n";
        std::fs::write(Self::path(), text).expect("recorded.json is written");
    }

    pub(crate) fn is_comparable(&self, now: &Self) -> bool {
        (&self.compiler, &self.target) == (&now.compiler, &now.target)
    }

    pub(crate) fn changes(&self, now: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, to) in &now.counts {
            let name = name.clone();
            match self.counts.get(&name).copied() {
                None => changes.push(Change::New { name }),
                Some(from) if percent(from, *to) > TOLERANCE => changes.push(Change::Grown { name, from, to: *to }),
                Some(from) if percent(from, *to) < -TOLERANCE => changes.push(Change::Shrunk { name, from, to: *to }),
                Some(_) => {}
            }
        }
        let gone = self.counts.keys().filter(|name| !now.counts.contains_key(*name));
        changes.extend(gone.map(|name| Change::Gone { name: name.clone() }));
        changes
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.compiler, self.target)
    }
}

impl Change {
    /// A record that lacks a workload, or has one more, must be renewed too.
    pub(crate) fn is_worse(&self) -> bool {
        !matches!(self, Self::Shrunk { .. })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grown { name, from, to } => {
                write!(
                    f,
                    "WORSE: {name}: {to} instructions, {:.1} % more than the {from} recorded",
                    percent(*from, *to)
                )
            }
            Self::Shrunk { name, from, to } => {
                write!(
                    f,
                    "better: {name}: {to} instructions, {:.1} % fewer than the {from} recorded",
                    -percent(*from, *to)
                )
            }
            Self::New { name } => write!(f, "NOT RECORDED: {name}"),
            Self::Gone { name } => write!(f, "RECORDED, BUT GONE: {name}"),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a percentage of counts far below 2^52")]
fn percent(from: u64, to: u64) -> f64 {
    (to as f64 / from.max(1) as f64 - 1.0) * 100.0
}
