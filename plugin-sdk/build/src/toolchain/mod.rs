//! Finding a compiler that knows the wasm target.
//!
//! There are three ways, tried in this order; each counts only if it really compiles and links a
//! tiny library:
//!
//! | way | needs |
//! |---|---|
//! | the rustc in use | the target, installed earlier |
//! | Debian's rustc | [`DEBIAN_SETUP`], run once as root |
//! | `rustup target add` | a network that lets rustup through |
//!
//! Local ways come first: where the network drops rustup's requests, trying it first would cost its
//! whole deadline at every build.

mod probe;
mod rustup;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{TARGET, environment};

/// The shell script that gives Debian's rustc the target. Idempotent, prints what it does, needs
/// root.
pub const DEBIAN_SETUP: &str = include_str!("../../debian-wasm-target.sh");

/// How long `rustup target add` may take. The download is 20 MB; a network that refuses is often
/// silent.
const RUSTUP_DEADLINE: Duration = Duration::from_secs(20);

/// A way to a compiler for [`TARGET`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The rustc that everything else is built with has the target.
    Current,
    /// Debian's rustc has it.
    Debian,
    /// rustup added it to the rustc in use, just now.
    Rustup,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "the rustc in use",
            Self::Debian => "Debian's rustc",
            Self::Rustup => "rustup target add",
        })
    }
}

/// A cargo and a rustc that together compile for [`TARGET`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// The way it was found.
    pub way: Way,
    /// The cargo to call.
    pub cargo: PathBuf,
    /// The rustc that cargo must use.
    pub rustc: PathBuf,
}

impl Toolchain {
    /// Makes `command`, a call of [`Self::cargo`] or [`Self::rustc`], use this toolchain whatever
    /// surrounds us.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env("RUSTC", &self.rustc);
        if self.way == Way::Debian {
            // Set by rustup and cargo for the toolchain we run under, which is not the one we call.
            command.env_remove("RUSTUP_TOOLCHAIN").env_remove("LD_LIBRARY_PATH");
        }
    }
}

/// Where to look. Only tests need another than [`Search::default`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// The cargo in use.
    pub cargo: PathBuf,
    /// The rustc in use.
    pub rustc: PathBuf,
    /// rustup.
    pub rustup: PathBuf,
    /// Debian's cargo.
    pub debian_cargo: PathBuf,
    /// Debian's rustc.
    pub debian_rustc: PathBuf,
    /// How long rustup may take; zero means it is not asked.
    pub rustup_deadline: Duration,
}

impl Default for Search {
    fn default() -> Self {
        let tool = |name: &str, variable| environment::value_of(variable).map_or_else(|| name.into(), PathBuf::from);
        Self {
            cargo: tool("cargo", "CARGO"),
            rustc: tool("rustc", "RUSTC"),
            rustup: "rustup".into(),
            debian_cargo: "/usr/bin/cargo".into(),
            debian_rustc: "/usr/bin/rustc".into(),
            rustup_deadline: RUSTUP_DEADLINE,
        }
    }
}

/// A way that does not work on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// The way.
    pub way: Way,
    /// The reason, in the words of the tool that failed.
    pub reason: String,
}

/// No way works.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "found no compiler for {TARGET}:{}\nEither run `rustup target add {TARGET}` where the network allows it, or, on \
     Debian, run as root: volhost-plugin-build --install-debian-target",
    list(.0)
)]
pub struct NoToolchain(
    /// Every way that was tried, in order.
    pub Vec<Dead>,
);

fn list(dead: &[Dead]) -> String {
    dead.iter().enumerate().map(|(at, one)| format!("\n  {}. {}: {}", at + 1, one.way, one.reason)).collect()
}

impl Search {
    /// Tries the ways in order and returns the first that compiles.
    ///
    /// Takes about 0.1 s where the target is installed; at most [`Self::rustup_deadline`] longer
    /// where it is not.
    ///
    /// # Errors
    /// When none does: every way with the reason of its failure.
    pub fn find(&self) -> Result<Toolchain, NoToolchain> {
        let mut dead = Vec::new();
        for (way, attempt) in [
            (Way::Current, Self::current as fn(&Self) -> Result<Toolchain, String>),
            (Way::Debian, Self::debian),
            (Way::Rustup, Self::rustup),
        ] {
            match attempt(self) {
                Ok(toolchain) => return Ok(toolchain),
                Err(reason) => dead.push(Dead { way, reason }),
            }
        }
        Err(NoToolchain(dead))
    }

    fn current(&self) -> Result<Toolchain, String> {
        let toolchain = Toolchain { way: Way::Current, cargo: self.cargo.clone(), rustc: self.rustc.clone() };
        probe::compiles(&toolchain).map(|()| toolchain)
    }

    fn debian(&self) -> Result<Toolchain, String> {
        for tool in [&self.debian_rustc, &self.debian_cargo] {
            if !tool.exists() {
                return Err(format!("{} is not installed", tool.display()));
            }
        }
        let toolchain =
            Toolchain { way: Way::Debian, cargo: self.debian_cargo.clone(), rustc: self.debian_rustc.clone() };
        probe::compiles(&toolchain).map(|()| toolchain)
    }

    fn rustup(&self) -> Result<Toolchain, String> {
        if self.rustup_deadline.is_zero() {
            return Err("not asked".to_owned());
        }
        rustup::add_target(&self.rustup, self.rustup_deadline)?;
        let toolchain = Toolchain { way: Way::Rustup, cargo: self.cargo.clone(), rustc: self.rustc.clone() };
        match probe::compiles(&toolchain) {
            Ok(()) => Ok(toolchain),
            Err(reason) => Err(format!("added the target, but {} is not rustup's: {reason}", self.rustc.display())),
        }
    }
}

/// The last output of a failed tool, on one short line.
fn last_words(output: &[u8]) -> String {
    /// In characters; a linker's complaint can fill pages.
    const LONGEST: usize = 300;
    let text = String::from_utf8_lossy(output);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // Compilers put the cause first ("error: ..."), downloaders last.
    let line = lines.iter().find(|line| line.starts_with("error")).or(lines.last()).copied().unwrap_or("no message");
    line.chars().take(LONGEST).collect()
}

fn start_failed(tool: &Path, error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        return format!("{} is not installed", tool.display());
    }
    format!("could not start {}: {error}", tool.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_every_way_and_the_way_out() {
        let dead = |way, reason: &str| Dead { way, reason: reason.to_owned() };
        let text =
            NoToolchain(vec![dead(Way::Current, "no std"), dead(Way::Debian, "absent"), dead(Way::Rustup, "silent")])
                .to_string();
        for words in
            ["1. the rustc in use: no std", "2. Debian's rustc: absent", "3. rustup target add: silent", "as root"]
        {
            assert!(text.contains(words), "'{words}' is missing in: {text}");
        }
    }

    #[test]
    fn a_compilers_cause_is_preferred_to_its_last_line() {
        let said =
            b"error[E0463]: can't find crate for `std`\n  = note: the target may not be installed\n\nFor more, see\n";
        assert_eq!(last_words(said), "error[E0463]: can't find crate for `std`");
        assert_eq!(last_words(b"info: downloading\ntimed out\n"), "timed out");
        assert_eq!(last_words(b""), "no message");
    }
}
