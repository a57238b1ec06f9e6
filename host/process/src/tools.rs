//! The programs that make, check and recognise file systems, run for the kernel.

use std::io;
use std::sync::Arc;

use volhost_kernel::LinuxKernel;
use volhost_kernel::tools::{RunTool, ToolOutput, ToolRun};

use crate::program::Program;
use crate::run::{Overflow, RunBounds, RunEnd};

/// Runs the kernel's file system tools as bounded programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tools;

/// The kernel of this machine, with programs that make and check file systems.
#[must_use]
pub fn linux_kernel() -> LinuxKernel {
    LinuxKernel::new(Arc::new(Tools))
}

impl RunTool for Tools {
    fn run(&self, run: &ToolRun<'_>) -> io::Result<ToolOutput> {
        let mut program = Program::new(run.program).with_arguments(run.arguments);
        for (name, value) in run.environment {
            program = program.with_variable(name, value);
        }
        let ran = program.run(RunBounds::new(run.deadline, Overflow::Dropped { after: run.kept_bytes }))?;
        let status = match ran.end {
            RunEnd::Exited(status) => Some(status),
            RunEnd::TimedOut | RunEnd::WroteTooMuch | RunEnd::Stopped => None,
        };
        Ok(ToolOutput { status, stdout: ran.stdout, stderr: ran.stderr })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal};

    use super::*;

    const LONG: Duration = Duration::from_secs(180);
    const KEPT_BYTES: usize = 64 << 10;
    /// In milliseconds. Each is tried if the program has not come far at the one before.
    const DEADLINES: [u64; 4] = [300, 1_000, 5_000, 30_000];

    fn shell(script: &str, deadline: Duration) -> ToolOutput {
        let arguments = ["-c".as_ref(), script.as_ref()];
        let environment = [("PATH", "/usr/bin:/bin")];
        let program = Path::new("/bin/sh");
        let run =
            ToolRun { program, arguments: &arguments, environment: &environment, deadline, kept_bytes: KEPT_BYTES };
        Tools.run(&run).unwrap()
    }

    #[test]
    fn a_tool_has_no_input_and_no_other_environment() {
        let ended = shell("cat; echo \"$HOME$USER$PATH\"", LONG);
        assert_eq!(ended.stdout, b"/usr/bin:/bin\n");
    }

    #[test]
    fn endless_output_is_cut_and_does_not_hang() {
        let ended = shell("head -c 1000000 /dev/zero", LONG);
        assert_eq!((ended.status.and_then(|status| status.code()), ended.stdout.len()), (Some(0), KEPT_BYTES));
    }

    #[test]
    fn at_the_deadline_a_tool_and_its_children_end() {
        let started = Instant::now();
        // A busy machine may not even have begun the program at a short deadline.
        let group: i32 = DEADLINES
            .into_iter()
            .find_map(|deadline| {
                let ended = shell("echo $$; sleep 1000 & sleep 1000", Duration::from_millis(deadline));
                assert_eq!(ended.status, None);
                String::from_utf8(ended.stdout).unwrap().trim().parse().ok()
            })
            .unwrap();
        assert!(started.elapsed() < LONG, "it was not waited for");
        // A grandchild is killed with it, and dies when it gets to run. A zombie, until its new
        // parent collects it, is dead.
        while has_living_member(group) {
            assert!(started.elapsed() < LONG, "a child lives on");
            std::thread::yield_now();
        }
    }

    fn has_living_member(group: i32) -> bool {
        let stats = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path().join("stat")).ok());
        stats.into_iter().any(|stat| {
            let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
            fields[2] == group.to_string() && fields[0] != "Z" && fields[0] != "X"
        })
    }

    #[test]
    fn a_child_that_keeps_the_output_open_is_not_waited_for() {
        let ended = shell("echo done; sleep 1000 >&1 & echo $!", LONG);
        let child = String::from_utf8(ended.stdout).unwrap().lines().last().unwrap().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    }
}
