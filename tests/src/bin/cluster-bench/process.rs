//! What processes take, as /proc shows it.

use std::fs;
use std::time::Duration;

/// Processor time until now, and memory now.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) resident_mib: f64,
}

impl Usage {
    /// The sum over these processes, each with all its threads.
    pub(crate) fn of(processes: &[u32]) -> Self {
        Self {
            cpu: processes.iter().map(|process| cpu(*process)).sum(),
            resident_mib: processes.iter().map(|process| resident_mib(*process)).sum(),
        }
    }
}

/// `stat` counts the threads that have ended, too, in hundredths of a second.
fn cpu(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("the process lives");
    // After the name, which is in parentheses, utime and stime are the 12th and the 13th field.
    let fields = stat.rsplit_once(')').expect("a stat line").1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

fn resident_mib(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process lives");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a VmRSS line");
    let kib: f64 = line.split_whitespace().nth(1).expect("a figure").parse().expect("a number");
    kib / 1024.0
}
