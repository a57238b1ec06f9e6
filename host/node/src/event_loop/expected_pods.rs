//! Callers that wait for a pod that no source has named yet: its manifest may be on its way.
#![deny(clippy::disallowed_methods)]

use std::time::Duration;

use tokio::time::Instant;
use volhost_core::Event;

use super::lookup::named_pod;
use super::reply::{deadline_after, reply};
use super::requests::{PodSelector, RequestError};
use super::sources::Sources;
use super::world::{WaitAnswer, World};

/// Callers that wait for a pod that no source has named yet.
#[derive(Debug, Default)]
pub(super) struct ExpectedPods(Vec<ExpectedPod>);

#[derive(Debug)]
struct ExpectedPod {
    pod: PodSelector,
    deadline: Instant,
    answer: WaitAnswer,
}

impl ExpectedPods {
    /// Waits until the volumes of a pod are mounted, from the moment when a source names the pod.
    pub(super) fn wait_mounted(
        &mut self,
        pod: PodSelector,
        timeout: Duration,
        answer: WaitAnswer,
        world: &mut World,
        sources: &Sources,
    ) {
        match named_pod(world, sources, &pod) {
            Ok(uid) => world.wait(timeout, answer, |waiter, deadline| Event::WaitMounted { waiter, uid, deadline }),
            Err(RequestError::UnknownPod(_)) => {
                self.0.push(ExpectedPod { pod, deadline: deadline_after(timeout), answer });
            }
            Err(error) => reply(answer, Err(error)),
        }
    }

    /// Returns when the first caller gives up.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.0.iter().map(|expected| expected.deadline).min()
    }

    /// Lets the callers whose pod has been named wait for its volumes.
    pub(super) fn pods_named(&mut self, world: &mut World, sources: &Sources) {
        for ExpectedPod { pod, deadline, answer } in std::mem::take(&mut self.0) {
            match named_pod(world, sources, &pod) {
                Ok(uid) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    world.wait(left, answer, |waiter, deadline| Event::WaitMounted { waiter, uid, deadline });
                }
                Err(_) => self.0.push(ExpectedPod { pod, deadline, answer }),
            }
        }
    }

    /// Answers the callers whose pod has not been named in time.
    pub(super) fn give_up(&mut self, world: &World, sources: &Sources) {
        let now = Instant::now();
        for expected in std::mem::take(&mut self.0) {
            if expected.deadline <= now {
                let error = named_pod(world, sources, &expected.pod).err().unwrap_or(RequestError::Stopping);
                reply(expected.answer, Err(error));
            } else if !expected.answer.is_closed() {
                self.0.push(expected);
            }
        }
    }
}
