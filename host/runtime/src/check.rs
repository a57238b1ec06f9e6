//! Checks what a component imports and exports against what this host has. Said before linking, in
//! words of the contract; what linking itself would say is about types and indices.

use wasmtime::Engine;
use wasmtime::component::{Component, types};

use crate::abi::{ContractName, GRANTABLE_INTERFACES, OPEN_INTERFACES, PACKAGE, REQUIRED_EXPORTS, Version};
use crate::error::{LoadProblem, way_out};
use crate::wasi::is_served;

/// Most names that a message lists.
const LISTED: usize = 8;

/// The call that gives a volume's files to a pod's group, as components import it.
const APPLY_FS_GROUP: &str = "[method]mount-target.apply-fs-group";
/// The call that says of a volume that it can be mounted with an SELinux label.
const SELINUX_MOUNT: &str = "[method]identity.selinux-mount";

/// The imports and exports of a component, by interface, without package and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComponentSurface {
    /// Interfaces of the contract that it imports, sorted.
    pub(crate) imports: Vec<String>,
    /// Interfaces of the contract that it exports, sorted.
    pub(crate) exports: Vec<String>,
    /// It imports interfaces of WASI.
    pub(crate) imports_wasi: bool,
    /// It imports the call that gives a volume's files to a pod's group.
    pub(crate) gives_to_group: bool,
    /// It imports the call that says of a volume that it can be mounted with an SELinux label.
    pub(crate) selinux_mount: bool,
    /// The newest version of the contract that it names.
    pub(crate) abi: Option<Version>,
}

/// Reads the component's surface and refuses what this host cannot run. `sdk` is what the plugin
/// says built it.
pub(crate) fn check(
    component: &Component,
    engine: &Engine,
    sdk: Option<&str>,
) -> Result<ComponentSurface, LoadProblem> {
    let ty = component.component_type();
    let imports: Vec<String> = ty.imports(engine).map(|(name, _)| name.to_owned()).collect();
    let exports: Vec<String> = ty.exports(engine).map(|(name, _)| name.to_owned()).collect();
    check_names(&imports, &exports, sdk)?;
    check_shapes(&ty, engine, sdk)?;
    let abi = contract(&imports).chain(contract(&exports)).filter_map(|name| name.version).max();
    let imports_call = |interface: &str, function: &str| {
        ty.imports(engine).any(|(name, item)| {
            let named = ContractName::parse(name).is_some_and(|name| name.interface == interface);
            matches!(&item.ty, types::ComponentItem::ComponentInstance(imported)
                if named && imported.get_export(engine, function).is_some())
        })
    };
    let imports_wasi = imports.iter().any(|import| is_served(import));
    Ok(ComponentSurface {
        imports: interfaces(&imports),
        exports: interfaces(&exports),
        imports_wasi,
        gives_to_group: imports_call("mounts", APPLY_FS_GROUP),
        selinux_mount: imports_call("volumes", SELINUX_MOUNT),
        abi,
    })
}

fn check_names(imports: &[String], exports: &[String], sdk: Option<&str>) -> Result<(), LoadProblem> {
    // The version first: all the rest follows from a wrong one.
    let other = contract(exports).chain(contract(imports)).find(|name| !name.version.is_some_and(Version::is_spoken));
    if let Some(name) = other {
        let built_for = name.version.map_or_else(|| "an unknown version".to_owned(), |version| version.to_string());
        return Err(LoadProblem::OtherAbi { built_for, sdk: built_by(sdk), way_out: way_out(name.version) });
    }
    let missing: Vec<&str> = REQUIRED_EXPORTS
        .into_iter()
        .filter(|wanted| !contract(exports).any(|name| name.interface == *wanted))
        .collect();
    if !missing.is_empty() {
        let missing: Vec<String> = missing.iter().map(|name| format!("{PACKAGE}/{name}")).collect();
        return Err(LoadProblem::WrongWorld { missing: list(&missing), found: list(exports) });
    }
    let unknown: Vec<String> = imports.iter().filter(|name| !is_known(name)).cloned().collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let hint = if unknown.iter().all(|name| name.starts_with("wasi:")) {
        "; of WASI this host serves 0.2: cli, clocks, filesystem, http, io, random, sockets"
    } else if unknown.iter().any(|name| name.starts_with(PACKAGE)) {
        "; the plugin was built for a newer volhost"
    } else {
        "; a plugin can use the contract's interfaces only"
    };
    Err(LoadProblem::UnknownImport { import: list(&unknown), hint: hint.to_owned() })
}

/// The functions of every interface that a plugin may export, with their parameters. What lies
/// deeper in the types, linking compares.
const FUNCTIONS: &[(&str, &str, &[&str])] = &[
    ("plugin", "describe", &["into"]),
    ("plugin", "identify", &["volume", "into"]),
    ("publisher", "publish", &["volume", "pod", "target"]),
    ("publisher", "unpublish", &["target"]),
    ("attacher", "attach", &["volume"]),
    ("attacher", "detach", &["volume-name"]),
    ("attacher", "wait-for-attach", &["volume", "attached"]),
    ("attacher", "are-attached", &["volume-names"]),
    ("other-nodes", "attached-to", &["volume-name"]),
    ("other-nodes", "detach-from", &["volume-name", "node"]),
    ("stager", "stage", &["volume", "attached", "target"]),
    ("stager", "unstage", &["volume-name", "target"]),
    ("block-mapper", "stage-device", &["volume", "attached"]),
    ("block-mapper", "map-device", &["volume", "pod", "device"]),
    ("block-mapper", "unmap-device", &["volume-name", "pod-uid"]),
    ("block-mapper", "unstage-device", &["volume-name"]),
    ("expander", "expand", &["volume", "attached", "target", "to"]),
    ("stats", "measure", &["volume-name", "target", "into"]),
    ("controller", "create", &["wanted", "into"]),
    ("controller", "delete", &["volume-id"]),
    ("controller", "find", &["volume-id", "into"]),
    ("controller", "expand", &["volume-id", "to", "limit"]),
    ("controller", "list-volumes", &["start", "most", "into"]),
    ("controller", "free-space", &["wanted"]),
    ("snapshotter", "create-snapshot", &["wanted", "into"]),
    ("snapshotter", "delete-snapshot", &["snapshot-id"]),
    ("snapshotter", "find-snapshot", &["snapshot-id", "into"]),
    ("snapshotter", "list-snapshots", &["volume-id", "start", "most", "into"]),
    ("modifier", "modify", &["volume-id", "wanted"]),
    ("group-snapshotter", "create-group", &["wanted", "into"]),
    ("group-snapshotter", "delete-group", &["group-id"]),
    ("group-snapshotter", "find-group", &["group-id", "into"]),
];

/// Every interface of the contract is an instance, and the required ones have the contract's
/// functions. wasmtime would say so too, but without the function's name.
fn check_shapes(ty: &types::Component, engine: &Engine, sdk: Option<&str>) -> Result<(), LoadProblem> {
    let misfit = |reason| LoadProblem::WrongShape { sdk: built_by(sdk), reason };
    for (name, item) in ty.exports(engine) {
        let Some(contract) = ContractName::parse(name) else {
            continue;
        };
        let types::ComponentItem::ComponentInstance(exported) = item.ty else {
            return Err(misfit(format!("its export {name} is not an interface")));
        };
        for (_, function, parameters) in FUNCTIONS.iter().filter(|(interface, ..)| *interface == contract.interface) {
            let full = format!("{}.{function}", contract.interface);
            let found = exported.get_export(engine, function).map(|found| found.ty);
            let Some(types::ComponentItem::ComponentFunc(found)) = found else {
                return Err(misfit(format!("it exports no function {full}")));
            };
            let found: Vec<&str> = found.params().map(|(name, _)| name).collect();
            if found != *parameters {
                let (found, wanted) = (found.join(", "), parameters.join(", "));
                return Err(misfit(format!("its function {full} takes ({found}), and the contract says ({wanted})")));
            }
        }
    }
    Ok(())
}

/// The tool that built the plugin, for the middle of a sentence.
pub(crate) fn built_by(sdk: Option<&str>) -> String {
    sdk.map_or_else(String::new, |sdk| format!(" (built by {sdk})"))
}

fn is_known(import: &str) -> bool {
    let of_contract = ContractName::parse(import).is_some_and(|name| {
        OPEN_INTERFACES.contains(&name.interface) || GRANTABLE_INTERFACES.contains(&name.interface)
    });
    of_contract || is_served(import)
}

fn contract(names: &[String]) -> impl Iterator<Item = ContractName<'_>> {
    names.iter().filter_map(|name| ContractName::parse(name))
}

fn interfaces(names: &[String]) -> Vec<String> {
    let mut found: Vec<String> = contract(names).map(|name| name.interface.to_owned()).collect();
    found.sort();
    found.dedup();
    found
}

fn list(names: &[String]) -> String {
    let shown = names.get(..LISTED.min(names.len())).unwrap_or_default().join(", ");
    match names.len() {
        0 => "nothing".to_owned(),
        many if many > LISTED => format!("{shown} and {} more", many - LISTED),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    const PLUGIN: [&str; 2] = ["volhost:plugin/plugin@0.1.0", "volhost:plugin/publisher@0.1.3"];

    #[test]
    fn a_wrong_version_is_reported_before_all_that_follows_from_it() {
        let error = check_names(
            &names(&["wasi:cli/stdin@0.2.0"]),
            &names(&["volhost:plugin/plugin@0.9.0"]),
            Some("rust-sdk/9"),
        );
        let text = error.unwrap_err().to_string();
        assert_eq!(
            text,
            "it was built for volhost:plugin@0.9.0 (built by rust-sdk/9), and this host speaks 0.1.x; update volhost, or use an older release of the plugin"
        );
    }

    #[test]
    fn missing_exports_are_listed() {
        let text = check_names(&[], &names(&["volhost:plugin/plugin@0.1.0"]), None).unwrap_err().to_string();
        assert!(
            text.contains("lacks the exports volhost:plugin/publisher; it exports volhost:plugin/plugin@0.1.0"),
            "{text}"
        );
    }

    #[test]
    fn of_wasi_only_what_is_not_served_is_named() {
        let imports = names(&["wasi:io/streams@0.2.6", "wasi:io/streams@0.3.0"]);
        let text = check_names(&imports, &names(&PLUGIN), None).unwrap_err().to_string();
        assert!(text.contains("it imports wasi:io/streams@0.3.0, which") && text.contains("serves 0.2"), "{text}");
        check_names(&imports[..1], &names(&PLUGIN), None).unwrap();
    }

    #[test]
    fn an_interface_of_a_newer_host_is_named() {
        let text =
            check_names(&names(&["volhost:plugin/telepathy@0.1.9"]), &names(&PLUGIN), None).unwrap_err().to_string();
        assert!(text.contains("telepathy") && text.contains("newer volhost"), "{text}");
    }

    #[test]
    fn a_plugin_of_a_later_patch_is_taken() {
        check_names(&names(&["volhost:plugin/host-paths@0.1.4", "volhost:plugin/types@0.1.4"]), &names(&PLUGIN), None)
            .unwrap();
    }
}
