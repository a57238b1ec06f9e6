//! Probes a registered driver periodically (`Probe`): a driver that has died or hangs leaves its
//! sockets behind, and reports nothing itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tonic::{Code, Status};

use super::call::{RpcError, innermost};
use super::connection::DriverConnection;
use super::health::Health;
use super::registry::CsiDrivers;
use volhost_proto::csi::ProbeRequest;
use volhost_proto::csi::identity_client::IdentityClient;

/// The call.
const PROBE: &str = "/csi.v1.Identity/Probe";
/// How often a driver is probed. A user sees a driver's death within this time plus
/// [`ANSWER_TIME`].
const PERIOD: Duration = Duration::from_secs(5);
/// How long a driver may take to answer. Drivers that work one call at a time answer later while
/// they are busy; that shows, too.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Keeps the shown health of the driver up to date. `probe_now` has it probed at once, after a
/// failed call. Ends when the driver is no longer registered. Cancel-safe.
pub(super) async fn keep_probing(drivers: &CsiDrivers, name: &str, probe_now: Arc<Notify>) {
    loop {
        tokio::select! {
            () = sleep(PERIOD) => {}
            () = probe_now.notified() => {}
        }
        let Some(connection) = drivers.connection_of(name) else { return };
        drivers.update_health(name, probe(&connection).await);
    }
}

async fn probe(connection: &DriverConnection) -> Health {
    let mut client = IdentityClient::new(connection.channel());
    match connection.within(ANSWER_TIME, PROBE, client.probe(ProbeRequest {})).await {
        Ok(answer) => match answer.ready {
            Some(false) => Health::NotReady,
            Some(true) | None => Health::Healthy,
        },
        // Older drivers lack the call. A driver that answers so is alive.
        Err(RpcError::Status(status)) if status.code() == Code::Unimplemented => Health::Healthy,
        Err(RpcError::Status(status)) => Health::Unhealthy(failure(connection, &status)),
        Err(RpcError::NoAnswer(_)) => Health::Unhealthy(format!(
            "{} does not answer: no answer to Probe within {} s; the driver is stopped, hangs or is busy",
            connection.socket().display(),
            ANSWER_TIME.as_secs()
        )),
    }
}

/// The driver's own message, or the connection's error.
fn failure(connection: &DriverConnection, status: &Status) -> String {
    let socket = connection.socket().display();
    match innermost(status) {
        Some(cause) => format!("{socket} does not answer Probe: {cause}; is the driver running?"),
        None => format!("{socket} answers Probe with {:?}: {}", status.code(), status.message()),
    }
}
