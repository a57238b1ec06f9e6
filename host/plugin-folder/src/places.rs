//! Places for work on files that only so many may do at once. Files that the operator or volhost
//! vouches for come first, and small files before large ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Places that only files with a vouched content get, beyond those for all: files of others never
/// keep all places from them.
const RESERVED: usize = 1;

/// Whose turn it is: the lowest rank first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The content neither comes with volhost nor is named in a grant.
    pub(super) is_foreign: bool,
    /// The file's size.
    pub(super) bytes: u64,
}

/// A number of places, and the queue for them.
#[derive(Debug)]
pub(super) struct Places {
    count: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// How many have waited so far: of equal ranks, the first comes first.
    tickets: u64,
    waiting: BTreeMap<(Rank, u64), oneshot::Sender<Place>>,
}

/// A place. Dropping it gives it to the next in the queue.
#[derive(Debug)]
pub(super) struct Place(Arc<Places>);

impl Places {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { count, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place. Cancel-safe: a place that comes too late goes to the next.
    pub(super) async fn take(self: &Arc<Self>, rank: Rank) -> Place {
        loop {
            let place = {
                let mut state = self.lock();
                if self.has_room(&state, rank) {
                    state.taken = state.taken.saturating_add(1);
                    return Place(Arc::clone(self));
                }
                let (sender, place) = oneshot::channel();
                let ticket = state.tickets;
                state.tickets = ticket.saturating_add(1);
                state.waiting.insert((rank, ticket), sender);
                place
            };
            // The sender stays in the queue until it sends.
            if let Ok(place) = place.await {
                return place;
            }
        }
    }

    fn has_room(&self, state: &State, rank: Rank) -> bool {
        let reserved = if rank.is_foreign { 0 } else { RESERVED };
        state.taken < self.count.saturating_add(reserved)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let places = &self.0;
        let mut state = places.lock();
        state.taken = state.taken.saturating_sub(1);
        let mut unwanted = Vec::new();
        while let Some(rank) = state.waiting.first_key_value().map(|((rank, _), _)| *rank)
            && places.has_room(&state, rank)
            && let Some((_, sender)) = state.waiting.pop_first()
        {
            state.taken = state.taken.saturating_add(1);
            if let Err(place) = sender.send(Place(Arc::clone(places))) {
                unwanted.push(place);
            }
        }
        // Dropping a place takes the lock.
        drop(state);
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
        let places = Places::new(1);
        let mut running = pin!(places.take(LARGE));
        let Poll::Ready(running) = running.as_mut().poll(&mut context) else { panic!("a place is free") };
        let (mut large, mut small) = (pin!(places.take(LARGE)), pin!(places.take(SMALL)));
        assert!(large.as_mut().poll(&mut context).is_pending());
        assert!(small.as_mut().poll(&mut context).is_pending());
        let mut ours = pin!(places.take(OURS));
        let Poll::Ready(ours) = ours.as_mut().poll(&mut context) else { panic!("a place is reserved") };
        let mut next = pin!(places.take(OURS));
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
    fn a_place_for_a_file_that_waits_no_more_goes_to_the_next() {
        let mut context = Context::from_waker(Waker::noop());
        let places = Places::new(1);
        let mut running = pin!(places.take(SMALL));
        let Poll::Ready(running) = running.as_mut().poll(&mut context) else { panic!("a place is free") };
        let mut gone = Box::pin(places.take(SMALL));
        assert!(gone.as_mut().poll(&mut context).is_pending());
        let mut next = pin!(places.take(LARGE));
        assert!(next.as_mut().poll(&mut context).is_pending());
        drop(gone);
        drop(running);
        assert!(next.as_mut().poll(&mut context).is_ready());
    }
}
