//! What has changed between two lists.

use std::collections::HashMap;

use volhost_api::pb::watch_update::{Object, Type};

/// What a watcher has been sent.
#[derive(Debug, Default)]
pub(super) struct SentObjects {
    objects: HashMap<String, Object>,
}

impl SentObjects {
    /// Takes the list as it is now and returns the changes: what is new or different in the list's
    /// order, then what is gone.
    pub(super) fn replace(&mut self, list: Vec<Object>) -> Vec<(Type, Object)> {
        let mut before = std::mem::take(&mut self.objects);
        let mut changes = Vec::new();
        for object in list {
            let key = key(&object);
            match before.remove(&key) {
                None => changes.push((Type::Added, object.clone())),
                Some(old) if old != object => changes.push((Type::Modified, object.clone())),
                Some(_) => {}
            }
            self.objects.insert(key, object);
        }
        let mut gone: Vec<(String, Object)> = before.into_iter().collect();
        gone.sort_by(|a, b| a.0.cmp(&b.0));
        changes.extend(gone.into_iter().map(|(_, object)| (Type::Deleted, object)));
        changes
    }
}

/// What makes an object the same object in the next list. NUL cannot occur in names.
fn key(object: &Object) -> String {
    match object {
        Object::Pod(pod) => format!("{}\0{}\0{}", pod.namespace, pod.name, pod.uid),
        // A pod may use one volume under two names, and an unresolved volume has no unique name
        // yet: the name in the pod stays the same throughout.
        Object::Volume(volume) if !volume.name.is_empty() => {
            format!("{}\0{}\0{}", volume.pod, volume.pod_uid, volume.name)
        }
        Object::Volume(volume) => {
            format!("{}\0{}\0\0{}\0{}", volume.pod, volume.pod_uid, volume.spec_name, volume.unique_name)
        }
        Object::Plugin(plugin) => format!("{}\0{}", plugin.name, plugin.file),
        Object::Driver(driver) => format!("{}\0{}", driver.kind, driver.name),
        Object::Operation(operation) => format!("{}\0{}\0{}", operation.pod, operation.volume, operation.name),
        Object::Claim(claim) => format!("{}\0{}", claim.namespace, claim.name),
        Object::PersistentVolume(volume) => volume.name.clone(),
        Object::Event(event) => event.sequence.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use volhost_api::pb;

    fn pod(name: &str, ready: u32) -> Object {
        Object::Pod(pb::Pod { name: name.into(), ready, ..pb::Pod::default() })
    }

    #[test]
    fn a_list_is_compared_with_the_one_before() {
        let mut seen = SentObjects::default();
        let first = seen.replace(vec![pod("a", 0), pod("b", 0)]);
        assert_eq!(first, vec![(Type::Added, pod("a", 0)), (Type::Added, pod("b", 0))]);
        assert_eq!(seen.replace(vec![pod("a", 0), pod("b", 0)]), vec![]);
        let next = seen.replace(vec![pod("a", 1), pod("c", 0)]);
        assert_eq!(next, vec![(Type::Modified, pod("a", 1)), (Type::Added, pod("c", 0)), (Type::Deleted, pod("b", 0))]);
    }

    #[test]
    fn a_pod_made_again_under_its_name_is_another_pod() {
        let with_uid = |uid: &str| Object::Pod(pb::Pod { name: "a".into(), uid: uid.into(), ..pb::Pod::default() });
        let mut seen = SentObjects::default();
        seen.replace(vec![with_uid("1")]);
        assert_eq!(
            seen.replace(vec![with_uid("2")]),
            vec![(Type::Added, with_uid("2")), (Type::Deleted, with_uid("1"))]
        );
    }
}
