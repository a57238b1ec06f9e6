//! Volumes that show objects: config maps, secrets, fields of the pod, tokens, and several of them
//! in one folder.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;
use volhost_tests::{Node, NodeBuilder, artifacts};

const CONFIG_MAP: &str = "kubernetes.io~configmap";
const SECRET: &str = "kubernetes.io~secret";
const DOWNWARD: &str = "kubernetes.io~downward-api";
const PROJECTED: &str = "kubernetes.io~projected";
const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
/// What an update of a source may take to reach the pod.
const PROMPT: Duration = Duration::from_secs(1);
/// Updates, of which one at least arrives in that time also on a machine that is busy now and then.
const UPDATES: usize = 50;

/// A node on which a change of an object reaches volumes as an event or never: the look at all
/// volumes from time to time comes after any test.
fn builder() -> NodeBuilder {
    ["config-map", "secret", "downward-api", "projected"]
        .map(artifacts::plugin)
        .into_iter()
        .fold(Node::builder().arguments(&["--refresh-period", "1h"]), NodeBuilder::plugin)
}

fn config_map(name: &str, data: &[(&str, &str)]) -> String {
    keyed("ConfigMap", "data", name, data)
}

fn secret(name: &str, data: &[(&str, &str)]) -> String {
    keyed("Secret", "stringData", name, data)
}

fn keyed(kind: &str, field: &str, name: &str, data: &[(&str, &str)]) -> String {
    let lines: String = data.iter().map(|(key, value)| format!("  {key}: {value:?}\n")).collect();
    format!("apiVersion: v1\nkind: {kind}\nmetadata: {{ name: {name} }}\n{field}:\n{lines}")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The names that a pod sees, without the protocol's own.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| !name.starts_with("..")).collect();
    names.sort();
    names
}

#[test]
fn every_kind_shows_its_files_with_exact_modes_and_contents() {
    let node = builder().start();
    node.manifest("app.yaml", &config_map("app", &[("colour", "blue"), ("size", "small")]));
    let binary = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: logo }\nbinaryData: { logo.png: iVBORwD/ }\n";
    node.manifest("logo.yaml", binary);
    node.manifest("login.yaml", &secret("login", &[("user", "admin"), ("pin", "1234")]));
    let manifest = pod(
        "a",
        "uid-a",
        &[
            "name: plain, configMap: { name: app, defaultMode: 0640 }",
            "name: some, configMap: { name: app, items: [{ key: size, path: deep/er/size, mode: 0400 }] }",
            "name: logo, configMap: { name: logo }",
            "name: login, secret: { secretName: login, defaultMode: 0400 }",
            "name: info, downwardAPI: { items: [{ path: labels, fieldRef: { fieldPath: metadata.labels } }, { path: cpu, resourceFieldRef: { containerName: main, resource: limits.cpu, divisor: 1m } }, { path: disk, resourceFieldRef: { containerName: main, resource: limits.ephemeral-storage } }] }",
            "name: all, projected: { sources: [{ configMap: { name: app } }, { secret: { name: login, items: [{ key: pin, path: private/pin }] } }, { downwardAPI: { items: [{ path: name, fieldRef: { fieldPath: metadata.name } }] } }] }",
        ],
    );
    let manifest = manifest
        .replace("uid: uid-a }", "uid: uid-a, labels: { tier: front, app: a } }")
        .replace("      image: none\n", "      image: none\n      resources: { limits: { cpu: 1500m } }\n");
    node.manifest("a.yaml", &manifest);
    node.wait_mounted("default/a");

    let plain = node.volume("uid-a", CONFIG_MAP, "plain");
    assert_eq!(names(&plain), ["colour", "size"]);
    assert_eq!((text(&plain.join("colour")).as_str(), mode(&plain.join("colour"))), ("blue", 0o640));
    assert_eq!(mode(&plain), 0o755);
    let some = node.volume("uid-a", CONFIG_MAP, "some");
    assert_eq!(names(&some), ["deep"]);
    assert_eq!((text(&some.join("deep/er/size")).as_str(), mode(&some.join("deep/er/size"))), ("small", 0o400));
    assert_eq!(fs::read(node.volume("uid-a", CONFIG_MAP, "logo").join("logo.png")).unwrap(), b"\x89PNG\x00\xff");
    let login = node.volume("uid-a", SECRET, "login");
    assert_eq!((text(&login.join("user")).as_str(), mode(&login.join("user"))), ("admin", 0o400));
    let info = node.volume("uid-a", DOWNWARD, "info");
    assert_eq!(text(&info.join("labels")), "app=\"a\"\ntier=\"front\"");
    assert_eq!((text(&info.join("cpu")).as_str(), mode(&info.join("cpu"))), ("1500", 0o644));
    assert!(text(&info.join("disk")).parse::<u64>().unwrap() > 0, "without a limit it is the node's disk");
    let all = node.volume("uid-a", PROJECTED, "all");
    assert_eq!(names(&all), ["colour", "name", "private", "size"]);
    assert_eq!((text(&all.join("private/pin")).as_str(), text(&all.join("name")).as_str()), ("1234", "a"));

    let mounts = node.pod_mounts();
    let mut in_memory: Vec<_> = mounts.iter().map(|mount| mount.point.file_name().unwrap().to_owned()).collect();
    in_memory.sort();
    assert_eq!(in_memory, ["all", "login"], "volumes that may contain secrets are in memory, and no other is mounted");
    for mount in &mounts {
        assert!(mount.fs_type == "tmpfs" && mount.fs_options.iter().any(|option| option == "noswap"), "{mount:?}");
        assert!(mount.options.iter().any(|option| option == "nosuid"), "{mount:?}");
    }

    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert!(node.pod_mounts().is_empty() && !plain.exists());
}

#[test]
fn fs_group_owns_the_files_and_can_read_them() {
    let node = builder().start();
    node.manifest("app.yaml", &config_map("app", &[("colour", "blue")]));
    node.manifest("login.yaml", &secret("login", &[("user", "admin")]));
    let volumes = [
        "name: cfg, configMap: { name: app, items: [{ key: colour, path: sub/colour }] }",
        "name: login, secret: { secretName: login, defaultMode: 0400 }",
    ];
    let manifest = pod("a", "uid-a", &volumes).replace("spec:\n", "spec:\n  securityContext: { fsGroup: 2000 }\n");
    node.manifest("a.yaml", &manifest);
    node.wait_mounted("default/a");
    let config = node.volume("uid-a", CONFIG_MAP, "cfg");
    let login = node.volume("uid-a", SECRET, "login");
    for (path, expected) in [
        (config.clone(), 0o2755),
        (config.join("sub"), 0o2755),
        (config.join("sub/colour"), 0o644),
        (login.clone(), 0o2755),
        (login.join("user"), 0o440),
    ] {
        assert_eq!((mode(&path), fs::metadata(&path).unwrap().gid()), (expected, 2000), "{}", path.display());
    }
}

#[test]
fn an_update_reaches_the_running_pod_within_a_second_without_a_remount() {
    let node = builder().start();
    node.manifest("app.yaml", &config_map("app", &[("colour", "blue"), ("old", "x")]));
    node.manifest("login.yaml", &secret("login", &[("user", "admin")]));
    let volumes = [
        "name: cfg, configMap: { name: app }",
        "name: login, secret: { secretName: login }",
        "name: all, projected: { sources: [{ configMap: { name: app } }, { secret: { name: login } }] }",
        "name: info, downwardAPI: { items: [{ path: labels, fieldRef: { fieldPath: metadata.labels } }] }",
    ];
    let labelled = |label: &str| {
        pod("a", "uid-a", &volumes).replace("uid: uid-a }", &format!("uid: uid-a, labels: {{ tier: {label} }} }}"))
    };
    node.manifest("a.yaml", &labelled("front"));
    node.wait_mounted("default/a");
    let mounts = node.pod_mounts();
    let config = node.volume("uid-a", CONFIG_MAP, "cfg");
    let inode = fs::metadata(&config).unwrap().ino();

    node.manifest("app.yaml", &config_map("app", &[("colour", "red"), ("new", "y")]));
    assert!(eventually(|| text(&config.join("colour")) == "red"), "{}", node.log());
    assert!(eventually(|| names(&config) == ["colour", "new"]));
    let all = node.volume("uid-a", PROJECTED, "all");
    assert!(eventually(|| text(&all.join("colour")) == "red"));
    node.manifest("login.yaml", &secret("login", &[("user", "root")]));
    assert!(eventually(|| text(&node.volume("uid-a", SECRET, "login").join("user")) == "root"));
    assert!(eventually(|| text(&all.join("user")) == "root"));
    node.manifest("a.yaml", &labelled("back"));
    assert!(eventually(|| text(&node.volume("uid-a", DOWNWARD, "info").join("labels")) == "tier=\"back\""));
    let is_prompt = (0..UPDATES).any(|number| {
        let number = number.to_string();
        let begun = Instant::now();
        node.manifest("app.yaml", &config_map("app", &[("colour", &number)]));
        assert!(eventually(|| text(&config.join("colour")) == number), "{}", node.log());
        begun.elapsed() < PROMPT
    });
    assert!(is_prompt, "{}", node.log());
    assert_eq!(node.pod_mounts(), mounts);
    assert_eq!(fs::metadata(&config).unwrap().ino(), inode);
}

#[test]
fn a_volume_in_memory_that_became_small_is_grown_for_the_next_update() {
    const SMALL: &str = "remount,size=128M";
    let node = builder().start();
    node.manifest("app.yaml", &secret("app", &[("colour", "blue")]));
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: cfg, secret: { secretName: app }"]));
    node.wait_mounted("default/a");
    let colour = node.volume("uid-a", SECRET, "cfg").join("colour");
    let place = node.volume_inside("uid-a", SECRET, "cfg");
    let listed = node.inside("findmnt").args(["-n", "-o", "OPTIONS"]).arg(&place).output().unwrap();
    // The kernel takes it for a change where it is not named again.
    let noswap = if String::from_utf8_lossy(&listed.stdout).contains("noswap") { ",noswap" } else { "" };
    let remounted = node.inside("mount").arg("-o").arg(format!("{SMALL}{noswap}")).arg(&place).output().unwrap();
    assert!(remounted.status.success(), "{}", String::from_utf8_lossy(&remounted.stderr));
    node.manifest("app.yaml", &secret("app", &[("colour", "red")]));
    assert!(eventually(|| text(&colour) == "red"), "{}", node.log());
}

#[test]
fn readers_see_all_of_the_old_or_all_of_the_new_files() {
    let node = builder().start();
    let version = |number: usize| {
        let number = number.to_string();
        config_map("app", &[("a", &number), ("b", &number), ("c", &number)])
    };
    node.manifest("app.yaml", &version(0));
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: cfg, configMap: { name: app }"]));
    node.wait_mounted("default/a");
    let folder = node.volume("uid-a", CONFIG_MAP, "cfg");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The reader ends also when the test fails.
        let ends = SetOnDrop(&done);
        let reader = scope.spawn(|| {
            let mut whole = 0;
            while !done.load(Ordering::Relaxed) {
                // One look at `..data`, then through what it was: the set of that moment, or gone
                // in the middle of it.
                let Ok(set) = fs::read_link(folder.join("..data")) else { continue };
                let read = |name: &str| fs::read_to_string(folder.join(&set).join(name)).ok();
                if let (Some(a), Some(b), Some(c)) = (read("a"), read("b"), read("c")) {
                    assert!(a == b && b == c && !a.is_empty(), "a mix: {a} {b} {c}");
                    whole += 1;
                }
            }
            whole
        });
        for number in 1..=30 {
            node.manifest("app.yaml", &version(number));
            assert!(eventually(|| text(&folder.join("a")) == number.to_string()), "{}", node.log());
        }
        drop(ends);
        assert!(reader.join().unwrap() > 0);
    });
    let sets = || fs::read_dir(&folder).unwrap().filter(|e| e.as_ref().unwrap().file_type().unwrap().is_dir()).count();
    assert!(eventually(|| sets() == 1), "old sets are cleared away: {}", sets());
}

/// Says that something is over.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_deleted_config_map_keeps_its_files_and_the_pod_gets_events_until_it_is_back() {
    let node = builder().start();
    node.manifest("app.yaml", &config_map("app", &[("colour", "blue")]));
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: cfg, configMap: { name: app }"]));
    node.wait_mounted("default/a");
    let colour = node.volume("uid-a", CONFIG_MAP, "cfg").join("colour");
    node.remove_manifest("app.yaml");
    node.wait_event(&["Warning", "default/a", "there is no ConfigMap default/app"]);
    assert_eq!(text(&colour), "blue");
    assert!(node.ok(&["get", "pods"]).contains("Mounted"));
    node.manifest("app.yaml", &config_map("app", &[("colour", "red")]));
    assert!(eventually(|| text(&colour) == "red"), "{}", node.log());
}

#[test]
fn a_pod_that_waits_for_its_secret_is_mounted_as_soon_as_it_is_there() {
    let node = builder().start();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: login, secret: { secretName: login }"]));
    node.wait_event(&["Warning", "default/a", "there is no Secret default/login"]);
    assert!(node.pod_mounts().is_empty());
    node.manifest("login.yaml", &secret("login", &[("user", "admin")]));
    assert!(eventually(|| text(&node.volume("uid-a", SECRET, "login").join("user")) == "admin"), "{}", node.log());
}

#[test]
fn what_is_optional_appears_and_disappears() {
    let node = builder().start();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: cfg, configMap: { name: app, optional: true }"]));
    node.wait_mounted("default/a");
    let folder = node.volume("uid-a", CONFIG_MAP, "cfg");
    assert!(names(&folder).is_empty());
    node.manifest("app.yaml", &config_map("app", &[("colour", "blue")]));
    assert!(eventually(|| text(&folder.join("colour")) == "blue"), "{}", node.log());
    node.remove_manifest("app.yaml");
    assert!(eventually(|| names(&folder).is_empty()), "{}", node.log());
}

#[test]
fn an_unreadable_manifest_does_not_empty_an_optional_volume() {
    let mut node = builder().start();
    node.manifest("app.yaml", &config_map("app", &[("colour", "blue")]));
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: cfg, configMap: { name: app, optional: true }"]));
    node.wait_mounted("default/a");
    let colour = node.volume("uid-a", CONFIG_MAP, "cfg").join("colour");
    node.kill();
    node.manifest("app.yaml", "apiVersion: v1\nkind: [\n");
    node.start();
    node.wait_event(&["Warning", "default/a", "not every manifest could be read"]);
    assert_eq!(text(&colour), "blue");
    node.manifest("app.yaml", &config_map("app", &[("colour", "red")]));
    assert!(eventually(|| text(&colour) == "red"), "{}", node.log());
}

#[test]
fn bad_sources_are_refused_with_the_fields_path_and_change_nothing() {
    let node = builder().start();
    node.manifest("app.yaml", &config_map("app", &[("colour", "blue")]));
    node.manifest("by.yaml", &pod("by", "uid-by", &["name: cfg, configMap: { name: app }"]));
    node.wait_mounted("default/by");
    let item = |path: &str| format!("name: v, configMap: {{ name: app, items: [{{ key: colour, path: {path:?} }}] }}");
    let long = "x".repeat(300);
    for (index, (volume, words)) in [
        (item("../up"), "configMap.items.0.path: \\\"../up\\\" must not contain"),
        (item("/etc/passwd"), "must be a relative path"),
        (item("..data/x"), "must not begin with"),
        ("name: v, configMap: { name: app, items: [{ key: colour, path: \"a\\x01\\x7f\" }] }".to_owned(), ""),
        (item(&long), "is too long"),
        (
            "name: v, configMap: { name: app, itms: [] }".to_owned(),
            "configMap.itms: no such field; did you mean items?",
        ),
        (
            "name: v, configMap: { name: app, defaultMode: 0x10000 }".to_owned(),
            "configMap.defaultMode: 65536 is not a mode",
        ),
        ("name: v, secret: { secretName: none }".to_owned(), "there is no Secret default/none"),
        ("name: v, configMap: { name: app, items: [{ key: none, path: x }] }".to_owned(), "has no key"),
        ("name: v, projected: { sources: [{ serviceAccountToken: { path: t } }] }".to_owned(), "--token-signing-key"),
        (
            "name: v, downwardAPI: { items: [{ path: a, fieldRef: { fieldPath: status.podIP } }] }".to_owned(),
            "downwardAPI.items.0.fieldRef.fieldPath",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("bad{index}");
        node.manifest("bad.yaml", &pod(&name, &format!("uid-{name}"), &[&volume]));
        if words.is_empty() {
            // Strange, and allowed: a name of control characters is shown as it is.
            node.wait_mounted(&format!("default/{name}"));
            assert_eq!(names(&node.volume(&format!("uid-{name}"), CONFIG_MAP, "v")), ["a\u{1}\u{7f}"]);
            continue;
        }
        node.wait_event(&["Warning", &format!("default/{name}")]);
        let described = node.ok(&["describe", "pod", &format!("default/{name}")]);
        let plain = words.replace("\\\"", "\"");
        assert!(described.contains(&plain) || described.contains(words), "{plain}: {described}");
    }
    for (text, words) in [
        (config_map("bad", &[("a/b", "x")]), "data.a/b: is no key"),
        (config_map("bad", &[("big", &"x".repeat((1 << 20) + 1))]), "data.big: with it the object has more than"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: { name: bad }\ndata: { a: 1 }\n".to_owned(), "data.a"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: bad }\nbinaryData: { a: '%%' }\n".to_owned(),
            "binaryData.a",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: bad }\ndata: { a: b }\nbinaryData: { a: QQ== }\n"
                .to_owned(),
            "binaryData.a: is in data too",
        ),
        (
            pod("typed", "uid-typed", &["name: v, configMap: { name: app, defaultMode: rw }"]),
            "spec.volumes[0].configMap.defaultMode",
        ),
    ] {
        node.manifest("object.yaml", &text);
        node.wait_event(&["InvalidManifest", "object.yaml:", words]);
    }
    assert_eq!(text(&node.volume("uid-by", CONFIG_MAP, "cfg").join("colour")), "blue");
    assert!(node.pod_mounts().is_empty(), "{:?}", node.pod_mounts());
}

#[test]
fn ten_thousand_keys_and_a_megabyte_are_shown() {
    let node = builder().start();
    let many: Vec<(String, String)> = (0..10_000).map(|i| (format!("key-{i}"), format!("{i}"))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    node.manifest("many.yaml", &config_map("many", &many));
    node.manifest("big.yaml", &secret("big", &[("big", &"x".repeat(1 << 20))]));
    let volumes = ["name: many, configMap: { name: many }", "name: big, secret: { secretName: big }"];
    node.manifest("a.yaml", &pod("a", "uid-a", &volumes));
    node.wait_mounted("default/a");
    let folder = node.volume("uid-a", CONFIG_MAP, "many");
    assert_eq!(names(&folder).len(), 10_000);
    assert_eq!(text(&folder.join("key-9999")), "9999");
    assert_eq!(fs::metadata(node.volume("uid-a", SECRET, "big").join("big")).unwrap().len(), 1 << 20);
}

#[test]
fn a_restart_keeps_the_files_untouched_and_brings_what_changed_meanwhile() {
    let mut node = builder().start();
    node.manifest("app.yaml", &config_map("app", &[("colour", "blue")]));
    node.manifest("login.yaml", &secret("login", &[("user", "admin")]));
    let volumes = ["name: cfg, configMap: { name: app }", "name: login, secret: { secretName: login }"];
    node.manifest("a.yaml", &pod("a", "uid-a", &volumes));
    node.wait_mounted("default/a");
    let config = node.volume("uid-a", CONFIG_MAP, "cfg");
    let login = node.volume("uid-a", SECRET, "login");
    let sets = || (fs::read_link(config.join("..data")).unwrap(), fs::read_link(login.join("..data")).unwrap());
    let (before, mounts) = (sets(), node.pod_mounts());
    node.kill();
    node.manifest("login.yaml", &secret("login", &[("user", "root")]));
    node.start();
    node.wait_mounted("default/a");
    assert!(eventually(|| text(&login.join("user")) == "root"), "{}", node.log());
    assert_eq!(sets().0, before.0, "what has not changed is not touched");
    assert_eq!(node.pod_mounts(), mounts);
}

#[test]
fn after_the_machine_started_anew_the_files_are_shown_again() {
    let mut node = builder().start();
    node.manifest("app.yaml", &config_map("app", &[("colour", "blue")]));
    node.manifest("login.yaml", &secret("login", &[("user", "admin")]));
    let volumes = ["name: cfg, configMap: { name: app }", "name: login, secret: { secretName: login }"];
    node.manifest("a.yaml", &pod("a", "uid-a", &volumes));
    node.wait_mounted("default/a");
    let config = node.volume("uid-a", CONFIG_MAP, "cfg");
    let login = node.volume("uid-a", SECRET, "login");
    for lost in ["nothing of the disk", "the files too"] {
        node.kill();
        if lost == "the files too" {
            for name in [".", "..data"].map(|name| config.join(name)) {
                let entries = fs::read_dir(&name).into_iter().flatten().map(|entry| entry.unwrap().path());
                for file in entries.filter(|path| !path.is_dir() || path.is_symlink()).collect::<Vec<_>>() {
                    fs::remove_file(file).unwrap();
                }
            }
        }
        let script = "umount $NODE/root/pods/uid-a/volumes/*/login; umount $NODE/root/state; umount $NODE/root";
        assert!(node.inside("sh").args(["-euc", script]).env("NODE", node.folder()).status().unwrap().success());
        node.start();
        node.wait_mounted("default/a");
        assert_eq!(
            (text(&config.join("colour")).as_str(), text(&login.join("user")).as_str()),
            ("blue", "admin"),
            "{lost}"
        );
        assert_eq!(node.pod_mounts().len(), 1, "{lost}");
    }
}

#[test]
fn links_that_a_pod_plants_are_never_followed() {
    let node = builder().start();
    let outside = node.folder().join("disk/outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("colour"), "theirs").unwrap();
    node.manifest("app.yaml", &config_map("app", &[("colour", "blue"), ("size", "small")]));
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: cfg, configMap: { name: app }"]));
    node.wait_mounted("default/a");
    let folder = node.volume("uid-a", CONFIG_MAP, "cfg");
    for name in ["colour", "..data"] {
        fs::remove_file(folder.join(name)).unwrap();
        symlink(&outside, folder.join(name)).unwrap();
    }
    symlink(&outside, folder.join("..data_tmp")).unwrap();
    symlink(&outside, folder.join("new")).unwrap();
    node.manifest("app.yaml", &config_map("app", &[("colour", "red"), ("new", "y")]));
    assert!(
        eventually(|| text(&folder.join("..data/colour")) == "red"),
        "{:?}\n{}",
        fs::read_dir(&folder).unwrap().collect::<Vec<_>>(),
        node.log()
    );
    assert_eq!(names(&outside), ["colour"]);
    assert_eq!(text(&outside.join("colour")), "theirs");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert_eq!(names(&outside), ["colour"]);
}

/// Returns every regular file below a folder that contains these bytes.
fn holders(folder: &Path, needle: &[u8], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            holders(&path, needle, found);
        } else if kind.is_file()
            && fs::read(&path).is_ok_and(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
        {
            found.push(path);
        }
    }
}

#[test]
fn a_secrets_value_is_found_nowhere_but_in_its_manifest_and_its_volume() {
    const VALUE: &str = "correct-horse-battery-staple";
    let node = builder().arguments(&["--log-level", "trace"]).start();
    node.manifest("login.yaml", &secret("login", &[("pin", VALUE)]));
    let volumes = [
        "name: login, secret: { secretName: login }",
        "name: all, projected: { sources: [{ secret: { name: login } }] }",
    ];
    node.manifest("a.yaml", &pod("a", "uid-a", &volumes));
    node.wait_mounted("default/a");
    // Errors about it do not show it.
    node.manifest(
        "b.yaml",
        &pod("b", "uid-b", &["name: login, secret: { secretName: login, items: [{ key: no, path: x }] }"]),
    );
    node.wait_event(&["Warning", "default/b"]);
    node.manifest("login2.yaml", &secret("login2", &[("pi/n", VALUE)]));
    node.wait_event(&["InvalidManifest", "login2.yaml"]);
    let encoded = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ";
    let bad = format!("apiVersion: v1\nkind: Secret\nmetadata: {{ name: login3 }}\ndata: {{ pin: [{encoded}] }}\n");
    node.manifest("login3.yaml", &bad);
    node.wait_event(&["InvalidManifest", "login3.yaml"]);

    let mut said = node.log();
    for arguments in [
        &["get", "pods", "-o", "yaml"][..],
        &["get", "volumes", "-o", "json"],
        &["get", "plugins", "-o", "yaml"],
        &["describe", "pod", "default/a"],
        &["describe", "pod", "default/b"],
        &["events"],
    ] {
        said.push_str(&node.ok(arguments));
    }
    assert!(!said.contains(VALUE) && !said.contains(encoded));
    assert!(said.contains("audit: secret default/login was used, 1 of its keys"), "{}", node.log());

    let login = node.volume("uid-a", SECRET, "login");
    assert_eq!(text(&login.join("pin")), VALUE);
    let mut found = Vec::new();
    holders(&node.path(&node.root()), VALUE.as_bytes(), &mut found);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|path| path.to_string_lossy().contains("/pods/uid-a/volumes/")), "{found:?}");
    let mut elsewhere = Vec::new();
    for folder in ["cache", "plugins", "disk"] {
        holders(&node.folder().join(folder), VALUE.as_bytes(), &mut elsewhere);
    }
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

#[test]
fn tokens_are_signed_with_the_operators_key() {
    let node = builder()
        .prepare("umask 077; openssl genpkey -algorithm ed25519 -out $NODE/disk/key.pem")
        .config("token-issuer = 'https://node.example'\n")
        .build();
    let key = node.folder().join("disk/key.pem");
    let public = Command::new("openssl").args(["pkey", "-pubout", "-in"]).arg(&key).output().unwrap();
    assert!(public.status.success());
    let mut node = node;
    node.add_arguments(&["--token-signing-key", &key.display().to_string()]);
    node.start();
    let volume = "name: all, projected: { defaultMode: 0444, sources: [{ serviceAccountToken: { path: token, audience: vault, expirationSeconds: 600 } }] }";
    let manifest = pod("a", "uid-a", &[volume]).replace(
        "spec:\n",
        "spec:\n  serviceAccountName: robot\n  securityContext: { runAsUser: 1000, fsGroup: 2000 }\n",
    );
    node.manifest("a.yaml", &manifest);
    node.wait_mounted("default/a");
    let file = node.volume("uid-a", PROJECTED, "all").join("token");
    let metadata = fs::metadata(&file).unwrap();
    assert_eq!((mode(&file), metadata.uid(), metadata.gid()), (0o640, 1000, 2000));
    let token = text(&file);
    let parts: Vec<&str> = token.split('.').collect();
    assert_eq!(parts.len(), 3, "{token}");
    assert!(!node.log().contains(parts[2]));
}

#[test]
fn a_folder_for_a_volume_that_is_mounted_inside_is_there() {
    let node = builder().start();
    node.manifest("app.yaml", &config_map("app", &[("colour", "blue")]));
    let manifest = pod("a", "uid-a", &["name: cfg, configMap: { name: app }", "name: scratch, emptyDir: {}"])
        .replace("mountPath: /scratch", "mountPath: /cfg/tmp/scratch");
    node.manifest("a.yaml", &manifest);
    node.wait_mounted("default/a");
    let inner = node.volume("uid-a", CONFIG_MAP, "cfg").join("tmp/scratch");
    assert!(inner.is_dir());
    assert_eq!(mode(&inner), 0o755);
    assert!(node.volume("uid-a", EMPTY_DIR, "scratch").is_dir());
    node.manifest("app.yaml", &config_map("app", &[("colour", "red")]));
    assert!(eventually(|| text(&node.volume("uid-a", CONFIG_MAP, "cfg").join("colour")) == "red"));
    assert!(inner.is_dir(), "an update leaves it");
}

#[test]
fn certificates_come_from_trust_bundles() {
    let node = builder().start();
    let bundle = |name: &str, label: &str, body: &str| {
        format!(
            "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nmetadata: {{ name: 'example.com:ca:{name}', labels: {{ live: '{label}' }} }}\nspec:\n  signerName: example.com/ca\n  trustBundle: |\n    # comment\n    -----BEGIN CERTIFICATE-----\n    {body}\n    -----END CERTIFICATE-----\n"
        )
    };
    node.manifest("one.yaml", &bundle("one", "yes", "QUJD"));
    node.manifest("two.yaml", &bundle("two", "no", "REVG"));
    let volume = "name: ca, projected: { sources: [{ clusterTrustBundle: { signerName: example.com/ca, labelSelector: { matchLabels: { live: 'yes' } }, path: ca.pem } }] }";
    node.manifest("a.yaml", &pod("a", "uid-a", &[volume]));
    node.wait_mounted("default/a");
    let file = node.volume("uid-a", PROJECTED, "ca").join("ca.pem");
    assert_eq!(text(&file), "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n");
    node.manifest("two.yaml", &bundle("two", "yes", "REVG"));
    assert!(eventually(|| text(&file).contains("REVG")), "{}", node.log());
    node.manifest("bad.yaml", &bundle("bad", "yes", "!!"));
    node.wait_event(&["InvalidManifest", "bad.yaml", "spec.trustBundle"]);
}

#[test]
fn a_git_repository_is_refused_with_the_reason_and_the_alternative() {
    let node = builder().plugin(artifacts::plugin("git-repo")).start();
    node.manifest("a.yaml", &pod("a", "uid-a", &["name: code, gitRepo: { repository: 'https://example.com/r.git' }"]));
    node.wait_event(&["Warning", "default/a", "CVE-2024-10220", "emptyDir"]);
}

#[test]
fn a_generic_ephemeral_volume_uses_the_claim_that_its_pod_owns() {
    let node = builder().start();
    let disk = node.folder().join("disk");
    let claim = |owner: &str| {
        volhost_tests::manifests::local_volume("disk1", &disk.display().to_string(), "test-node").replace(
            "metadata: { name: disk1-claim }",
            &format!("metadata: {{ name: a-scratch, ownerReferences: [{{ apiVersion: v1, kind: Pod, name: {owner}, uid: uid-{owner}, controller: true }}] }}"),
        )
    };
    node.manifest("pv.yaml", &claim("b"));
    let volume = "name: scratch, ephemeral: { volumeClaimTemplate: { spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } } } }";
    node.manifest("a.yaml", &pod("a", "uid-a", &[volume]));
    node.wait_event(&["Warning", "default/a", "default/a-scratch was not created for pod default/a"]);
    node.manifest("pv.yaml", &claim("a"));
    node.wait_mounted("default/a");
    assert!(node.volume("uid-a", "kubernetes.io~local-volume", "disk1").is_dir());
}
