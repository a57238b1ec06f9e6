//! Answers callers that wait for a pod's volumes. Each is answered once: when its condition is met,
//! when it cannot be met any more, or at its deadline, and then with the cause for every volume
//! that does not meet it.

use volhost_model::names::PodUid;

use super::{Core, Turn};
use crate::command::{CoreCommand, WaitFailure};
use crate::event::{Time, WaiterId};
use crate::identity::PodId;
use crate::waiters::{WaitCondition, Waiter};

impl Core {
    pub(super) fn wait(
        &mut self,
        id: WaiterId,
        uid: &PodUid,
        condition: WaitCondition,
        deadline: Time,
        turn: &mut Turn,
    ) {
        // The pod may be unknown, and may become known while the caller waits.
        let uid = self.pod_names.id(uid);
        turn.changed_pods.insert(uid.clone());
        self.waiters.insert(id, Waiter { uid, condition, deadline });
    }

    /// Answers those whose condition is met, or cannot be met any more.
    pub(super) fn answer_waiters_of(&mut self, uid: &PodId, turn: &mut Turn) {
        for (waiter, condition) in self.waiters.of_pod(uid) {
            let result = match condition {
                WaitCondition::Mounted if self.is_ready(uid) => Ok(()),
                WaitCondition::Mounted if !self.is_desired(uid) => Err(self.wait_failure(uid, condition, false)),
                WaitCondition::Unmounted if !self.actual.has_mounts_of(uid) => Ok(()),
                _ => continue,
            };
            self.waiters.remove(waiter);
            turn.commands.push(CoreCommand::Answer { waiter, result });
        }
    }

    /// Answers those whose deadline has passed.
    pub(super) fn answer_overdue_waiters(&mut self, turn: &mut Turn) {
        while let Some((waiter, uid, condition)) = self.waiters.pop_expired(self.now) {
            let result = Err(self.wait_failure(&uid, condition, true));
            turn.commands.push(CoreCommand::Answer { waiter, result });
        }
    }

    fn wait_failure(&self, uid: &PodId, condition: WaitCondition, timed_out: bool) -> WaitFailure {
        let unknown_pod = condition == WaitCondition::Mounted && !self.draining && !self.is_desired(uid);
        WaitFailure { pod: self.pod_name(uid), timed_out, unknown_pod, volumes: self.statuses(uid, condition) }
    }
}
