//! One watcher, as its watch sees it.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::status::stopping;
use volhost_model::view::Change;

/// Updates that wait for a slow watcher before the watch itself waits.
const WATCH_BUFFER: usize = 64;
/// A watch rests this many times as long as its last snapshot took, so that it costs the node a
/// fifth of a core at most.
const REST_FACTOR: u32 = 4;
/// And never longer than this.
const LONGEST_REST: Duration = Duration::from_millis(500);

/// A stream of updates to one watcher.
pub(crate) type UpdateStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The watcher's end of the stream, as the watch sees it.
pub(super) struct UpdateSender<T> {
    updates: mpsc::Sender<Result<T, Status>>,
    shutdown: CancellationToken,
}

/// The watch is over: the watcher has disconnected, or volhost ends.
pub(super) struct WatchEnded;

impl<T: Send + 'static> UpdateSender<T> {
    /// Creates the watcher's end and its stream.
    pub(super) fn stream(shutdown: CancellationToken) -> (Self, UpdateStream<T>) {
        let (updates, stream) = mpsc::channel(WATCH_BUFFER);
        (Self { updates, shutdown }, Box::pin(ReceiverStream::new(stream)))
    }

    /// Sends an update.
    pub(super) async fn send(&self, update: T) -> Result<(), WatchEnded> {
        self.updates.send(Ok(update)).await.map_err(|_| WatchEnded)
    }

    /// Ends the stream with an error.
    pub(super) async fn fail(&self, status: Status) -> WatchEnded {
        // A watcher that has gone needs no reason.
        let _ = self.updates.send(Err(status)).await;
        WatchEnded
    }

    /// Runs `work`, unless the watcher goes or volhost ends first.
    pub(super) async fn or_over<V>(&self, work: impl Future<Output = V>) -> Result<V, WatchEnded> {
        tokio::select! {
            value = work => Ok(value),
            () = self.updates.closed() => Err(WatchEnded),
            () = self.shutdown.cancelled() => Err(self.fail(stopping()).await),
        }
    }

    /// Waits for a change of this kind. Changes that came in the meantime count as one.
    pub(super) async fn change(
        &self,
        changes: &mut broadcast::Receiver<Change>,
        kinds: &[Change],
    ) -> Result<(), WatchEnded> {
        loop {
            match self.or_over(changes.recv()).await? {
                Ok(change) if !kinds.contains(&change) => {}
                // A receiver that lagged has missed changes, perhaps of this kind.
                Ok(_) | Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return Err(self.fail(stopping()).await),
            }
        }
        *changes = changes.resubscribe();
        Ok(())
    }

    /// Leaves the node to others for a while after a snapshot that began at `since`.
    pub(super) async fn rest(&self, since: Instant) -> Result<(), WatchEnded> {
        self.or_over(tokio::time::sleep((since.elapsed() * REST_FACTOR).min(LONGEST_REST))).await
    }
}
