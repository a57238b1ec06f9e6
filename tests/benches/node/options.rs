//! What the command line asks for, and how much is measured.

use std::time::Duration;

use crate::sections::Section;

/// What is expected after `--`.
const USAGE: &str =
    "[--full] [--only SECTION] [--record] [--check], or --profile [--record]; make bench and make profile pass them on";

/// What to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The long forms, too.
    pub full: bool,
    /// One section alone.
    pub only: Option<Section>,
    /// Replaces what is committed: the record and the page's table, or the profile.
    pub record: bool,
    /// Fails if a figure is worse than the recorded one.
    pub check: bool,
    /// Makes a profile instead.
    pub profile: bool,
}

/// How much is measured.
#[derive(Debug)]
pub(crate) struct Sizes {
    /// Pods whose start is timed one by one.
    pub pods: usize,
    /// Pods under one config map that is updated.
    pub payload_pods: usize,
    /// Volumes that are mounted when the daemon is killed.
    pub recovered: usize,
    /// Volumes mounted in the end.
    pub mounts: usize,
    /// How long an idle daemon is watched.
    pub idle: Duration,
    /// Files that get a group.
    pub files: usize,
}

impl Options {
    /// Reads the arguments after the program's name.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Cargo's own.
                "--bench" => {}
                "--full" => options.full = true,
                "--record" => options.record = true,
                "--check" => options.check = true,
                "--profile" => options.profile = true,
                "--only" => options.only = Some(Section::named(&arguments.next().unwrap_or_default())?),
                _ => return Err(format!("unknown argument {argument:?}; expected: {USAGE}")),
            }
        }
        if options.record && options.only.is_some() {
            return Err("the record is of one run of all sections: RECORD=yes does not go with ONLY".to_owned());
        }
        if options.record && cfg!(debug_assertions) {
            return Err("the record is of a release build: use make bench, or make profile, with RECORD=yes".to_owned());
        }
        Ok(options)
    }

    /// How much these options measure.
    pub(crate) fn sizes(&self) -> Sizes {
        let short = Sizes {
            pods: 300,
            payload_pods: 1000,
            recovered: 10_000,
            mounts: 10_000,
            idle: Duration::from_secs(10),
            files: 100_000,
        };
        if self.full {
            Sizes { mounts: 40_000, idle: Duration::from_secs(60), files: 1_000_000, ..short }
        } else {
            short
        }
    }
}
