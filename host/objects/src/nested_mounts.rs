//! Volumes that containers mount inside other volumes.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as k8s;
use volhost_model::OuterName;

/// For each volume the folders in it on which a container mounts another one. Only the uppermost:
/// what is nested deeper lies in another volume. A volume that is mounted by `subPath` is left out,
/// since its own root is not what the container sees.
pub(super) fn find(spec: &k8s::PodSpec) -> BTreeMap<OuterName, BTreeSet<String>> {
    let of_init = spec.init_containers.iter().flatten().map(|container| container.volume_mounts.as_ref());
    let of_regular = spec.containers.iter().map(|container| container.volume_mounts.as_ref());
    let of_ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| container.volume_mounts.as_ref());
    let mut found: BTreeMap<OuterName, BTreeSet<String>> = BTreeMap::new();
    for mounts in of_init.chain(of_regular).chain(of_ephemeral).flatten() {
        for outer in mounts.iter().filter(|mount| mount.sub_path.is_none() && mount.sub_path_expr.is_none()) {
            let Ok(name) = OuterName::new(outer.name.as_str()) else { continue };
            let folders = inside(&outer.mount_path, mounts);
            if !folders.is_empty() {
                found.entry(name).or_default().extend(folders);
            }
        }
    }
    found
}

fn inside(outer: &str, mounts: &[k8s::VolumeMount]) -> BTreeSet<String> {
    let mut folders = BTreeSet::new();
    // Sorted, a folder comes before what lies below it.
    let paths: BTreeSet<Vec<&str>> = mounts.iter().filter_map(|mount| parts(&mount.mount_path)).collect();
    let Some(outer) = parts(outer) else { return folders };
    let mut upper: Option<Vec<&str>> = None;
    for path in paths {
        if path.len() <= outer.len() || !path.starts_with(&outer) {
            continue;
        }
        if upper.as_ref().is_some_and(|upper| path.starts_with(upper)) {
            continue;
        }
        folders.extend(path.get(outer.len()..).map(|rest| rest.join("/")));
        upper = Some(path);
    }
    folders
}

/// The names of a path; none when it goes upwards, which no runtime mounts on.
fn parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    (!parts.contains(&"..")).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(list: &[(&str, &str)]) -> k8s::PodSpec {
        let mounts = list
            .iter()
            .map(|(name, path)| k8s::VolumeMount {
                name: (*name).to_owned(),
                mount_path: (*path).to_owned(),
                ..k8s::VolumeMount::default()
            })
            .collect();
        let container = k8s::Container { volume_mounts: Some(mounts), ..k8s::Container::default() };
        k8s::PodSpec { containers: vec![container], ..k8s::PodSpec::default() }
    }

    fn folders(list: &[(&str, &str)], volume: &str) -> Vec<String> {
        let name = OuterName::new(volume).unwrap();
        find(&mounts(list)).remove(&name).into_iter().flatten().collect()
    }

    #[test]
    fn the_uppermost_folders_inside_are_found() {
        let list = [
            ("outer", "/etc/app/"),
            ("a", "/etc/app/a"),
            ("deeper", "/etc/app/a/b"),
            ("c", "/etc/app//x/./c"),
            ("beside", "/etc/app2"),
            ("above", "/etc"),
            ("up", "/etc/app/../x"),
        ];
        assert_eq!(folders(&list, "outer"), ["a", "x/c"]);
        assert_eq!(folders(&list, "a"), ["b"]);
        assert_eq!(folders(&list, "above"), ["app", "app2"]);
        assert!(folders(&list, "beside").is_empty());
    }

    #[test]
    fn containers_are_looked_at_one_by_one() {
        let mut spec = mounts(&[("outer", "/data"), ("a", "/data/a")]);
        spec.containers.extend(mounts(&[("outer", "/other"), ("b", "/other/b"), ("c", "/data/c")]).containers);
        let found = find(&spec).remove(&OuterName::new("outer").unwrap()).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
