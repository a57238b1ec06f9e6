//! The open connections of the metrics listener, and which of them is closed for a new one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// A bounded number of connections.
#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    undisturbed: Undisturbed,
    open: Mutex<OpenConnections>,
    /// A connection has ended.
    ended: Notify,
}

/// How long an exchange that has begun keeps its connection although others wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Undisturbed {
    /// When none was closed for another lately.
    pub(super) usually: Duration,
    /// Shortly after another was closed: more than one waits then.
    pub(super) in_a_crowd: Duration,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// When an exchange was cut last.
    cut: Option<Instant>,
    /// In the order in which they came.
    connections: BTreeMap<u64, OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    since: Instant,
    asked: Arc<AtomicBool>,
    cut: CancellationToken,
}

/// One connection's place; dropping it gives the place back.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    id: u64,
    connections: Arc<Connections>,
    asked: Arc<AtomicBool>,
    cut: CancellationToken,
}

impl ConnectionSlot {
    /// Notes that a whole request has arrived.
    pub(super) fn asked(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked)
    }

    /// Waits until another connection needs the place.
    pub(super) async fn wanted(&self) {
        self.cut.cancelled().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.lock().connections.remove(&self.id);
        self.connections.ended.notify_one();
    }
}

impl Connections {
    /// At most `most`; an exchange that has begun keeps its connection for the time `undisturbed`
    /// although others wait.
    pub(super) fn new(most: usize, undisturbed: Undisturbed) -> Arc<Self> {
        Arc::new(Self { most, undisturbed, open: Mutex::default(), ended: Notify::new() })
    }

    /// A place for a new connection. If all are taken, the oldest connection that has not sent a
    /// request is cut; without one, the oldest of all once its undisturbed time is over.
    ///
    /// Cancel-safe: dropped, it may have cut a connection, and takes no place.
    pub(super) async fn place(self: &Arc<Self>) -> ConnectionSlot {
        loop {
            let wait = match self.try_place() {
                Ok(place) => return place,
                Err(until) => until,
            };
            // Either a place is free then, or the oldest connection may be cut.
            let _ = timeout_at(wait, self.ended.notified()).await;
        }
    }

    fn try_place(self: &Arc<Self>) -> Result<ConnectionSlot, Instant> {
        let mut open = self.lock();
        if open.connections.len() >= self.most {
            let idle = open.connections.iter().find(|(_, found)| !found.asked.load(Ordering::Relaxed));
            let oldest = idle.is_none().then(|| open.connections.first_key_value()).flatten();
            let now = Instant::now();
            let crowded = open.cut.is_some_and(|cut| now < cut + self.undisturbed.usually);
            let undisturbed = if crowded { self.undisturbed.in_a_crowd } else { self.undisturbed.usually };
            let given_up = match (idle, oldest) {
                (Some((id, _)), _) => Some(*id),
                (None, Some((_, found))) if now < found.since + undisturbed => {
                    return Err(found.since + undisturbed);
                }
                (None, oldest) => oldest.map(|(id, _)| *id),
            };
            if idle.is_none() {
                open.cut = Some(now);
            }
            if let Some(cut) = given_up.and_then(|id| open.connections.remove(&id)) {
                cut.cut.cancel();
            }
        }
        let id = open.next;
        open.next += 1;
        let (asked, cut) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let connection = OpenConnection { since: Instant::now(), asked: Arc::clone(&asked), cut: cut.clone() };
        open.connections.insert(id, connection);
        Ok(ConnectionSlot { id, connections: Arc::clone(self), asked, cut })
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undisturbed(usually: Duration) -> Undisturbed {
        Undisturbed { usually, in_a_crowd: usually / 10 }
    }

    #[tokio::test]
    async fn the_oldest_connection_without_a_request_makes_room() {
        let connections = Connections::new(2, undisturbed(Duration::from_secs(3600)));
        let (asking, idle) = (connections.place().await, connections.place().await);
        asking.asked().store(true, Ordering::Relaxed);
        let third = connections.place().await;
        idle.wanted().await;
        assert!(!asking.cut.is_cancelled() && !third.cut.is_cancelled());
    }

    #[tokio::test]
    async fn without_an_idle_connection_the_oldest_exchange_makes_room_after_its_time() {
        const UNDISTURBED: Duration = Duration::from_millis(50);
        let connections = Connections::new(2, undisturbed(UNDISTURBED));
        let begun = Instant::now();
        let (first, second) = (connections.place().await, connections.place().await);
        for place in [&first, &second] {
            place.asked().store(true, Ordering::Relaxed);
        }
        let _third = connections.place().await;
        assert!(begun.elapsed() >= UNDISTURBED);
        assert!(first.cut.is_cancelled() && !second.cut.is_cancelled());
    }

    #[tokio::test]
    async fn exchanges_make_room_sooner_in_a_crowd() {
        const UNDISTURBED: Duration = Duration::from_secs(1);
        // Every connection but the first is cut at once, or after a second; the bound is far from
        // both.
        let undisturbed = Undisturbed { usually: UNDISTURBED, in_a_crowd: Duration::from_millis(1) };
        let connections = Connections::new(2, undisturbed);
        let begun = Instant::now();
        let mut places = Vec::new();
        for _ in 0..20 {
            let place = connections.place().await;
            place.asked().store(true, Ordering::Relaxed);
            places.push(place);
        }
        assert!(begun.elapsed() >= UNDISTURBED, "the first was undisturbed");
        assert!(begun.elapsed() < 7 * UNDISTURBED, "{:?}", begun.elapsed());
        assert!(!connections.lock().connections.is_empty());
    }

    #[tokio::test]
    async fn a_connection_that_ends_makes_room() {
        let connections = Connections::new(1, undisturbed(Duration::from_secs(3600)));
        let first = connections.place().await;
        first.asked().store(true, Ordering::Relaxed);
        let waiting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.place().await }
        });
        tokio::task::yield_now().await;
        drop(first);
        drop(waiting.await.unwrap());
        assert!(connections.lock().connections.is_empty());
    }
}
