//! The machine and the compiler of a run.

use std::fmt;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// What figures depend on beside the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name, as `/proc/cpuinfo` has it.
    pub cpu: String,
    /// The processors that a process may use.
    pub processors: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The compiler's version.
    pub rustc: String,
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: name.trim_start_matches([' ', '\t', ':']).to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            rustc: output("rustc", &["--version"]),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} processors, Linux {}, {}", self.cpu, self.processors, self.kernel, self.rustc)
    }
}

/// What a program prints; nothing if it is missing or fails.
pub(super) fn output(program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program).args(arguments).current_dir(crate::artifacts::workspace()).output();
    let text = run.ok().filter(|run| run.status.success()).map(|run| run.stdout);
    String::from_utf8_lossy(&text.unwrap_or_default()).trim().to_owned()
}
