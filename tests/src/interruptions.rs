//! Signals to end, for programs that end what they have started by unwinding.

use std::sync::mpsc::{Receiver, channel};

use tokio::signal::unix::{SignalKind, signal};

/// Receives SIGINT and SIGTERM, which do not end this process any more.
///
/// # Panics
/// When there are no threads or no signal handlers.
pub fn interruptions() -> Receiver<()> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt()).expect("a signal handler");
            let mut terminate = signal(SignalKind::terminate()).expect("a signal handler");
            loop {
                tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
                if sender.send(()).is_err() {
                    return;
                }
            }
        });
    });
    receiver
}
