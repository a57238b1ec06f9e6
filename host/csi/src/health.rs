//! Asks a registered driver from time to time whether it is well (`Probe`): a driver that has died or hangs leaves its sockets
//! behind, and says nothing itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};

use super::connection::Connection;
use super::registry::CsiDrivers;
use volhost_proto::csi::ProbeRequest;
use volhost_proto::csi::identity_client::IdentityClient;

/// How often a driver is asked. A user who looks at a driver that has just died sees it within this time and [`ANSWER_TIME`].
const PERIOD: Duration = Duration::from_secs(5);
/// How long a driver may take to answer. Drivers that work one call at a time answer later while they are busy; that shows, too.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The answer of a driver to `Probe`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    /// It can be used.
    Well,
    /// It answers, and is not ready yet.
    NotReady,
    /// It does not answer, or says what it lacks.
    Unwell(String),
}

/// Keeps what is shown of the driver up to date. A failed call (`suspect`) has it asked at once. Ends when the driver is not registered
/// any more; else to be dropped.
pub(super) async fn keep_watch(drivers: &CsiDrivers, name: &str, suspect: Arc<Notify>) {
    loop {
        tokio::select! {
            () = sleep(PERIOD) => {}
            () = suspect.notified() => {}
        }
        let Some(connection) = drivers.connection_of(name) else { return };
        drivers.update_health(name, probe(&connection).await);
    }
}

async fn probe(connection: &Connection) -> Health {
    let mut client = IdentityClient::new(connection.channel());
    match timeout(ANSWER_TIME, client.probe(ProbeRequest {})).await {
        Ok(Ok(answer)) => match answer.into_inner().ready {
            Some(false) => Health::NotReady,
            Some(true) | None => Health::Well,
        },
        // Older drivers lack the call. Whoever answers so is alive.
        Ok(Err(status)) if status.code() == Code::Unimplemented => Health::Well,
        Ok(Err(status)) => Health::Unwell(failure(connection, &status)),
        Err(_) => Health::Unwell(format!(
            "{} does not answer: no answer to Probe within {} s; the driver is stopped, hangs or is busy",
            connection.socket().display(),
            ANSWER_TIME.as_secs()
        )),
    }
}

/// The driver's own words, or what the connection says.
fn failure(connection: &Connection, status: &Status) -> String {
    let cause = std::iter::successors(std::error::Error::source(status), |cause| cause.source()).last();
    let socket = connection.socket().display();
    match cause {
        Some(cause) => format!("{socket} does not answer Probe: {cause}; is the driver running?"),
        None => format!("{socket} answers Probe with {:?}: {}", status.code(), status.message()),
    }
}
