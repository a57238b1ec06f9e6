//! Programs that volhost runs, where a plugin needs them.

use volhost_config::RunConfig;
use volhost_kernel::{LinuxKernel, ToolReport};

use super::check::Checks;
use super::needs::Needs;

/// The interface whose users need the programs of file systems.
const FILESYSTEMS: &str = "filesystems";
/// The interface whose users need the operator's drivers.
const DRIVER_EXEC: &str = "driver-exec";

/// Checks the programs of file systems, and the folder of FlexVolume drivers.
pub(super) fn check(checks: &mut Checks, kernel: &LinuxKernel, config: &RunConfig, needs: &Needs) {
    filesystems(checks, &kernel.tools(), &needs.of_interface(FILESYSTEMS));
    let flex = needs.of_interface(DRIVER_EXEC);
    match &config.flex_driver_dir {
        Some(folder) if !folder.is_dir() => checks.problem(
            "flex drivers",
            format!("flex-driver-dir: {} is no folder", folder.display()),
            "volumes of FlexVolume drivers cannot be mounted",
            "make the folder, or correct flex-driver-dir",
        ),
        Some(folder) => checks.ok("flex drivers", format!("looked for in {}", folder.display())),
        None if flex.is_empty() => {}
        None => checks.ok("flex drivers", "flex-driver-dir is not given: no driver is looked for"),
    }
}

fn filesystems(checks: &mut Checks, tools: &[ToolReport], users: &[String]) {
    let name = "file system tools";
    if users.is_empty() {
        checks.ok(name, "no plugin needs them");
        return;
    }
    let missing = |is_basic: bool| {
        let missing = tools.iter().filter(|tool| tool.is_basic == is_basic && tool.found.is_none());
        let (mut names, mut packages): (Vec<&str>, Vec<&str>) = missing.map(|tool| (tool.name, tool.package)).unzip();
        names.dedup();
        packages.dedup();
        (names, packages)
    };
    let (basic, packages) = missing(true);
    if basic.is_empty() {
        let names: Vec<&str> = tools.iter().filter(|tool| tool.found.is_some()).map(|tool| tool.name).collect();
        checks.ok(name, names.join(", "));
    } else {
        checks.problem(
            name,
            format!("missing: {}", basic.join(", ")),
            format!("plugin {} recognises, makes, checks and grows file systems with them", users.join(", ")),
            format!("install {} (names of Debian packages)", packages.join(", ")),
        );
    }
    let (other, packages) = missing(false);
    if !other.is_empty() {
        checks.warning(
            "other file systems",
            format!("missing: {}", other.join(", ")),
            "a new volume whose fsType needs one of them cannot be formatted",
            format!("install {} if you use that fsType (names of Debian packages)", packages.join(", ")),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::doctor::check::Outcome;

    fn outcomes(missing: &[&str], users: &[String]) -> Vec<(Outcome, String)> {
        let tool = |name: &'static str, package, is_basic| ToolReport {
            name,
            package,
            is_basic,
            found: (!missing.contains(&name)).then(|| PathBuf::from("/usr/sbin").join(name)),
        };
        let tools = [
            tool("blkid", "util-linux", true),
            tool("wipefs", "util-linux", true),
            tool("mkfs.xfs", "xfsprogs", false),
        ];
        let mut checks = Checks::default();
        filesystems(&mut checks, &tools, users);
        checks.all().iter().map(|check| (check.outcome, format!("{} {}", check.found, check.action))).collect()
    }

    #[test]
    fn a_missing_tool_is_a_problem_only_where_a_plugin_needs_it() {
        let users = ["a.b/disk".to_owned()];
        assert_eq!(outcomes(&["blkid", "wipefs"], &[])[0].0, Outcome::Ok);
        let [(Outcome::Problem, said)] = &outcomes(&["blkid", "wipefs"], &users)[..] else { panic!("one problem") };
        assert_eq!(said, "missing: blkid, wipefs install util-linux (names of Debian packages)");
        let [(Outcome::Ok, _), (Outcome::Warning, said)] = &outcomes(&["mkfs.xfs"], &users)[..] else {
            panic!("a warning")
        };
        assert!(said.contains("install xfsprogs"), "{said}");
    }
}
