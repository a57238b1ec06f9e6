//! `volhost csi-probe`: asks a driver once whether it is ready, as a liveness probe does.

use volhost_config::CsiProbeArguments;
use volhost_model::duration::HumanDuration;

use crate::driver::{self, DriverError};
use crate::error::ControllerError;

/// Asks once.
///
/// # Errors
/// The driver does not answer, or is not ready.
pub(crate) fn run(arguments: &CsiProbeArguments) -> Result<(), ControllerError> {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let threads = threads.map_err(ControllerError::Runtime)?;
    let HumanDuration(timeout) = arguments.timeout;
    let socket = arguments.csi.path();
    let is_ready = threads.block_on(driver::probe(socket, timeout))?;
    if is_ready { Ok(()) } else { Err(DriverError::NotReady { socket: socket.to_owned() }.into()) }
}
