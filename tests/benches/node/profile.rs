//! Where the processor time of 10,000 hostPath volumes goes: `make profile`. Needs `perf`.
//!
//! Prints a summary, and writes it to `target/profile.txt`, or to docs/profile.txt with
//! `RECORD=yes`. `target/profile.folded` has the stacks for programs that draw flame graphs; if
//! `inferno-flamegraph` is installed, `target/profile.svg` is one.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use volhost_tests::artifacts::workspace;
use volhost_tests::benchmark::{Machine, Stacks};

use crate::daemon::Daemon;
use crate::options::Options;
use crate::outcome::target;
use crate::scale::{PODS_A_REQUEST, VOLUMES_A_POD, manifest};

const VOLUMES: usize = 10_000;
/// Volumes that are mounted before, so that what happens once is not in the profile.
const BEFORE: usize = 1_000;
/// Samples a second. No timer has this period, so that none is met always at the same moment.
const SAMPLES_A_SECOND: &str = "3989";

/// Samples a process until it is stopped.
struct Perf {
    process: Child,
    file: PathBuf,
}

impl Perf {
    /// Returns when perf samples.
    fn start(pid: u32, file: PathBuf) -> Result<Self, String> {
        let mut command = Command::new("perf");
        command.args(["record", "--event", "cpu-clock", "--call-graph", "fp", "--freq", SAMPLES_A_SECOND]);
        // It begins with nothing enabled, and answers when it has done what is asked of it.
        command.args(["--delay", "-1", "--control", "fd:0,1", "--pid", &pid.to_string(), "--output"]).arg(&file);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command
            .spawn()
            .map_err(|error| format!("perf does not run: {error}. The Debian package linux-perf has it"))?;
        let asked = process.stdin.as_mut().expect("it is piped").write_all(b"enable\n");
        let mut answer = String::new();
        let read = BufReader::new(process.stdout.as_mut().expect("it is piped")).read_line(&mut answer);
        if asked.is_err() || read.is_err() || !answer.starts_with("ack") {
            let _ = process.kill();
            let _ = process.wait();
            return Err("perf refuses, see above: it needs root, and kernel.perf_event_paranoid below 3".to_owned());
        }
        Ok(Self { process, file })
    }

    /// Ends it and returns its samples.
    fn stop(mut self, program: &str) -> Result<Stacks, String> {
        let sent = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        self.process.wait().map_err(|error| error.to_string())?;
        if !sent.is_ok_and(|status| status.success()) {
            return Err("perf has ended before the volumes were mounted".to_owned());
        }
        let fields = "comm,ip,sym,dso";
        let script = Command::new("perf")
            .args(["script", "--no-inline", "--no-demangle", "--fields", fields, "--input"])
            .arg(&self.file)
            .stderr(Stdio::null())
            .output()
            .map_err(|error| format!("perf script does not run: {error}"))?;
        let stacks = Stacks::parse(&String::from_utf8_lossy(&script.stdout), program);
        if stacks.is_empty() { Err("perf has taken no sample".to_owned()) } else { Ok(stacks) }
    }
}

/// Makes the profile and prints its summary.
pub(crate) async fn run(options: &Options, scratch: &Path) -> ExitCode {
    let written = match profile(scratch).await {
        Ok(stacks) => write(options, &stacks),
        Err(error) => Err(error),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("profile: {error}.");
            ExitCode::FAILURE
        }
    }
}

async fn profile(scratch: &Path) -> Result<Stacks, String> {
    let source = scratch.join("source");
    std::fs::create_dir(&source).expect("a folder");
    let folder = scratch.join("node");
    std::fs::create_dir(&folder).expect("a folder");
    let mut daemon = Daemon::start(&folder).await;
    mount(&mut daemon, 0, BEFORE, &source).await;
    let perf = Perf::start(daemon.pid(), target().join("profile.data"))?;
    mount(&mut daemon, BEFORE, VOLUMES, &source).await;
    let stacks = perf.stop("volhostd")?;
    daemon.drain().await;
    daemon.end().await;
    Ok(stacks)
}

/// Mounts so many volumes after the first ones.
async fn mount(daemon: &mut Daemon, first: usize, count: usize, source: &Path) {
    for mounted in (first..first + count).step_by(PODS_A_REQUEST * VOLUMES_A_POD) {
        let text = manifest(mounted / VOLUMES_A_POD, PODS_A_REQUEST, &source.display().to_string());
        for uid in daemon.add(text).await {
            daemon.wait_mounted(&uid).await;
        }
    }
}

fn write(options: &Options, stacks: &Stacks) -> Result<(), String> {
    let build = if cfg!(debug_assertions) { "development" } else { "release" };
    let mut text = String::new();
    let _ = writeln!(text, "{VOLUMES} hostPath volumes of {} pods are mounted:", VOLUMES / VOLUMES_A_POD);
    let _ = writeln!(text, "{} samples, {SAMPLES_A_SECOND} in a second of processor time.", stacks.len());
    let _ = writeln!(text, "{}, {build} build. `make profile RECORD=yes` writes this.\n", Machine::this());
    text.push_str(&stacks.summary());
    print!("{text}");
    let at = target();
    let file = if options.record { workspace().join("docs/profile.txt") } else { at.join("profile.txt") };
    let folded = at.join("profile.folded");
    for (file, text) in [(&file, &text), (&folded, &stacks.folded())] {
        std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        eprintln!("Written: {}", file.display());
    }
    draw(&folded, &at.join("profile.svg"))
}

/// Draws a flame graph if the program for it is installed.
fn draw(folded: &Path, svg: &Path) -> Result<(), String> {
    let out = File::create(svg).map_err(|error| format!("{}: {error}", svg.display()))?;
    match Command::new("inferno-flamegraph").arg(folded).stdout(out).status() {
        Ok(status) if status.success() => {
            eprintln!("Written: {}", svg.display());
            Ok(())
        }
        Ok(status) => Err(format!("inferno-flamegraph: {status}")),
        Err(_) => {
            eprintln!("No flame graph: `cargo install inferno` has the program for it, inferno-flamegraph.");
            std::fs::remove_file(svg).map_err(|error| format!("{}: {error}", svg.display()))
        }
    }
}
