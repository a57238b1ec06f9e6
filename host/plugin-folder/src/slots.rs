//! Slots that bound how much work on files is done at once. Trusted files (of the operator or of
//! volhost) come first, and small files before large ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Slots for trusted content alone, beyond those for all: other files never occupy all slots.
const RESERVED: usize = 1;

/// Whose turn it is: the lowest rank first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The content neither comes with volhost nor is named in a grant.
    pub(super) is_foreign: bool,
    /// The file's size.
    pub(super) bytes: u64,
}

/// A number of slots, and the queue for them.
#[derive(Debug)]
pub(super) struct Slots {
    count: usize,
    queue: Mutex<SlotQueue>,
}

/// The taken slots and the waiting files.
#[derive(Debug, Default)]
struct SlotQueue {
    taken: usize,
    /// How many have waited so far: of equal ranks, the first comes first.
    tickets: u64,
    waiting: BTreeMap<(Rank, u64), oneshot::Sender<Slot>>,
}

/// A slot. Dropping it gives it to the next in the queue.
#[derive(Debug)]
pub(super) struct Slot(Arc<Slots>);

impl Slots {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { count, queue: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, SlotQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot. Cancel-safe: a slot that comes too late goes to the next.
    pub(super) async fn take(self: &Arc<Self>, rank: Rank) -> Slot {
        loop {
            let slot = {
                let mut queue = self.lock();
                if self.has_room(&queue, rank) {
                    queue.taken = queue.taken.saturating_add(1);
                    return Slot(Arc::clone(self));
                }
                let (sender, slot) = oneshot::channel();
                let ticket = queue.tickets;
                queue.tickets = ticket.saturating_add(1);
                queue.waiting.insert((rank, ticket), sender);
                slot
            };
            // The sender stays in the queue until it sends.
            if let Ok(slot) = slot.await {
                return slot;
            }
        }
    }

    fn has_room(&self, queue: &SlotQueue, rank: Rank) -> bool {
        let reserved = if rank.is_foreign { 0 } else { RESERVED };
        queue.taken < self.count.saturating_add(reserved)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let slots = &self.0;
        let mut queue = slots.lock();
        queue.taken = queue.taken.saturating_sub(1);
        let mut unwanted = Vec::new();
        while let Some(rank) = queue.waiting.first_key_value().map(|((rank, _), _)| *rank)
            && slots.has_room(&queue, rank)
            && let Some((_, sender)) = queue.waiting.pop_first()
        {
            queue.taken = queue.taken.saturating_add(1);
            if let Err(slot) = sender.send(Slot(Arc::clone(slots))) {
                unwanted.push(slot);
            }
        }
        // Dropping a slot takes the lock.
        drop(queue);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const OURS: Rank = Rank { is_foreign: false, bytes: 60 };
    const SMALL: Rank = Rank { is_foreign: true, bytes: 40 };
    const LARGE: Rank = Rank { is_foreign: true, bytes: 4000 };

    #[test]
    fn vouched_files_never_wait_for_others_and_small_ones_come_before_large_ones() {
        let mut context = Context::from_waker(Waker::noop());
        let slots = Slots::new(1);
        let mut running = pin!(slots.take(LARGE));
        let Poll::Ready(running) = running.as_mut().poll(&mut context) else { panic!("a slot is free") };
        let (mut large, mut small) = (pin!(slots.take(LARGE)), pin!(slots.take(SMALL)));
        assert!(large.as_mut().poll(&mut context).is_pending());
        assert!(small.as_mut().poll(&mut context).is_pending());
        let mut ours = pin!(slots.take(OURS));
        let Poll::Ready(ours) = ours.as_mut().poll(&mut context) else { panic!("a slot is reserved") };
        let mut next = pin!(slots.take(OURS));
        assert!(next.as_mut().poll(&mut context).is_pending());

        drop(running);
        let Poll::Ready(next) = next.as_mut().poll(&mut context) else { panic!("it comes first") };
        assert!(small.as_mut().poll(&mut context).is_pending());
        drop((ours, next));
        let Poll::Ready(small) = small.as_mut().poll(&mut context) else { panic!("it is smaller") };
        assert!(large.as_mut().poll(&mut context).is_pending());
        drop(small);
        assert!(large.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_slot_for_a_file_that_waits_no_more_goes_to_the_next() {
        let mut context = Context::from_waker(Waker::noop());
        let slots = Slots::new(1);
        let mut running = pin!(slots.take(SMALL));
        let Poll::Ready(running) = running.as_mut().poll(&mut context) else { panic!("a slot is free") };
        let mut gone = Box::pin(slots.take(SMALL));
        assert!(gone.as_mut().poll(&mut context).is_pending());
        let mut next = pin!(slots.take(LARGE));
        assert!(next.as_mut().poll(&mut context).is_pending());
        drop(gone);
        drop(running);
        assert!(next.as_mut().poll(&mut context).is_ready());
    }
}
