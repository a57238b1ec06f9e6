use std::sync::Arc;

use super::{objects, pod, pod_with};
use crate::{Kind, ObjectKey, ObjectSource, ObjectStore, StoreEffects, parse};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::Pod, "default", name)
}

fn add(store: &mut ObjectStore, text: &str) -> StoreEffects {
    store.apply(ObjectSource::Manifest, objects(text), [])
}

fn names<'a>(keys: impl IntoIterator<Item = &'a ObjectKey>) -> Vec<&'a str> {
    keys.into_iter().map(|key| key.name.as_str()).collect()
}

const VOLUME: &str = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv}\nspec: {accessModes: [ReadWriteOnce], csi: {driver: d, volumeHandle: h, nodeStageSecretRef: {name: stage, namespace: storage}}}\n";
const CLAIM: &str = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {volumeName: pv}\n";

#[test]
fn a_change_of_claim_or_volume_resolves_its_pods_alone() {
    let mut store = ObjectStore::new();
    let both = format!("{}---\n{}", pod_with("user", "persistentVolumeClaim: {claimName: c}"), pod("other"));
    assert_eq!(names(&add(&mut store, &both).resolve), ["other", "user"]);
    assert_eq!(names(&add(&mut store, CLAIM).resolve), ["user"]);
    assert_eq!(names(&add(&mut store, VOLUME).resolve), ["user"]);
    assert_eq!(names(&add(&mut store, &VOLUME.replace("volumeHandle: h", "volumeHandle: i")).resolve), ["user"]);
    let applied = store.apply(ObjectSource::Manifest, vec![], [ObjectKey::persistent_volume("pv")]);
    assert_eq!(names(&applied.resolve), ["user"]);
    assert!(applied.gone.is_empty());
}

#[test]
fn a_change_of_content_reaches_the_pods_that_show_it() {
    let mut store = ObjectStore::new();
    let projected = "projected: {sources: [{configMap: {name: cm}}, {secret: {name: s}}]}";
    let pods = [
        pod_with("a", "configMap: {name: cm}"),
        pod_with("b", "secret: {secretName: s}"),
        pod_with("p", projected),
        pod_with("u", "persistentVolumeClaim: {claimName: c}"),
    ];
    add(&mut store, &format!("{}---\n{CLAIM}---\n{VOLUME}", pods.join("---\n")));
    let config_map = add(&mut store, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\n");
    assert_eq!((names(&config_map.source_changed), config_map.resolve.len()), (vec!["a", "p"], 0));
    let secret = add(&mut store, "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n");
    assert_eq!(names(&secret.source_changed), ["b", "p"]);
    let stage = add(&mut store, "apiVersion: v1\nkind: Secret\nmetadata: {name: stage, namespace: storage}\n");
    assert_eq!(names(&stage.source_changed), ["u"]);
    assert!(
        add(&mut store, "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: elsewhere}\n")
            .source_changed
            .is_empty()
    );
}

#[test]
fn a_pod_made_again_under_another_uid_is_gone_and_new() {
    let mut store = ObjectStore::new();
    add(&mut store, &pod("a").replace("{name: a}", "{name: a, uid: one}"));
    let applied = add(&mut store, &pod("a").replace("{name: a}", "{name: a, uid: two}"));
    assert_eq!(applied.gone.iter().map(|uid| uid.as_str()).collect::<Vec<_>>(), ["one"]);
    assert_eq!(names(&applied.resolve), ["a"]);
    assert_eq!((store.pod_with_uid("one"), store.pod_with_uid("two")), (None, Some(&key("a"))));
}

#[test]
fn a_renamed_pod_that_keeps_its_uid_is_not_gone() {
    let mut store = ObjectStore::new();
    add(&mut store, &pod("a").replace("{name: a}", "{name: a, uid: one}"));
    let applied =
        store.apply(ObjectSource::Manifest, objects(&pod("b").replace("{name: b}", "{name: b, uid: one}")), [key("a")]);
    assert!(applied.gone.is_empty(), "{applied:?}");
}

#[test]
fn the_source_that_had_the_object_first_keeps_it() {
    let mut store = ObjectStore::new();
    let request = parse("request", &pod("a")).unwrap().objects;
    assert!(store.apply(ObjectSource::Api, request.clone(), []).conflicts.is_empty());
    let manifest = add(&mut store, &pod_with("a", "hostPath: {path: /x}"));
    let conflicts: Vec<_> = manifest.conflicts.iter().map(ToString::to_string).collect();
    assert_eq!(
        conflicts,
        ["test.yaml:1: Pod default/a is known from request:1 already; that one counts. Remove one of them"]
    );
    assert!(manifest.resolve.is_empty());
    // The folder's pod waited for its name.
    let after = store.apply(ObjectSource::Api, vec![], [key("a")]);
    assert_eq!((names(&after.resolve), after.gone.len()), (vec!["a"], 0));
    assert_eq!(store.source(&key("a")), Some(ObjectSource::Manifest));
    assert!(store.check(ObjectSource::Api, request.first().unwrap()).is_err());
    assert_eq!(store.apply(ObjectSource::Api, request, []).conflicts.len(), 1);
    // A source removes what is its own.
    assert!(store.apply(ObjectSource::Api, vec![], [key("a")]).gone.is_empty());
    assert_eq!(store.apply(ObjectSource::Manifest, vec![], [key("a")]).gone.len(), 1);
    assert_eq!(store.pods().count(), 0);
}

#[test]
fn a_uid_belongs_to_one_pod_whatever_the_source() {
    let mut store = ObjectStore::new();
    let with_uid = |name: &str| {
        parse("request", &pod(name).replace(&format!("{{name: {name}}}"), &format!("{{name: {name}, uid: one}}")))
            .unwrap()
            .objects
    };
    store.apply(ObjectSource::Manifest, with_uid("a"), []);
    let applied = store.apply(ObjectSource::Api, with_uid("b"), []);
    assert!(applied.conflicts.first().unwrap().to_string().contains("Pod default/b has the uid of Pod default/a"));
    assert!(store.pod(&key("b")).is_none());
}

#[test]
fn an_unchanged_pod_is_shared_not_copied() {
    let mut store = ObjectStore::new();
    let all = objects(&pod("a"));
    store.apply(ObjectSource::Manifest, all.clone(), []);
    assert!(Arc::ptr_eq(store.get(&key("a")).unwrap(), all.first().unwrap()));
}
