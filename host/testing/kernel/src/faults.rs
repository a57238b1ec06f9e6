//! Faults to order: a step that fails, by name or by count.

use volhost_kernel::{Errno, Step};

/// The faults that wait, and the steps that were taken.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Each fails the next step of its name, once.
    pub(super) named: Vec<(Step, Errno)>,
    /// Fails the step after this many others, once.
    pub(super) counted: Option<(usize, Errno)>,
    /// Fails every step after this many others, as the end of the process does.
    pub(super) crash: Option<(usize, Errno)>,
    /// Every step so far, in order.
    pub(super) taken: Vec<Step>,
}

impl Faults {
    /// Takes a step, or fails it as ordered.
    pub(super) fn take(&mut self, step: Step) -> Result<(), Errno> {
        self.taken.push(step);
        if let Some((left, errno)) = self.counted {
            if left == 0 {
                self.counted = None;
                return Err(errno);
            }
            self.counted = Some((left - 1, errno));
        }
        if let Some((left, errno)) = self.crash {
            if left == 0 {
                return Err(errno);
            }
            self.crash = Some((left - 1, errno));
        }
        match self.named.iter().position(|(named, _)| *named == step) {
            Some(at) => Err(self.named.remove(at).1),
            None => Ok(()),
        }
    }
}
