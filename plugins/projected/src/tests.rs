use volhost_plugin_sdk::testing::{TestHost, TestPayload, TestPod, TestVolume};

use super::*;

fn all() -> TestVolume {
    Volume::builder("projected").named("all")
}

fn host() -> TestHost {
    let host = TestHost::new();
    host.config_map("app", &[("colour", b"blue"), ("size", b"small")])
        .secret("login", &[("user", b"admin"), ("colour", b"red")])
        .issues_tokens()
        .trust_bundle("root", None, "ROOT")
        .trust_bundle("example.com:x:one", Some("example.com/x"), "ONE")
        .trust_bundle("example.com:x:two", Some("example.com/x"), "TWO");
    host
}

fn source(volume: TestVolume, index: usize, kind: &str, fields: &[(&str, &str)]) -> TestVolume {
    let put = |volume: TestVolume, (field, value): &(&str, &str)| {
        volume.field(&format!("sources.{index}.{kind}.{field}"), value)
    };
    fields.iter().fold(volume, put)
}

fn publish(host: &TestHost, volume: &TestVolume) -> Result<()> {
    host.publish::<Projected>(volume, &Pod::builder())
}

fn shown(host: &TestHost, volume: &TestVolume, pod: &TestPod) -> TestPayload {
    host.publish::<Projected>(volume, pod).unwrap();
    host.target_of(pod, "all").payload().unwrap()
}

const TOKEN: &[(&str, &str)] = &[("path", "token")];

#[test]
fn it_serves_projected_and_follows_its_sources() {
    let about = TestHost::new().describe::<Projected>();
    assert_eq!(
        (about.name.as_str(), about.serves.as_slice()),
        ("kubernetes.io/projected", &["projected".to_owned()][..])
    );
    assert!(about.read_only && about.follows_its_source);
}

#[test]
fn sources_of_every_kind_share_one_folder_in_memory() {
    let host = host();
    let volume = source(all(), 0, "configMap", &[("name", "app")]);
    let volume =
        source(volume, 1, "secret", &[("name", "login"), ("items.0.key", "user"), ("items.0.path", "who/user")]);
    let volume =
        source(volume, 2, "downwardAPI", &[("items.0.path", "pod"), ("items.0.fieldRef.fieldPath", "metadata.name")]);
    let volume = source(volume, 3, "serviceAccountToken", TOKEN);
    let volume = source(volume, 4, "clusterTrustBundle", &[("name", "root"), ("path", "ca.pem")]);
    let payload = shown(&host, &volume, &Pod::builder());
    assert_eq!(payload.paths(), ["ca.pem", "colour", "pod", "size", "token", "who/user"]);
    assert_eq!(payload.files["ca.pem"].text(), "ROOT");
    assert_eq!(payload.files["pod"].text(), "pod");
    let mount = host.target("all").mount().unwrap();
    assert!(mount.fs_type == "tmpfs" && mount.has_option("noswap"));
}

#[test]
fn a_later_source_replaces_an_earlier_ones_file() {
    let host = host();
    let both = |first: &str, second: &str| {
        let fields = |kind: &str| if kind == "secret" { [("name", "login")] } else { [("name", "app")] };
        source(source(all(), 0, first, &fields(first)), 1, second, &fields(second))
    };
    assert_eq!(shown(&host, &both("configMap", "secret"), &Pod::builder()).files["colour"].text(), "red");
    assert_eq!(shown(&host, &both("secret", "configMap"), &Pod::builder()).files["colour"].text(), "blue");
}

#[test]
fn a_token_is_requested_as_the_source_specifies() {
    let host = host();
    let token = |fields: &[(&str, &str)]| {
        let payload = shown(&host, &source(all(), 0, "serviceAccountToken", fields), &Pod::builder());
        payload.files["token"].text().to_owned()
    };
    assert_eq!(token(TOKEN), "token of default/default for the issuer during 3600 s");
    assert_eq!(
        token(&[("path", "token"), ("audience", "vault"), ("expirationSeconds", "600")]),
        "token of default/default for vault during 600 s"
    );
}

#[test]
fn only_the_pods_user_and_group_can_read_a_token_where_they_are_known() {
    let volume = source(all(), 0, "serviceAccountToken", TOKEN).field("defaultMode", 0o444);
    let volume = source(volume, 1, "configMap", &[("name", "app")]);
    for (pod, mode, owner) in [
        (Pod::builder(), 0o444, None),
        (Pod::builder().fs_user(1000), 0o600, Some(1000)),
        (Pod::builder().fs_group(2000), 0o640, None),
        (Pod::builder().fs_user(1000).fs_group(2000), 0o640, Some(1000)),
    ] {
        let payload = shown(&host(), &volume, &pod);
        assert_eq!((payload.files["token"].mode, payload.files["token"].owner), (mode, owner), "{pod:?}");
        assert_eq!((payload.files["colour"].mode, payload.files["colour"].owner), (0o444, None), "{pod:?}");
    }
}

#[test]
fn certificates_come_by_name_or_by_signer_and_labels() {
    let host = host();
    let bundle = |fields: &[(&str, &str)]| {
        source(all(), 0, "clusterTrustBundle", fields).field("sources.0.clusterTrustBundle.path", "ca")
    };
    let signer = ("signerName", "example.com/x");
    let text = |volume: &TestVolume| shown(&host, volume, &Pod::builder()).files["ca"].text().to_owned();
    assert_eq!(text(&bundle(&[signer, ("labelSelector", "{}")])), "ONETWO");
    assert!(matches!(publish(&host, &bundle(&[signer])), Err(Error::NotFound(_))), "no selector matches nothing");
    assert_eq!(text(&bundle(&[signer, ("optional", "true")])), "");
    assert!(matches!(publish(&host, &bundle(&[("name", "none")])), Err(Error::NotFound(_))));
}

#[test]
fn every_failed_source_is_reported_and_nothing_changes() {
    let host = host();
    let good = source(all(), 0, "configMap", &[("name", "app")]);
    let before = shown(&host, &good, &Pod::builder());
    let bad = source(good, 1, "configMap", &[("name", "none")]);
    let bad = source(bad, 2, "secret", &[("name", "login"), ("items.0.key", "pin"), ("items.0.path", "p")]);
    let error = publish(&host, &bad).unwrap_err();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
    assert!(error.message().contains("default/none"), "{error}");
    assert!(error.message().contains("projected.sources.2.secret.items.0.key"), "{error}");
    assert_eq!(host.target("all").payload(), Some(before));
}

#[test]
fn without_an_issuer_a_token_is_refused_with_the_field() {
    let host = TestHost::new();
    let error = publish(&host, &source(all(), 0, "serviceAccountToken", TOKEN)).unwrap_err();
    assert!(matches!(error, Error::Precondition(_)), "{error}");
    assert!(error.message().starts_with("projected.sources.0.serviceAccountToken: "), "{error}");
    assert!(host.target("all").is_absent());
}

#[test]
fn optional_sources_may_be_missing() {
    let volume = source(all(), 0, "configMap", &[("name", "none"), ("optional", "true")]);
    let volume = source(volume, 1, "secret", &[("name", "none"), ("optional", "true")]);
    assert!(shown(&host(), &volume, &Pod::builder()).files.is_empty());
}

#[test]
fn bad_fields_are_named() {
    let host = host();
    let one = |kind: &str, fields: &[(&str, &str)]| source(all(), 0, kind, fields);
    let token = |seconds: &str| one("serviceAccountToken", &[("path", "token"), ("expirationSeconds", seconds)]);
    for (volume, said) in [
        (all().field("defaultMode", 512), "projected.defaultMode: 512 is not a mode"),
        (all().field("sources", "x"), "projected.sources: is a text, and must be a list"),
        (all().field("sources.0", "{}"), "projected.sources.0: has no source; give it one of configMap"),
        (all().field("sources.0.nfs.server", "x"), "projected.sources.0.nfs: no such field"),
        (
            source(one("configMap", &[("name", "app")]), 0, "secret", &[("name", "login")]),
            "projected.sources.0: has 2 sources (configMap, secret)",
        ),
        (one("configMap", &[("optional", "true")]), "projected.sources.0.configMap.name: is missing"),
        (one("secret", &[("secretName", "x")]), "projected.sources.0.secret.secretName: no such field"),
        (
            one("configMap", &[("name", "app"), ("items.0.key", "k"), ("items.0.path", "/x")]),
            "projected.sources.0.configMap.items.0.path: \"/x\" must be a relative path",
        ),
        (one("serviceAccountToken", &[("audience", "x")]), "projected.sources.0.serviceAccountToken.path: is missing"),
        (token("599"), "projected.sources.0.serviceAccountToken.expirationSeconds: 599 is out of range"),
        (token("4294967297"), "projected.sources.0.serviceAccountToken.expirationSeconds: 4294967297 is out of range"),
        (one("clusterTrustBundle", TOKEN), "projected.sources.0.clusterTrustBundle: has neither name nor signerName"),
        (
            one("clusterTrustBundle", &[("path", "p"), ("name", "a"), ("signerName", "b")]),
            "projected.sources.0.clusterTrustBundle: has both",
        ),
        (
            one("clusterTrustBundle", &[("path", "p"), ("name", "a"), ("labelSelector", "{}")]),
            "projected.sources.0.clusterTrustBundle: has name and labelSelector",
        ),
    ] {
        let error = host.identify::<Projected>(&volume).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.message().starts_with(said), "{said}: {error}");
        assert_eq!(publish(&host, &volume).unwrap_err(), error);
    }
    let error = host.identify::<Projected>(&one("podCertificate", &[("signerName", "x")])).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    assert!(host.target("all").is_absent());
}
