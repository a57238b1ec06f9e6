//! What host calls may use up: per call of the plugin, and, for what stays behind, per volume.
//!
//! The plugin's deadline counts the plugin's own code and excludes time in host calls, because slow
//! storage is not the plugin's fault. This budget bounds the host's side instead. Each host call is
//! charged its real time up to [`Limits::host_time_charged`]: a `mkfs` or a request to a driver
//! that takes minutes costs a tenth of a second of the budget and keeps its own deadline, while
//! thousands of short calls add up.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::abort::Abort;
use crate::limits::Limits;

/// The use of one volume so far, over all calls that set it up. The daemon keeps it until the
/// volume is torn down.
#[derive(Debug, Default)]
pub struct VolumeAccount {
    folders: AtomicU32,
}

impl VolumeAccount {
    /// Returns whether nothing was charged to it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.folders.load(Ordering::Relaxed) == 0
    }

    /// Charges new folders; false if they exceed `limit`, and then nothing is charged.
    fn charge_folders(&self, count: u32, limit: u32) -> bool {
        let charged = |charged: u32| charged.checked_add(count).filter(|sum| *sum <= limit);
        self.folders.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged).is_ok()
    }
}

/// The remaining budget for the host calls of one call.
#[derive(Debug)]
pub(crate) struct Budget {
    calls: u32,
    changes: u32,
    time: Duration,
    folders: u32,
    files: usize,
    bytes: usize,
    limits: Limits,
}

impl Budget {
    /// The budget of one call.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            calls: limits.host_calls,
            changes: limits.host_changes,
            time: limits.host_time,
            folders: limits.call_folders,
            files: limits.written_files,
            bytes: limits.written_bytes,
            limits: limits.clone(),
        }
    }

    /// Charges a host call.
    pub(crate) fn charge_call(&mut self) -> Result<(), Abort> {
        let limit = self.limits.host_calls;
        take(&mut self.calls, 1, || format!("more host calls than it may make ({limit})"))
    }

    /// Charges a host call that changes something on the node.
    pub(crate) fn charge_change(&mut self) -> Result<(), Abort> {
        let limit = self.limits.host_changes;
        take(&mut self.changes, 1, || format!("more than {limit} host calls that change something"))
    }

    /// Refuses the next host call once the time of earlier ones is used up.
    pub(crate) fn check_time(&self) -> Result<(), Abort> {
        if self.time.is_zero() {
            return Err(Abort::limit(format!("more than {} s in host calls", self.limits.host_time.as_secs())));
        }
        Ok(())
    }

    /// Charges the time of a host call that has ended.
    pub(crate) fn charge_time(&mut self, elapsed: Duration) {
        self.time = self.time.saturating_sub(elapsed.min(self.limits.host_time_charged));
    }

    /// Charges folders that a host call is about to make.
    pub(crate) fn charge_folders(&mut self, count: usize) -> Result<(), Abort> {
        let limit = self.limits.call_folders;
        take(&mut self.folders, fit(count), || format!("more than {limit} new folders in one call"))
    }

    /// Charges folders that a host call is about to make inside the volume, to the call and to the
    /// volume.
    pub(crate) fn charge_volume_folders(&mut self, account: &VolumeAccount, count: usize) -> Result<(), Abort> {
        self.charge_folders(count)?;
        let limit = self.limits.volume_folders;
        if account.charge_folders(fit(count), limit) {
            return Ok(());
        }
        Err(Abort::limit(format!("more than {limit} new folders in one volume")))
    }

    /// Charges files, and the bytes in them, that a host call is about to write.
    pub(crate) fn charge_written(&mut self, files: usize, bytes: usize) -> Result<(), Abort> {
        let Limits { written_files, written_bytes, .. } = self.limits;
        match (self.files.checked_sub(files), self.bytes.checked_sub(bytes)) {
            (Some(files), Some(bytes)) => {
                (self.files, self.bytes) = (files, bytes);
                Ok(())
            }
            (None, _) => Err(Abort::limit(format!("more than {written_files} files written in one call"))),
            (_, None) => Err(Abort::limit(format!("more than {written_bytes} bytes written in one call"))),
        }
    }
}

fn take(left: &mut u32, count: u32, what: impl FnOnce() -> String) -> Result<(), Abort> {
    *left = left.checked_sub(count).ok_or_else(|| Abort::limit(what()))?;
    Ok(())
}

/// A count as the budget has it; what does not fit is beyond every limit.
fn fit(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_short_host_calls_use_the_time_up_and_one_long_call_does_not() {
        let limits = Limits { host_time: Duration::from_secs(2), ..Limits::default() };
        let mut budget = Budget::new(&limits);
        budget.charge_time(Duration::from_secs(3600));
        assert!(budget.check_time().is_ok(), "a format that takes an hour is one long step");
        for _ in 0..1900 {
            assert!(budget.check_time().is_ok());
            budget.charge_time(Duration::from_millis(1));
        }
        let refused = budget.check_time().map_err(|abort| abort.to_string());
        assert_eq!(refused, Err("it used more than 2 s in host calls".to_owned()));
    }

    #[test]
    fn what_one_call_leaves_to_a_volume_counts_for_the_next_call() {
        let limits = Limits { call_folders: 10, volume_folders: 15, ..Limits::default() };
        let account = VolumeAccount::default();
        assert!(Budget::new(&limits).charge_volume_folders(&account, 10).is_ok());
        assert!(Budget::new(&limits).charge_volume_folders(&account, 11).is_err(), "the bound of one call");
        assert!(Budget::new(&limits).charge_volume_folders(&account, 6).is_err(), "the bound of the volume");
        assert!(Budget::new(&limits).charge_volume_folders(&account, 5).is_ok());
        assert!(Budget::new(&limits).charge_volume_folders(&VolumeAccount::default(), 5).is_ok(), "another volume");
    }

    #[test]
    fn written_files_and_bytes_are_bounded() {
        let limits = Limits { written_files: 3, written_bytes: 100, ..Limits::default() };
        let mut budget = Budget::new(&limits);
        assert!(budget.charge_written(2, 60).is_ok());
        assert!(budget.charge_written(2, 0).is_err());
        assert!(budget.charge_written(1, 60).is_err());
        assert!(budget.charge_written(1, 40).is_ok());
    }
}
