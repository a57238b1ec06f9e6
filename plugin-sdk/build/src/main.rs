//! `volhost-plugin-build`: the library as a command. See `--help`.
#![forbid(unsafe_code)]

use std::error::Error as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use volhost_plugin_build::publish::Written;
use volhost_plugin_build::toolchain::{DEBIAN_SETUP, Search};
use volhost_plugin_build::{Plugin, Request, build_plugins};

/// Build volhost plugins: Rust crates to WebAssembly components.
///
/// Compiles the crates for wasm32-unknown-unknown, wraps each in a component and writes it as
/// NAME.wasm. A running volhost that watches the folder loads what changed; a plugin that came out
/// the same is not touched.
#[derive(Debug, Parser)]
#[command(version, after_long_help = EXAMPLES)]
struct Arguments {
    /// Crates to build; without any, the crate in the current folder (or of --manifest-path)
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
    /// Folder for the components [default: `plugins` in cargo's target folder]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Cargo.toml of the workspace or crate [default: the one around the current folder]
    #[arg(long, value_name = "FILE")]
    manifest_path: Option<PathBuf>,
    /// Only print the toolchain that would be used
    #[arg(long, conflicts_with_all = ["crates", "out", "manifest_path", "install_debian_target"])]
    check: bool,
    /// Give Debian's own rustc the wasm target, then stop: for networks where `rustup target add`
    /// does not work. As root
    #[arg(long, conflicts_with_all = ["crates", "out", "manifest_path"])]
    install_debian_target: bool,
}

const EXAMPLES: &str = "\
Examples:
  In the folder of a plugin, build it into the folder a volhost watches:
    volhost-plugin-build --out /var/lib/volhost/plugins
  In a workspace, build three plugins at once:
    volhost-plugin-build --out target/plugins empty-dir host-path local
  See what a plugin may ask for:
    volhost plugin inspect target/plugins/local.wasm

The crate must be a cdylib (add rlib to test it natively):
  [lib]
  crate-type = [\"cdylib\", \"rlib\"]

Needs a compiler for the target; these are tried:
  the rustc in use, Debian's rustc, and `rustup target add` (for at most 20 seconds).";

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, String> {
    if arguments.install_debian_target {
        return install_debian_target();
    }
    if arguments.check {
        let toolchain = Search::default().find().map_err(|error| error.to_string())?;
        return print(&format!("{}: {} with {}", toolchain.way, toolchain.cargo.display(), toolchain.rustc.display()));
    }
    let request = Request {
        crates: arguments.crates,
        manifest: arguments.manifest_path,
        out: arguments.out,
        search: Search::default(),
    };
    let plugins = build_plugins(&request).map_err(|error| with_causes(&error))?;
    print(&table(&plugins))
}

/// Runs the script that the library carries, so that an author with nothing but this command has
/// it.
fn install_debian_target() -> Result<ExitCode, String> {
    let status = Command::new("sh")
        .args(["-c", DEBIAN_SETUP, "volhost-plugin-build"])
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("could not start sh: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn with_causes(error: &volhost_plugin_build::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        text.push_str(": ");
        text.push_str(&one.to_string());
        cause = one.source();
    }
    text
}

fn table(plugins: &[Plugin]) -> String {
    let width = plugins.iter().map(|plugin| plugin.name.len()).max().unwrap_or_default();
    let line = |plugin: &Plugin| {
        let note = if plugin.written == Written::Unchanged { "  (unchanged)" } else { "" };
        format!("{:width$}  {:>9}  {}{note}", plugin.name, size(plugin.size), plugin.path.display())
    };
    plugins.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// `bytes` in the unit a reader expects, with one decimal, rounded up so that nothing is ever 0.
fn size(bytes: usize) -> String {
    let tenths = |unit: usize| (bytes.saturating_mul(10)).div_ceil(unit);
    let (value, unit) = if bytes < 1 << 20 { (tenths(1 << 10), "KiB") } else { (tenths(1 << 20), "MiB") };
    format!("{}.{} {unit}", value / 10, value % 10)
}

fn print(text: &str) -> Result<ExitCode, String> {
    writeln!(std::io::stdout(), "{text}").map_err(|error| format!("could not write the answer: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_name_size_path_and_what_did_not_change() {
        let plugin = |name: &str, size, written| Plugin { name: name.into(), path: "t/x.wasm".into(), size, written };
        let text =
            table(&[plugin("empty-dir", 31_557, Written::Changed), plugin("local", 3 << 20, Written::Unchanged)]);
        assert_eq!(text, "empty-dir   30.9 KiB  t/x.wasm\nlocal        3.0 MiB  t/x.wasm  (unchanged)");
    }

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }
}
