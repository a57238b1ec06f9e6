//! Samples of a profile, as `perf script` prints them, and their summary in a page of text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rustc_demangle::demangle;

/// Functions that are listed.
const LISTED: usize = 30;
/// The longest name that is listed, in characters.
const NAME_CHARACTERS: usize = 100;

/// What all functions of a plugin are called: they have numbers, which differ from build to build.
const PLUGIN_CODE: &str = "plugin code";

/// What a sample is part of: a name for people, and what a function of it has in its name. The
/// first part that has a function anywhere in the stack gets the sample, so that a system call
/// counts for what needs it.
const PARTS: [(&str, &[&str]); 6] = [
    ("records", &["volhost_volume_ops::mount_records", "volhost_volume_ops::pod_records"]),
    ("state machine", &["volhost_core::"]),
    ("mounts, folders and checks", &["volhost_kernel::"]),
    ("sandbox", &["volhost_runtime::", "wasmtime::"]),
    ("objects and their resolution", &["volhost_objects::", "volhost_plugin_folder::", "serde_json::"]),
    ("API", &["volhost_api", "tonic::", "hyper::", "h2::"]),
];

/// A function that was running, or waited for one that was.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    name: String,
    place: Place,
}

/// Whose code a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Kernel,
    Libc,
    Program,
    Other,
}

/// Where the processor was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sample {
    thread: String,
    /// The innermost first.
    frames: Vec<Frame>,
}

/// The samples of a profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stacks(Vec<Sample>);

impl Place {
    const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Libc => "libc",
            Self::Program => "volhost and its libraries",
            Self::Other => "plugins, and code without a name",
        }
    }
}

impl Frame {
    /// A line such as `ffffffff81a85ec7 security_inode_free ([kernel.kallsyms])`.
    fn parse(line: &str, program: &str) -> Option<Self> {
        let (address, rest) = line.trim().split_once(' ')?;
        let (symbol, file) = rest.rsplit_once(" (")?;
        let file = file.trim_end_matches(')');
        let place = if address.len() == 16 && address.starts_with("ffff") {
            Place::Kernel
        } else if file.rsplit('/').next() == Some(program) {
            Place::Program
        } else if ["/libc.so", "/ld-linux", "/libgcc_s", "/libm.so", "[vdso]"].iter().any(|name| file.contains(name)) {
            Place::Libc
        } else {
            Place::Other
        };
        // `{:#}` leaves out the hash. A semicolon, as in `[u8; 4]`, separates functions of a folded stack.
        let name = if symbol.starts_with("wasm[") {
            PLUGIN_CODE.to_owned()
        } else {
            format!("{:#}", demangle(symbol)).replace(';', ",")
        };
        Some(Self { name, place })
    }
}

impl Stacks {
    /// Reads what `perf script --no-demangle -F comm,ip,sym,dso` prints about a program: for each
    /// sample a line with the thread's name, a line for each frame after white space, and an empty
    /// line. Other lines are left out.
    pub fn parse(script: &str, program: &str) -> Self {
        let mut samples: Vec<Sample> = Vec::new();
        for line in script.lines() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if !line.starts_with(char::is_whitespace) {
                samples.push(Sample { thread: line.trim().to_owned(), frames: Vec::new() });
            } else if let (Some(sample), Some(frame)) = (samples.last_mut(), Frame::parse(line, program)) {
                sample.frames.push(frame);
            }
        }
        Self(samples)
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// There is no sample.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One line for each different stack, outermost function first, with the number of its samples:
    /// what programs that draw flame graphs read.
    pub fn folded(&self) -> String {
        let mut counts = BTreeMap::<String, usize>::new();
        for sample in &self.0 {
            let names = sample.frames.iter().rev().map(|frame| frame.name.as_str());
            let mut names: Vec<&str> = std::iter::once(sample.thread.as_str()).chain(names).collect();
            names.dedup();
            *counts.entry(names.join(";")).or_default() += 1;
        }
        let mut text = String::new();
        for (stack, count) in counts {
            let _ = writeln!(text, "{stack} {count}");
        }
        text
    }

    /// The shares of threads, of places and of parts, and the functions with the most samples.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let all = self.len();
        let innermost = |sample: &Sample| sample.frames.first().map_or(Place::Other, |frame| frame.place);
        section(&mut text, "Threads", all, self.count(|sample| [sample.thread.clone()].into()), usize::MAX);
        section(
            &mut text,
            "Whose code was running",
            all,
            self.count(|sample| [innermost(sample).name().to_owned()].into()),
            usize::MAX,
        );
        let mut parts = self.count(|sample| [part(sample).to_owned()].into());
        // A part without a sample is listed too: its functions may have other names by now.
        let is_missing = |name: &&str| parts.iter().all(|(known, _)| known != name);
        let missing: Vec<&str> = PARTS.iter().map(|(name, _)| *name).filter(is_missing).collect();
        parts.extend(missing.into_iter().map(|name| (name.to_owned(), 0)));
        let title = "Parts: the first of records, state machine, mounts, sandbox, objects and API that a stack has";
        section(&mut text, title, all, parts, usize::MAX);
        let with_callees = |sample: &Sample| sample.frames.iter().map(|frame| frame.name.clone()).collect();
        section(&mut text, "Functions with what they call", all, self.count(with_callees), LISTED);
        let alone = |sample: &Sample| sample.frames.first().map(|frame| frame.name.clone()).into_iter().collect();
        section(&mut text, "Functions alone", all, self.count(alone), LISTED);
        text
    }

    /// The number of samples by the names that each has.
    fn count(&self, names: impl Fn(&Sample) -> BTreeSet<String>) -> Vec<(String, usize)> {
        let mut counts = BTreeMap::<String, usize>::new();
        for sample in &self.0 {
            for name in names(sample) {
                *counts.entry(name).or_default() += 1;
            }
        }
        let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), name.clone()));
        counts
    }
}

/// The part that a sample belongs to.
fn part(sample: &Sample) -> &'static str {
    let has = |words: &[&str]| sample.frames.iter().any(|frame| words.iter().any(|word| frame.name.contains(word)));
    PARTS.iter().find(|(_, words)| has(words)).map_or("everything else", |(name, _)| name)
}

fn section(text: &mut String, title: &str, all: usize, counts: Vec<(String, usize)>, most: usize) {
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "{title}:");
    for (name, count) in counts.into_iter().take(most) {
        let name: String = name.chars().take(NAME_CHARACTERS).collect();
        #[expect(clippy::cast_precision_loss, reason = "numbers of samples are small")]
        let share = 100.0 * count as f64 / all.max(1) as f64;
        let _ = writeln!(text, "{share:6.1} %  {name}");
    }
}
