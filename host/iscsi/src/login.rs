//! One session: probed, recorded, logged in; and how it ends.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use volhost_model::iscsi::LogicalUnit;

use crate::error::PortalError;
use crate::places::Places;
use crate::records::{self, Settings};
use crate::sysfs::Session;
use crate::tool::{REFUSED_FOR_GOOD, Record, run};

/// How long a portal may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The login took too long: so ends one to a target that the portal lacks, too.
const TIMED_OUT: i32 = 8;
/// A session that went meanwhile cannot be looked up.
const NO_SESSION: i32 = 22;
/// How the interfaces begin that volhost makes for initiator names.
const OWN_INTERFACE: &str = "volhost-";
/// How many targets of a portal a message lists.
const LISTED: usize = 8;

/// The interface whose sessions lead to the unit. An initiator name has an interface of its own:
/// open-iscsi knows it by that.
pub(crate) fn interface_of(unit: &LogicalUnit) -> String {
    match &unit.initiator {
        None => unit.interface.clone(),
        Some(initiator) => {
            format!("{OWN_INTERFACE}{:016x}", digest(initiator.as_bytes()))
        }
    }
}

/// FNV-1a: the same for every version of this program, which must find its sessions again.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the first of these portals' failures to take a connection; none: it took one. iscsid
/// would wait longer, and not say why.
pub(crate) fn probe(portal: SocketAddr) -> Result<(), PortalError> {
    TcpStream::connect_timeout(&portal, CONNECT_TIMEOUT).map(drop).map_err(PortalError::Unreachable)
}

/// Logs in to a portal. A session that exists is enough.
///
/// # Guarantees
/// If it fails, open-iscsi keeps no record, and so no password, of the portal.
pub(crate) fn log_in(
    places: &Places,
    unit: &LogicalUnit,
    portal: SocketAddr,
    settings: &Settings,
) -> Result<(), PortalError> {
    let interface = interface_of(unit);
    if let Some(initiator) = &unit.initiator {
        make_interface(places, &interface, initiator)?;
    }
    let record = Record { target: &unit.target, portal, interface: &interface };
    record.run(places, "record the portal", &["-o", "new"])?.done("record the portal")?;
    let logged_in = records::set(places, &unit.target, portal, &interface, settings)
        .and_then(|()| record.run(places, "log in", &["--login"]))
        .and_then(|ran| match ran.code {
            Some(TIMED_OUT | REFUSED_FOR_GOOD) => Err(why_not(places, unit, portal, ran.login())),
            _ => ran.login(),
        });
    if logged_in.is_err() {
        forget(places, unit, portal);
    }
    logged_in
}

/// Why a login has come to nothing: the portal may not have the target.
fn why_not(places: &Places, unit: &LogicalUnit, portal: SocketAddr, failed: Result<(), PortalError>) -> PortalError {
    let portal = portal.to_string();
    let step = "list the targets";
    let listed = run(places, step, &["-m", "discovery", "-t", "sendtargets", "-p", &portal, "-o", "nonpersistent"]);
    let targets: Vec<String> = match listed {
        Ok(ran) if ran.succeeded() => {
            ran.output.lines().filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect()
        }
        _ => vec![unit.target.clone()],
    };
    match failed {
        Err(_) if !targets.contains(&unit.target) => {
            let mut names: Vec<&str> = targets.iter().map(String::as_str).collect();
            names.sort_unstable();
            names.dedup();
            names.truncate(LISTED);
            PortalError::NoTarget(if names.is_empty() { "none".to_owned() } else { names.join(", ") })
        }
        Err(error) => error,
        Ok(()) => PortalError::Failed { step: "log in", words: "no reason given".to_owned() },
    }
}

/// Makes the interface of an initiator name.
fn make_interface(places: &Places, interface: &str, initiator: &str) -> Result<(), PortalError> {
    let step = "make an interface for the initiator name";
    let named = ["-m", "iface", "-I", interface];
    let shown = run(places, step, &named)?;
    let set = format!("iface.initiatorname = {initiator}");
    if shown.succeeded() && shown.output.lines().any(|line| line.trim() == set) {
        return Ok(());
    }
    if !shown.succeeded() {
        run(places, step, &[named.as_slice(), &["-o", "new"]].concat())?.done(step)?;
    }
    let update = ["-o", "update", "-n", "iface.initiatorname", "-v", initiator];
    run(places, step, &[named.as_slice(), &update].concat())?.done(step)
}

/// Ends a session that has no unit any more, and removes the portal's record.
pub(crate) fn log_out(places: &Places, unit: &LogicalUnit, session: &Session) -> Result<(), PortalError> {
    let step = "log out";
    let id = session.id.to_string();
    let ran = run(places, step, &["-m", "session", "-r", &id, "-u"])?;
    if ran.code != Some(NO_SESSION) {
        ran.undone(step)?;
    }
    forget(places, unit, session.portal);
    Ok(())
}

/// Removes the portal's record, if volhost made it.
pub(crate) fn forget(places: &Places, unit: &LogicalUnit, portal: SocketAddr) {
    let interface = interface_of(unit);
    if !records::is_own(places, &unit.target, portal, &interface) {
        return;
    }
    let record = Record { target: &unit.target, portal, interface: &interface };
    let step = "remove the portal's record";
    let removed = record.run(places, step, &["-o", "delete"]).and_then(|ran| ran.undone(step));
    if let Err(error) = removed {
        // It does no harm: the next login replaces it.
        tracing::warn!(%portal, target = %unit.target, %error, "open-iscsi keeps a record");
    }
}
