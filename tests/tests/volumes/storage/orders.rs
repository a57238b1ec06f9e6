//! Plugins that fail, are uncertain, crash, never end, answer too much and lie, at each function of
//! the contract (rules R1 and R8). In every case: an event reports the failure with its cause; the
//! volume's state is that of the error's class; an unwanted volume is undone; a wanted one is
//! mounted once the plugin works; nothing is left; other volumes of the plugin are not affected.
//!
//! | class | what the host takes from it |
//! |---|---|
//! | `final` | nothing was changed |
//! | `uncertain` | it may have happened: repeated or undone, never forgotten |
//! | `transient` | the volume's state is what it was |

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::manifests::{device_pod, loop_volume, pod};
use volhost_tests::{Node, artifacts};

/// Each look is a run of the command line: minutes in all.
const LOOKS: usize = 5000;

/// An order, the class that its failure has, and a word of the cause.
type Case = (&'static str, &'static str, &'static str);

const FAIL: Case = ("fail", "final", "ordered to fail");
/// The host looks, and does not take the plugin's word that nothing was changed.
const FAIL_AFTER: Case = ("fail-after", "uncertain", "ordered to fail");
const DOUBT: Case = ("doubt", "uncertain", "ordered to doubt");
const DOUBT_AFTER: Case = ("doubt-after", "uncertain", "ordered to doubt");
const CRASH: Case = ("crash", "final", "crashed in");
const CRASH_AFTER: Case = ("crash-after", "uncertain", "crashed in");
const SPIN: Case = ("spin", "final", "was stopped");
const SPIN_AFTER: Case = ("spin-after", "uncertain", "was stopped");
const FLOOD: Case = ("flood", "final", "handed over more than");

struct OrderedNode {
    node: Node,
    devices: LoopDevices,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Filesystem,
    Block,
}

impl OrderedNode {
    fn start() -> Self {
        let node = Node::builder()
            .plugin(artifacts::fixture("fixture-ordered"))
            .config("[grants.\"fixture.volhost/ordered\"]\nsources = [\"csi:ordered.volhost.io\"]\nloop-files = [\"$NODE/disk\"]\n")
            .arguments(&["--plugin-cpu-time", "1s"])
            .start();
        let devices = LoopDevices::below(node.folder());
        let this = Self { node, devices };
        this.want("bystander", Mode::Filesystem);
        this.node.wait_mounted("default/bystander");
        this
    }

    fn order_file(&self, volume: &str, function: &str, word: &str) -> PathBuf {
        self.node.folder().join("disk").join(format!("{volume}.{function}.{word}"))
    }

    fn order(&self, volume: &str, function: &str, word: &str) {
        fs::write(self.order_file(volume, function, word), "").unwrap();
    }

    fn relent(&self, volume: &str, function: &str, word: &str) {
        fs::remove_file(self.order_file(volume, function, word)).unwrap();
    }

    /// A pod of the volume's name wants the volume.
    fn want(&self, volume: &str, mode: Mode) {
        self.want_with_size(volume, mode, "1Mi");
    }

    fn want_with_size(&self, volume: &str, mode: Mode, size: &str) {
        let more = if mode == Mode::Block { "  volumeMode: Block" } else { "" };
        let pv = loop_volume(volume, volume, "none", size, more).replace("loop.volhost.io", "ordered.volhost.io");
        let uid = format!("uid-{volume}");
        let wanted = match mode {
            Mode::Filesystem => {
                let claimed = format!("name: {volume}, persistentVolumeClaim: {{ claimName: {volume}-claim }}");
                pod(volume, &uid, &[&claimed])
            }
            Mode::Block => device_pod(volume, &uid, &format!("{volume}-claim")),
        };
        self.node.manifest(&format!("{volume}-pv.yaml"), &pv);
        self.node.manifest(&format!("{volume}.yaml"), &wanted);
    }

    fn give_up(&self, volume: &str) {
        self.node.remove_manifest(&format!("{volume}.yaml"));
    }

    fn view(&self, volume: &str) -> Value {
        let shown: Value = serde_json::from_str(&self.node.ok(&["get", "volume", volume, "-o", "json"])).unwrap();
        shown["status"].clone()
    }

    /// How often in a row the volume failed; 0 as long as it is not known.
    fn failures(&self, volume: &str) -> u64 {
        let shown = self.node.cli(&["get", "volume", volume, "-o", "json"]).stdout;
        serde_json::from_slice::<Value>(&shown)
            .ok()
            .and_then(|view| view["status"]["failures"].as_u64())
            .unwrap_or_default()
    }

    fn wait_failure(&self, volume: &str, cause: &str) {
        self.node.wait_event(&["Warning", volume, cause]);
    }

    /// Asserts that nothing of the volume is on the node and that no pod waits for it.
    fn wait_nothing_left(&self, volume: &str) {
        self.node.wait_unmounted(&format!("default/{volume}"));
        let forgotten =
            (0..LOOKS).any(|_| !self.node.ok(&["get", "volumes", "-o", "wide"]).contains(&format!("/{volume} ")));
        assert!(forgotten, "{volume} is still on the node:\n{}", self.node.ok(&["describe", "volume", volume]));
        let mounts = self.node.all_mounts();
        assert!(!mounts.iter().any(|mount| mount.point.to_string_lossy().contains(volume)), "{mounts:?}");
        let image = self.node.folder().join("disk").join(format!("{volume}.img"));
        let loops = self.devices.over(&image);
        assert!(loops.is_empty(), "{loops:?}");
        let plugin = self.node.path(&self.node.root().join("plugins/fixture.volhost/ordered"));
        for kind in ["mounts", "volumeDevices"] {
            assert!(!plugin.join(kind).join(volume).exists(), "{kind}");
        }
        let folder = self.node.path(&self.node.root().join("pods").join(format!("uid-{volume}")));
        // The folder of a pod of which nothing was ever mounted goes with the next look for what
        // gone pods have left.
        self.node.poke("-HUP");
        let gone = (0..LOOKS).any(|_| {
            let _ = self.node.ok(&["get", "pods"]);
            !folder.exists()
        });
        assert!(gone, "{} stays", folder.display());
    }

    fn assert_others_never_noticed(&self) {
        assert_eq!(self.view("bystander")["state"], "Mounted");
        assert!(!self.node.ok(&["events"]).contains("PluginQuarantined"));
    }
}

/// A function that makes a volume ready misbehaves: the volume is undone when it is unwanted, and
/// comes up when the plugin relents.
fn while_it_is_made(function: &str, mode: Mode, cases: &[Case]) {
    let host = OrderedNode::start();
    for (word, class, cause) in cases {
        let volume = format!("v-{word}");
        host.order(&volume, function, word);
        host.want(&volume, mode);
        host.wait_failure(&volume, cause);
        let view = host.view(&volume);
        assert_eq!(view["failure"]["class"], *class, "{function} {word}: {view}");
        assert_ne!(view["state"], "Mounted", "{function} {word}");
        host.give_up(&volume);
        host.wait_nothing_left(&volume);

        host.want(&volume, mode);
        let again = (0..LOOKS).any(|_| host.failures(&volume) > 0);
        assert!(again, "{function} {word} is tried");
        host.relent(&volume, function, word);
        host.node.wait_mounted(&format!("default/{volume}"));
        host.assert_others_never_noticed();
        host.give_up(&volume);
        host.wait_nothing_left(&volume);
    }
}

/// A function that takes a volume away misbehaves: the volume is not forgotten, and is gone when
/// the plugin relents.
fn while_it_is_unmounted(function: &str, mode: Mode, cases: &[Case]) {
    let host = OrderedNode::start();
    for (word, _, cause) in cases {
        let volume = format!("v-{word}");
        host.want(&volume, mode);
        host.node.wait_mounted(&format!("default/{volume}"));
        let file = host.node.volume(&format!("uid-{volume}"), "fixture.volhost~ordered", &volume).join("file");
        if mode == Mode::Filesystem {
            fs::write(&file, "data").unwrap();
        }
        host.order(&volume, function, word);
        host.give_up(&volume);
        host.wait_failure(&volume, cause);
        if *word == "lie" && function == "unpublish" {
            assert_eq!(
                fs::read_to_string(&file).unwrap(),
                "data",
                "a mount whose unpublish is only claimed stays whole"
            );
        }
        let view = host.view(&volume);
        assert_eq!(view["failure"]["class"], "uncertain", "{function} {word}: what is left is unknown: {view}");
        assert!(view["failure"]["message"].as_str().unwrap().contains(cause), "{view}");
        host.relent(&volume, function, word);
        host.assert_others_never_noticed();
        host.wait_nothing_left(&volume);
    }
}

#[test]
fn attach() {
    while_it_is_made(
        "attach",
        Mode::Filesystem,
        &[FAIL, FAIL_AFTER, DOUBT, DOUBT_AFTER, CRASH, CRASH_AFTER, SPIN, SPIN_AFTER, FLOOD],
    );
}

#[test]
fn a_false_attachment_is_reported_and_made_again_while_the_pod_stays() {
    let host = OrderedNode::start();
    host.order("v-lie", "attach", "lie");
    host.want("v-lie", Mode::Filesystem);
    host.wait_failure("v-lie", "it does not find the volume attached to this node");
    assert_eq!(host.view("v-lie")["failure"]["class"], "uncertain");
    host.relent("v-lie", "attach", "lie");
    host.node.wait_mounted("default/v-lie");
    host.give_up("v-lie");
    host.wait_nothing_left("v-lie");
    host.assert_others_never_noticed();
}

#[test]
fn wait_for_attach() {
    // It publishes nothing and unpublishes nothing.
    let transient = [FAIL, CRASH, SPIN, FLOOD].map(|(word, _, cause)| (word, "transient", cause));
    let lie = ("lie", "final", "device has not been found yet");
    while_it_is_made("wait-for-attach", Mode::Filesystem, &[&transient[..], &[DOUBT, lie]].concat());
}

#[test]
fn stage() {
    let lie = ("lie", "final", "no mount is at the staging target");
    while_it_is_made(
        "stage",
        Mode::Filesystem,
        &[FAIL, FAIL_AFTER, DOUBT, DOUBT_AFTER, CRASH, CRASH_AFTER, SPIN, SPIN_AFTER, FLOOD, lie],
    );
}

#[test]
fn publish() {
    let lie = ("lie", "final", "nothing is at the target");
    while_it_is_made(
        "publish",
        Mode::Filesystem,
        &[FAIL, FAIL_AFTER, DOUBT, DOUBT_AFTER, CRASH, CRASH_AFTER, SPIN, SPIN_AFTER, FLOOD, lie],
    );
}

#[test]
fn stage_device() {
    while_it_is_made("stage-device", Mode::Block, &[FAIL, DOUBT, CRASH, SPIN, FLOOD]);
}

#[test]
fn map_device() {
    // The device is ready by then; the rest of the map is unknown.
    let uncertain = [FAIL, DOUBT, CRASH, SPIN, FLOOD].map(|(word, _, cause)| (word, "uncertain", cause));
    while_it_is_made("map-device", Mode::Block, &uncertain);
}

#[test]
fn unpublish() {
    let lie = ("lie", "", "a mount is still at the target");
    while_it_is_unmounted(
        "unpublish",
        Mode::Filesystem,
        &[FAIL, DOUBT, DOUBT_AFTER, CRASH, CRASH_AFTER, SPIN, SPIN_AFTER, FLOOD, lie],
    );
}

#[test]
fn unstage() {
    let lie = ("lie", "", "a mount is still at the target");
    while_it_is_unmounted(
        "unstage",
        Mode::Filesystem,
        &[FAIL, DOUBT, DOUBT_AFTER, CRASH, CRASH_AFTER, SPIN, SPIN_AFTER, FLOOD, lie],
    );
}

#[test]
fn detach() {
    let lie = ("lie", "", "it still finds the volume attached");
    while_it_is_unmounted(
        "detach",
        Mode::Filesystem,
        &[FAIL, DOUBT, DOUBT_AFTER, CRASH, CRASH_AFTER, SPIN, SPIN_AFTER, FLOOD, lie],
    );
}

#[test]
fn unmap_device() {
    while_it_is_unmounted("unmap-device", Mode::Block, &[FAIL, DOUBT, CRASH, SPIN, FLOOD]);
}

#[test]
fn unstage_device() {
    while_it_is_unmounted("unstage-device", Mode::Block, &[FAIL, DOUBT, CRASH, SPIN, FLOOD]);
}

#[test]
fn expand_while_it_is_used() {
    let host = OrderedNode::start();
    let lie = ("lie", "final", "is less than the");
    for (word, class, cause) in [FAIL, DOUBT, DOUBT_AFTER, CRASH, CRASH_AFTER, SPIN, SPIN_AFTER, FLOOD, lie] {
        let volume = format!("v-{word}");
        host.want(&volume, Mode::Filesystem);
        host.node.wait_mounted(&format!("default/{volume}"));
        host.order(&volume, "expand", word);
        host.want_with_size(&volume, Mode::Filesystem, "2Mi");
        host.wait_failure(&volume, cause);
        let view = host.view(&volume);
        assert_eq!((&view["failure"]["class"], &view["state"]), (&class.into(), &"Mounted".into()), "{word}: {view}");
        host.relent(&volume, "expand", word);
        host.node.wait_event(&["FileSystemResizeSuccessful", &volume]);
        host.assert_others_never_noticed();
        host.give_up(&volume);
        host.wait_nothing_left(&volume);
    }
}

#[test]
fn measure() {
    let host = OrderedNode::start();
    for (word, _, cause) in [FAIL, DOUBT, CRASH, SPIN, FLOOD] {
        let volume = format!("v-{word}");
        host.order(&volume, "measure", word);
        host.want(&volume, Mode::Filesystem);
        host.node.wait_mounted(&format!("default/{volume}"));
        let answered = (0..LOOKS).map(|_| host.view(&volume)["usage"].clone());
        let usage = answered.into_iter().find(|usage| usage["askedAt"].is_null()).unwrap();
        assert!(usage["problem"].as_str().unwrap().contains(cause), "{word}: {usage}");
        assert!(usage["capacity"].as_u64() > Some(1000), "the file system's own: {usage}");
        assert_eq!(host.view(&volume)["state"], "Mounted");
    }
    let usage = &host.view("bystander")["usage"];
    assert_eq!((&usage["capacity"], &usage["used"]), (&1000.into(), &250.into()), "the plugin knows better: {usage}");
    assert_eq!(usage["abnormal"], "one of two paths is lost");
    let metrics = host.node.ok(&["metrics"]);
    let abnormal = "kubelet_volume_stats_health_status_abnormal{namespace=\"default\",persistentvolumeclaim=\"bystander-claim\"} 1";
    assert!(metrics.contains(abnormal), "{metrics}");
    host.assert_others_never_noticed();
}
