//! Programs that single plugins need: the iSCSI initiator, and the FUSE servers of grants.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use volhost_config::RunConfig;
use volhost_iscsi::Places;
use volhost_runtime::GrantedProgram;

use super::check::Checks;
use super::needs::Needs;

/// The interface whose users need the iSCSI initiator.
const ISCSI_SESSIONS: &str = "iscsi-sessions";

/// Checks the programs. Without a daemon, the FUSE servers of every grant count.
pub(super) fn check(checks: &mut Checks, config: &RunConfig, needs: &Needs, has_daemon: bool) {
    iscsi(checks, &needs.of_interface(ISCSI_SESSIONS), &Places::default());
    let granted = config.grants.fuse_programs();
    let loaded = granted.into_iter().filter(|granted| !has_daemon || needs.is_loaded(granted.plugin.as_str()));
    for granted in loaded {
        fuse_server(checks, &granted);
    }
}

fn iscsi(checks: &mut Checks, users: &[String], places: &Places) {
    let name = "iSCSI initiator";
    match places.initiator() {
        _ if users.is_empty() => {}
        Some(program) => checks.ok(name, program.display().to_string()),
        None => checks.warning(
            name,
            "iscsiadm is missing",
            format!(
                "plugin {} logs in to iSCSI targets with it; without it no such volume is attached",
                users.join(", ")
            ),
            "install open-iscsi (Debian) or iscsi-initiator-utils if you use iSCSI volumes",
        ),
    }
}

fn fuse_server(checks: &mut Checks, granted: &GrantedProgram) {
    let GrantedProgram { plugin, server, program } = granted;
    let name = format!("FUSE server {server}");
    let shown = program.display();
    let found = match executable(program) {
        Ok(()) => return checks.ok(&name, shown.to_string()),
        Err(why) => format!("{shown} {why}"),
    };
    checks.problem(
        &name,
        found,
        format!("volumes of plugin {plugin} that need it cannot be mounted"),
        format!("install the program, or correct `program` in [grants.\"{plugin}\".fuse-servers.{server}]"),
    );
}

/// Whether a program can be run, or else why not.
fn executable(program: &Path) -> Result<(), String> {
    const ANY_EXECUTE: u32 = 0o111;
    let found = std::fs::metadata(program).map_err(|error| format!("cannot be run: {error}"))?;
    match (found.is_file(), found.permissions().mode() & ANY_EXECUTE) {
        (false, _) => Err("is no file".to_owned()),
        (true, 0) => Err("is not executable".to_owned()),
        (true, _) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use volhost_model::PluginName;

    use super::*;
    use crate::doctor::check::Outcome;

    fn one(check: impl FnOnce(&mut Checks)) -> Option<(Outcome, String)> {
        let mut checks = Checks::default();
        check(&mut checks);
        assert!(checks.all().len() < 2, "{checks:?}");
        checks.all().first().map(|check| (check.outcome, format!("{} {}", check.found, check.action)))
    }

    #[test]
    fn the_initiator_is_looked_for_only_where_a_plugin_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places { programs: vec![folder.path().to_owned()], ..Places::default() };
        let users = ["a.b/iscsi".to_owned()];
        assert_eq!(one(|checks| iscsi(checks, &[], &places)), None);
        let (outcome, said) = one(|checks| iscsi(checks, &users, &places)).unwrap();
        assert_eq!(outcome, Outcome::Warning);
        assert!(said.contains("iscsiadm is missing") && said.contains("install open-iscsi"), "{said}");
        fs::write(folder.path().join("iscsiadm"), "").unwrap();
        assert_eq!(one(|checks| iscsi(checks, &users, &places)).unwrap().0, Outcome::Ok);
    }

    #[test]
    fn a_fuse_server_that_cannot_be_run_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("server");
        let plugin = PluginName::new("a.b/files").unwrap();
        let granted = |program: PathBuf| GrantedProgram { plugin: plugin.clone(), server: "sshfs".into(), program };
        let outcome = |program: PathBuf| one(|checks| fuse_server(checks, &granted(program))).unwrap();
        let (missing, said) = outcome(program.clone());
        assert_eq!(missing, Outcome::Problem);
        assert!(said.contains("No such file") && said.contains("[grants.\"a.b/files\".fuse-servers.sshfs]"), "{said}");
        assert!(outcome(folder.path().to_owned()).1.contains("is no file"));
        fs::write(&program, "").unwrap();
        assert!(outcome(program.clone()).1.contains("is not executable"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(outcome(program).0, Outcome::Ok);
    }
}
