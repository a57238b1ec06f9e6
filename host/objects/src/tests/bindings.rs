use std::fmt::Write as _;

use super::objects;
use crate::{Kind, ObjectKey, ObjectSource, ObjectStore, RetainedBindings};

fn volume(name: &str, size: &str, more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {name}, labels: {{tier: {name}}}}}\nspec: {{capacity: {{storage: {size}}}, accessModes: [ReadWriteOnce], local: {{path: /x}}, {more}}}\n"
    )
}

fn claim(name: &str, size: &str, more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\nspec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: {size}}}}}, {more}}}\n"
    )
}

fn store(text: &str) -> ObjectStore {
    let mut store = ObjectStore::new();
    store.apply(ObjectSource::Manifest, objects(text), []);
    store
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::PersistentVolumeClaim, "default", name)
}

/// The claim's volume, or why it has none.
fn of(store: &ObjectStore, claim: &str) -> String {
    match store.volume_of_claim(&key(claim)) {
        Some(Ok(volume)) => volume.name.to_string(),
        Some(Err(unbound)) => unbound.to_string(),
        None => "unknown".to_owned(),
    }
}

#[test]
fn a_claim_that_names_a_volume_has_it() {
    let store = store(
        &(volume("pv", "1Gi", "") + &claim("c", "1Gi", "volumeName: pv") + &claim("lost", "1Gi", "volumeName: none")),
    );
    assert_eq!(of(&store, "c"), "pv");
    assert!(of(&store, "lost").starts_with("failed to fetch PV none: there is no PersistentVolume of that name"));
    assert_eq!(of(&store, "no-such-claim"), "unknown");
}

#[test]
fn a_volume_kept_for_another_claim_is_refused_naming_both() {
    let kept = volume("pv", "1Gi", "claimRef: {namespace: other, name: theirs}");
    let store = store(&(kept + &claim("c", "1Gi", "volumeName: pv")));
    assert_eq!(of(&store, "c"), "PVC is not bound: spec.claimRef of PersistentVolume pv names claim other/theirs");
}

#[test]
fn a_claim_made_again_does_not_get_the_old_ones_volume() {
    let kept = volume("pv", "1Gi", "claimRef: {name: c, uid: old}");
    let derived = store(&(kept.clone() + &claim("c", "1Gi", "volumeName: pv")));
    assert_eq!(of(&derived, "c"), "pv", "no claim can name a derived uid");
    let given = store(&(kept + &claim("c", "1Gi", "volumeName: pv").replace("{name: c}", "{name: c, uid: new}")));
    assert!(of(&given, "c").starts_with("PV pv does not point to claim.UID"), "{}", of(&given, "c"));
}

#[test]
fn of_two_claims_that_name_one_volume_the_first_gets_it_and_keeps_it() {
    let mut store =
        store(&(volume("pv", "1Gi", "") + &claim("d", "1Gi", "volumeName: pv") + &claim("c", "1Gi", "volumeName: pv")));
    assert_eq!(of(&store, "c"), "pv");
    assert_eq!(
        of(&store, "d"),
        "PVC is not bound: PersistentVolume pv is bound to claim default/c; one volume serves one claim"
    );
    store.apply(ObjectSource::Manifest, objects(&claim("a", "1Gi", "volumeName: pv")), []);
    assert_eq!(of(&store, "c"), "pv");
    store.apply(ObjectSource::Manifest, vec![], [key("c")]);
    assert_eq!(of(&store, "a"), "pv");
}

#[test]
fn a_status_is_taken_at_its_word() {
    let text = volume("pv", "1Gi", "")
        + &claim("c", "1Gi", "volumeName: pv").replace("\nspec", "\nstatus: {phase: Pending}\nspec")
        + &claim("d", "1Gi", "").replace("\nspec", "\nstatus: {phase: Bound}\nspec");
    let store = store(&text);
    assert_eq!(of(&store, "c"), "PVC is not bound: its status.phase is Pending");
    assert!(of(&store, "d").starts_with("PVC has empty pvc.Spec.VolumeName"));
}

#[test]
fn a_claim_without_a_volume_name_gets_the_smallest_that_fits() {
    let volumes = volume("big", "5Gi", "")
        + &volume("b", "2Gi", "")
        + &volume("a", "2Gi", "")
        + &volume("small", "1Gi", "")
        + &volume("other-class", "2Gi", "storageClassName: fast")
        + &volume("kept", "2Gi", "claimRef: {name: somebody}")
        + &volume("block", "2Gi", "volumeMode: Block");
    let claims = claim("c1", "2Gi", "")
        + &claim("c2", "1500Mi", "")
        + &claim("c3", "2Gi", "")
        + &claim("c4", "2Gi", "")
        + &claim("fast", "1Gi", "storageClassName: fast")
        + &claim("somebody", "1Gi", "")
        + &claim("raw", "1Gi", "volumeMode: Block");
    let store = store(&(volumes + &claims));
    let got: Vec<_> = ["c1", "c2", "c3", "fast", "somebody", "raw"].iter().map(|claim| of(&store, claim)).collect();
    assert_eq!(got, ["a", "b", "big", "other-class", "kept", "block"]);
    assert!(of(&store, "c4").contains(
        "no free PersistentVolume has storage class \"\", access modes [ReadWriteOnce], at least 2147483648 bytes"
    ));
}

#[test]
fn a_selector_and_the_access_modes_are_honoured() {
    let text = volume("a", "1Gi", "")
        + &volume("b", "1Gi", "")
        + &claim("c", "1Gi", "selector: {matchLabels: {tier: b}}")
        + &claim("d", "1Gi", "").replace("[ReadWriteOnce]", "[ReadWriteMany]");
    let store = store(&text);
    assert_eq!(of(&store, "c"), "b");
    assert!(of(&store, "d").starts_with("PVC is not bound"));
}

#[test]
fn a_matched_claim_keeps_its_volume_when_a_better_one_comes() {
    let mut store = store(&(volume("big", "5Gi", "") + &claim("c", "1Gi", "")));
    assert_eq!(of(&store, "c"), "big");
    store.apply(ObjectSource::Manifest, objects(&volume("right", "1Gi", "")), []);
    assert_eq!(of(&store, "c"), "big");
    store.apply(ObjectSource::Manifest, vec![], [ObjectKey::persistent_volume("big")]);
    assert_eq!(of(&store, "c"), "right");
}

#[test]
fn thousands_of_claims_each_get_a_volume_of_their_own() {
    let mut text = String::new();
    for number in 0..2_000 {
        write!(text, "{}{}", volume(&format!("v{number}"), "1Gi", ""), claim(&format!("c{number}"), "1Gi", ""))
            .unwrap();
    }
    let store = store(&text);
    assert!((0..2_000).all(|number| store.volume_of_claim(&key(&format!("c{number}"))).unwrap().is_ok()));
}

/// What a claim of this size, with these access modes and fields, gets that names a volume of 1 GiB
/// with those fields.
fn named(volume_more: &str, size: &str, modes: &str, claim_more: &str) -> String {
    let claim = claim("c", size, &format!("volumeName: pv, {claim_more}")).replacen("ReadWriteOnce", modes, 1);
    of(&store(&(volume("pv", "1Gi", volume_more) + &claim)), "c")
}

#[test]
fn a_claim_that_names_a_volume_has_to_fit_it() {
    const ONCE: &str = "ReadWriteOnce";
    for (volume_more, size, modes, claim_more, why) in [
        ("", "2Gi", ONCE, "", "requested PV is too small: the claim asks for 2147483648 bytes"),
        ("storageClassName: fast", "1Gi", ONCE, "", "storageClassName does not match: the claim's is \"\""),
        ("", "1Gi", ONCE, "storageClassName: fast", "storageClassName does not match: the claim's is \"fast\""),
        ("", "1Gi", ONCE, "volumeMode: Block", "incompatible volumeMode: the claim's is Block"),
        ("volumeMode: Block", "1Gi", ONCE, "", "incompatible volumeMode: the claim's is Filesystem"),
        ("", "1Gi", "ReadWriteMany", "", "incompatible accessMode: the claim asks for ReadWriteMany"),
        ("", "1Gi", "ReadWriteOnce, ReadOnlyMany", "", "the claim asks for ReadOnlyMany"),
        ("", "1Gi", "ReadWriteOncePod", "", "the claim asks for ReadWriteOncePod"),
        // The volume's reference to the claim waives no rule.
        ("claimRef: {name: c}", "2Gi", ONCE, "", "requested PV is too small"),
        ("claimRef: {name: c}", "1Gi", ONCE, "volumeMode: Block", "incompatible volumeMode"),
    ] {
        let message = named(volume_more, size, modes, claim_more);
        assert!(message.starts_with("PVC is not bound: cannot bind to requested volume pv: "), "{message}");
        assert!(message.contains(why), "{message} lacks {why}");
    }
    assert_eq!(named("storageClassName: fast", "500Mi", ONCE, "storageClassName: fast"), "pv", "a smaller claim fits");
}

#[test]
fn a_bound_claim_may_ask_for_more_than_its_volume_has() {
    let mut bound = store(&(volume("pv", "1Gi", "") + &claim("c", "1Gi", "volumeName: pv")));
    bound.apply(ObjectSource::Manifest, objects(&claim("c", "2Gi", "volumeName: pv")), []);
    assert_eq!(of(&bound, "c"), "pv");
    let larger = claim("c", "2Gi", "volumeName: pv");
    let by_status = store(&(volume("pv", "1Gi", "") + &larger.replace("\nspec", "\nstatus: {phase: Bound}\nspec")));
    assert_eq!(of(&by_status, "c"), "pv");
    let kept = volume("pv", "1Gi", "claimRef: {name: c, uid: u-1}");
    let by_uid = store(&(kept + &larger.replace("{name: c}", "{name: c, uid: u-1}")));
    assert_eq!(of(&by_uid, "c"), "pv");
}

#[test]
fn a_claim_that_has_grown_keeps_its_volume_over_a_restart() {
    let pv = volume("pv", "1Gi", "");
    let larger = claim("c", "2Gi", "volumeName: pv");
    let mut before = store(&(pv.clone() + &claim("c", "1Gi", "volumeName: pv")));
    assert_eq!(before.retained_bindings().write(), None, "the objects say it");
    before.apply(ObjectSource::Manifest, objects(&larger), []);
    let kept = before.retained_bindings().write().unwrap();

    // The sources come one after the other.
    for order in [[&pv, &larger], [&larger, &pv]] {
        let mut after = ObjectStore::new();
        after.restore_bindings(RetainedBindings::read(&kept).unwrap());
        after.apply(ObjectSource::Manifest, objects(&volume("other", "1Gi", "")), []);
        for text in order {
            after.apply(ObjectSource::Manifest, objects(text), []);
        }
        assert_eq!(of(&after, "c"), "pv");
        assert_eq!(after.retained_bindings().write().as_ref(), Some(&kept));
        // One that goes and comes back is another claim.
        after.apply(ObjectSource::Manifest, vec![], [key("c")]);
        assert_eq!(after.retained_bindings().write(), None);
        after.apply(ObjectSource::Manifest, objects(&larger), []);
        assert!(of(&after, "c").contains("requested PV is too small"), "{}", of(&after, "c"));
    }
    assert!(RetainedBindings::read(b"{\"pv\": \"c\"}").is_err() && RetainedBindings::read(b"{").is_err());
}

#[test]
fn a_claim_for_one_pod_never_gets_a_volume_for_several() {
    let claim = claim("c", "1Gi", "volumeName: pv")
        .replace("[ReadWriteOnce]", "[ReadWriteOncePod]")
        .replace("\nspec", "\nstatus: {phase: Bound}\nspec");
    let message = of(&store(&(volume("pv", "1Gi", "") + &claim)), "c");
    assert!(message.contains("the claim asks for ReadWriteOncePod"), "{message}");
    let single = volume("pv", "1Gi", "").replace("[ReadWriteOnce]", "[ReadWriteOncePod]");
    assert_eq!(of(&store(&(single + &claim)), "c"), "pv");
}

#[test]
fn a_volume_that_is_being_deleted_is_not_bound() {
    let deleted =
        volume("pv", "1Gi", "").replace("{name: pv,", "{name: pv, deletionTimestamp: '2026-01-01T00:00:00Z',");
    let message = of(&store(&(deleted + &claim("c", "1Gi", "volumeName: pv"))), "c");
    assert!(message.contains("the volume is marked for deletion"), "{message}");
}
