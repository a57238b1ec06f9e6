//! The last operations that have ended, for the timelines of pods.

use std::collections::VecDeque;

use volhost_model::Failure;
use volhost_model::text::shorten;
use volhost_model::view::PastOperationView;

/// The number of operations in memory: with the longest messages, about 2 MB.
const CAPACITY: usize = 4_096;
/// Characters of a failure's message. The event of the failure has the whole one.
const MESSAGE_CHARS: usize = 300;

/// A bounded list of operations, oldest first. The oldest are dropped first.
#[derive(Debug, Default)]
pub(super) struct OperationHistory(VecDeque<PastOperationView>);

impl OperationHistory {
    /// Adds an operation that has ended.
    pub(super) fn add(&mut self, mut operation: PastOperationView) {
        if let Some(failure) = &mut operation.failure {
            let message = shorten(&failure.message, MESSAGE_CHARS);
            *failure = Failure { message, ..failure.clone() };
        }
        if self.0.len() >= CAPACITY {
            self.0.pop_front();
        }
        self.0.push_back(operation);
    }

    /// All operations, oldest first.
    pub(super) fn all(&self) -> Vec<PastOperationView> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use volhost_model::FailureClass;

    use super::*;

    fn operation(began: u64, message: &str) -> PastOperationView {
        PastOperationView {
            name: "volume_mount".into(),
            volume: "a.b/c/d".into(),
            pod: "a/b".into(),
            plugin: "a.b/c".into(),
            began,
            ended: began,
            failure: Some(Failure::new(FailureClass::Final, "step", message)),
        }
    }

    #[test]
    fn memory_is_bounded_by_number_and_length() {
        let mut history = OperationHistory::default();
        for began in 0..=CAPACITY as u64 {
            history.add(operation(began, &"x".repeat(100_000)));
        }
        let all = history.all();
        assert_eq!((all.len(), all.first().map(|one| one.began)), (CAPACITY, Some(1)));
        let message = &all.last().unwrap().failure.as_ref().unwrap().message;
        assert!(message.chars().count() <= MESSAGE_CHARS + 3, "{}", message.len());
    }
}
