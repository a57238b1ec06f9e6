//! The rights of the daemon.

use volhost_hardening::capabilities::{KEPT, OPTIONAL};

use super::check::Checks;
use super::subject::Subject;

/// Checks user and capabilities of the daemon, or of this program in its place.
pub(super) fn check(checks: &mut Checks, subject: Subject) {
    user(checks, subject);
    capabilities(checks, subject);
}

fn user(checks: &mut Checks, subject: Subject) {
    let name = subject.name();
    // Real, effective, saved, file system.
    let user = subject.status("Uid").and_then(|ids| ids.split_whitespace().nth(1).map(str::to_owned));
    match user.as_deref() {
        Some("0") => checks.ok("user", format!("{name} is root")),
        Some(id) if subject.is_daemon() => checks.problem(
            "user",
            format!("{name} runs as user {id}"),
            "only root may mount",
            "start volhostd as root, as the unit file does",
        ),
        Some(id) => checks.problem(
            "user",
            format!("{name} runs as user {id}, and no daemon answers"),
            "only root may mount, and only root sees all that is checked here",
            "run `volhost doctor` as root",
        ),
        None => checks.warning(
            "user",
            format!("the user of {name} cannot be read"),
            "only root may mount",
            "mount /proc without hidepid, or run `volhost doctor` as root",
        ),
    }
}

/// The daemon needs what it keeps of root's rights at its start.
fn capabilities(checks: &mut Checks, subject: Subject) {
    let name = subject.name();
    let Some(have) = subject.capabilities() else {
        checks.warning(
            "capabilities",
            format!("the capabilities of {name} cannot be read"),
            "volhost needs some of root's capabilities",
            "run `volhost doctor` as root",
        );
        return;
    };
    let missing: Vec<_> = KEPT.iter().filter(|(one, _)| have & one.bits() != one.bits()).collect();
    if missing.is_empty() {
        checks.ok("capabilities", format!("{name} has all {} that it uses", KEPT.len()));
        return;
    }
    let names = missing.iter().flat_map(|(one, _)| one.iter_names().map(|(name, _)| format!("CAP_{name}")));
    let found = format!("{name} lacks {}", names.collect::<Vec<_>>().join(", "));
    let purposes: Vec<&str> = missing.iter().map(|(_, purpose)| *purpose).collect();
    let why = format!("volhost needs them for: {}", purposes.join("; "));
    let action = "give them to the service (CapabilityBoundingSet= of the unit, --cap-add of a container)";
    if missing.iter().all(|(one, _)| OPTIONAL.contains(*one)) {
        checks.warning("capabilities", found, why, action);
    } else {
        checks.problem("capabilities", found, why, action);
    }
}
