//! The daemon: its socket, and what it says of its plugins.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use volhost_config::RunConfig;
use volhost_model::view::{EventView, PluginView};

use super::check::Checks;
use crate::client::{ANSWER_TIME, Client, within};
use crate::error::CliError;
use crate::list::{self, Query, View};
use volhost_api::pb;
use volhost_api::pb::Kind;

/// What the daemon reports of itself.
#[derive(Debug)]
pub(super) struct DaemonFacts {
    /// Its status.
    pub(super) status: pb::StatusResponse,
    /// Its plugins.
    pub(super) plugins: Vec<PluginView>,
    /// The events that it keeps.
    pub(super) events: Vec<EventView>,
}

impl DaemonFacts {
    /// Asks the daemon.
    ///
    /// # Errors
    /// No daemon answers, or not to this user.
    pub(super) async fn ask(socket: &Path) -> Result<Self, CliError> {
        let mut client = Client::connect(socket).await?;
        let status = within(ANSWER_TIME, socket, client.inspect.status(pb::StatusRequest {})).await?;
        let (mut plugins, mut events) = (Vec::new(), Vec::new());
        let queries = [Query::new(Kind::Plugins, None, None), Query::events(String::new())];
        for query in queries {
            for view in list::all(&mut client, socket, query).await? {
                match view {
                    View::Plugin(plugin) => plugins.push(plugin),
                    View::Event(event) => events.push(event),
                    _ => {}
                }
            }
        }
        Ok(Self { status, plugins, events })
    }
}

/// Checks socket, answer, root folder and plugins.
pub(super) fn check(checks: &mut Checks, config: &RunConfig, asked: Result<&DaemonFacts, &CliError>) {
    let has_socket = socket(checks, config);
    let facts = match asked {
        Ok(facts) => facts,
        Err(error) if has_socket => {
            checks.problem(
                "daemon",
                error.to_string(),
                "the command line and container runtimes reach volhost by its socket",
                "the message says what to do",
            );
            return;
        }
        Err(_) => {
            checks.warning(
                "daemon",
                format!("it does not run: there is no socket at {}", config.socket.display()),
                "nothing is mounted and unmounted without it; the checks below are of this program instead",
                "start it (systemctl start volhost, or volhost run), or name its socket with --socket",
            );
            return;
        }
    };
    let status = &facts.status;
    checks.ok("daemon", format!("volhostd {} answers (process {})", status.version, status.pid));
    if status.version != env!("CARGO_PKG_VERSION") {
        checks.warning(
            "version",
            format!("the daemon has version {}, this program {}", status.version, env!("CARGO_PKG_VERSION")),
            "each may not know what the other can",
            "restart the daemon after an update",
        );
    }
    if Path::new(&status.root) != config.root_dir {
        checks.warning(
            "configuration",
            format!("the daemon's root folder is {}, and root-dir here is {}", status.root, config.root_dir.display()),
            "this check reads other options than the daemon has read",
            "name the daemon's configuration file with --config",
        );
    }
    plugins(checks, &facts.plugins);
}

/// Whether there is a socket. Who may connect is decided by its mode.
fn socket(checks: &mut Checks, config: &RunConfig) -> bool {
    const OTHERS: u32 = 0o007;
    let name = "socket";
    let shown = config.socket.display();
    let Ok(found) = std::fs::symlink_metadata(&config.socket) else { return false };
    let mode = found.mode() & 0o7777;
    if !found.file_type().is_socket() {
        checks.problem(
            name,
            format!("{shown} is not a socket"),
            "volhostd does not replace it, and does not start",
            "move it away, or name another path with --socket",
        );
    } else if mode & OTHERS != 0 {
        checks.problem(
            name,
            format!("{shown} has mode {mode:o}: every user may connect"),
            "who connects can mount and unmount what root can, unless the daemon refuses the user",
            format!("chmod 600 {shown}, or give a group access with socket-group"),
        );
    } else {
        let group = match &config.socket_group {
            Some(group) => format!(", for group {group} (id {})", found.gid()),
            None => String::new(),
        };
        checks.ok(name, format!("{shown} belongs to user {} and has mode {mode:o}{group}", found.uid()));
    }
    true
}

/// Those that are refused, or wait for the operator.
fn plugins(checks: &mut Checks, plugins: &[PluginView]) {
    let ready = plugins.iter().filter(|plugin| plugin.state == "Ready").count();
    if ready > 0 || plugins.is_empty() {
        checks.ok("plugins", format!("{ready} of {} are ready", plugins.len()));
    }
    for plugin in plugins {
        let name = format!("plugin {}", plugin.name);
        let error = if plugin.error.is_empty() { String::new() } else { format!(": {}", plugin.error) };
        let found = format!("{}{error}", plugin.state);
        match plugin.state.as_str() {
            "Ready" | "Retired" => {}
            "Compiling" | "Waiting" => checks.warning(
                &name,
                found,
                "volumes that need it wait",
                "wait until it is loaded; `volhost describe plugin` shows more",
            ),
            "PendingApproval" => checks.warning(
                &name,
                format!("{found}; its file waits for {}", plugin.waits_for.join(", ")),
                "the version that was loaded before serves",
                format!("read what it asks for, then: volhost plugin grant {}", plugin.name),
            ),
            "Quarantined" => checks.problem(
                &name,
                found,
                "it misbehaved with several volumes, and mounts no more",
                "replace its file, or send volhostd SIGHUP to try it once more",
            ),
            _ if !plugin.waits_for.is_empty() => checks.problem(
                &name,
                format!("{found}; it waits for {}", plugin.waits_for.join(", ")),
                "it serves no volume before",
                format!("read what it asks for, then: volhost plugin grant {}", plugin.name),
            ),
            _ => checks.problem(
                &name,
                found,
                "it serves no volume",
                "replace its file, or remove it from the plugin folder",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Outcome;

    fn plugin(state: &str, waits_for: &[&str]) -> PluginView {
        serde_json::from_value(serde_json::json!({
            "name": "a.b/c", "version": "", "state": state, "file": "", "digest": "", "abi": "", "sources": [],
            "exports": [], "imports": [], "volumes": 0, "error": "", "waits_for": waits_for,
        }))
        .unwrap()
    }

    #[test]
    fn a_plugin_that_serves_nothing_is_a_problem_with_a_way_out() {
        for (state, waits_for, outcome, action) in [
            ("Failed", &[][..], Outcome::Problem, "replace its file"),
            ("Failed", &["loop-devices"], Outcome::Problem, "volhost plugin grant a.b/c"),
            ("Quarantined", &[], Outcome::Problem, "SIGHUP"),
            ("PendingApproval", &["approval"], Outcome::Warning, "volhost plugin grant a.b/c"),
            ("Compiling", &[], Outcome::Warning, "wait"),
        ] {
            let mut checks = Checks::default();
            plugins(&mut checks, &[plugin(state, waits_for)]);
            let [check] = checks.all() else { panic!("one check: {checks:?}") };
            assert_eq!(check.outcome, outcome, "{state}");
            assert!(check.action.contains(action), "{state}: {}", check.action);
        }
        let mut checks = Checks::default();
        plugins(&mut checks, &[plugin("Ready", &[]), plugin("Retired", &[])]);
        assert_eq!(checks.all().len(), 1);
        assert_eq!(checks.all()[0].found, "1 of 2 are ready");
    }
}
