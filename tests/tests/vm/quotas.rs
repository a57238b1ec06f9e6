//! Project quotas: the root folder on an ext4 and on an XFS that are mounted with `prjquota`.

use volhost_tests::manifests::pod;
use volhost_tests::vm::Guest;

use crate::kit::Daemon;

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
const LIMIT: u64 = 16 << 20;
/// Runs a command as the root of a container: without the capability that overrides quotas.
const AS_A_POD: &str = "setpriv --bounding-set=-sys_resource";

/// A daemon whose root folder lies on a file system of its own.
struct Limited<'a> {
    guest: &'a Guest,
    daemon: Daemon<'a>,
}

impl<'a> Limited<'a> {
    /// Starts it on a new file system, which `make` makes on an image.
    fn start(guest: &'a Guest, name: &'static str, make: &str) -> Self {
        guest.run(&format!(
            "mkdir -p /disk/images /disk/{name}/root; image=/disk/images/of-{name}; truncate -s 400M $image
             {make} $image; mount -o loop,prjquota $image /disk/{name}/root"
        ));
        Self { guest, daemon: Daemon::start(guest, name, &["empty-dir"]) }
    }

    fn volume(&self, uid: &str, name: &str) -> String {
        format!("{}/root/pods/{uid}/volumes/{EMPTY_DIR}/{name}", self.daemon.folder())
    }

    /// The project of a folder.
    fn project(&self, folder: &str) -> u64 {
        let listed = self.guest.run(&format!("lsattr -dp {folder}"));
        listed.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{listed}"))
    }

    /// The projects with files or a limit, and the limit of each, in KiB, as the administrator's
    /// program has them.
    fn limits(&self) -> Vec<(u64, u64)> {
        let report = self.guest.run(&format!("repquota -Pn {}/root", self.daemon.folder()));
        let lines = report.lines().filter_map(|line| line.strip_prefix('#'));
        lines
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                (words[0].parse().unwrap(), words[4].parse().unwrap())
            })
            .filter(|(project, _)| *project != 0)
            .collect()
    }

    /// Writes files of 1 MiB into a folder until it is refused. Returns their number, and the
    /// refusal.
    fn fill(&self, folder: &str) -> (u64, String) {
        let filled = self.guest.run(&format!(
            "{AS_A_POD} sh -c 'mkdir -p {folder}/deep; n=0
             while head -c 1M /dev/zero >{folder}/deep/$n; do n=$((n + 1)); [ $n -lt 40 ] || break; done 2>{0}/refusal
             sync -f {folder}; echo $n'; cat {0}/refusal",
            self.daemon.folder()
        ));
        let (count, refusal) = filled.split_once('\n').unwrap();
        (count.parse().unwrap(), refusal.to_owned())
    }

    /// The size of a pod's volume and the bytes in use, as volhost reports them.
    fn usage(&self, pod: &str) -> (u64, u64) {
        let shown = self.daemon.volhost("get volumes -o json");
        assert!(shown.succeeded(), "{shown:?}");
        let shown: serde_json::Value = serde_json::from_str(&shown.output).unwrap();
        let volumes = shown["items"].as_array().unwrap().iter().map(|volume| &volume["status"]);
        let found = volumes
            .into_iter()
            .find(|volume| volume["pod"] == format!("default/{pod}") && volume["specName"] == "cache");
        let usage = &found.unwrap_or_else(|| panic!("{shown:#}"))["usage"];
        (usage["capacity"].as_u64().unwrap(), usage["used"].as_u64().unwrap())
    }
}

fn limited_pod(name: &str, uid: &str) -> String {
    pod(name, uid, &["name: cache, emptyDir: { sizeLimit: 16Mi }", "name: free, emptyDir: {}"])
}

/// All that a file system with project quotas is to do for the volumes of two pods.
fn check(limited: &Limited<'_>, refusal: &str) {
    let Limited { guest, daemon } = limited;
    for name in ["a", "b"] {
        daemon.add(&format!("{name}.yaml"), &limited_pod(name, &format!("uid-{name}")));
    }
    daemon.wait_mounted("default/a");
    daemon.wait_mounted("default/b");
    let (a, b) = (limited.volume("uid-a", "cache"), limited.volume("uid-b", "cache"));
    let (of_a, of_b) = (limited.project(&a), limited.project(&b));
    assert!(of_a != of_b && of_a >= 1 << 30 && of_b >= 1 << 30, "{of_a} {of_b}");
    assert_eq!(limited.project(&limited.volume("uid-a", "free")), 0);
    let mut both = vec![(of_a, LIMIT >> 10), (of_b, LIMIT >> 10)];
    both.sort_unstable();
    assert_eq!(limited.limits(), both);

    let (written, refused) = limited.fill(&a);
    assert!((15..=16).contains(&written) && refused.contains(refusal), "{written} {refused}");
    // Only this volume is full.
    guest.run(&format!(
        "{AS_A_POD} head -c 8M /dev/zero | {AS_A_POD} tee {b}/half {}/file >/dev/null",
        limited.volume("uid-a", "free")
    ));
    assert_eq!(guest.run(&format!("df -B1 --output=size {a} | tail -n 1")).trim(), LIMIT.to_string());
    // What is removed can be written again.
    guest.run(&format!("rm {a}/deep/0; {AS_A_POD} head -c 1000K /dev/zero >{a}/deep/0"));

    // A file of another project is not counted: the files themselves were not looked at.
    guest.run(&format!("head -c 4M /dev/zero >{b}/uncounted; chattr -p 0 {b}/uncounted; sync -f {b}"));
    let (size, used) = limited.usage("b");
    assert_eq!(size, LIMIT);
    assert!((8 << 20..9 << 20).contains(&used), "{used}");

    // The daemon is gone while one of the pods goes.
    daemon.kill();
    daemon.remove("a.yaml");
    daemon.run();
    daemon.wait_unmounted("default/a");
    daemon.wait_mounted("default/b");
    assert_eq!((limited.project(&b), limited.limits()), (of_b, vec![(of_b, LIMIT >> 10)]));
    let (written, refused) = limited.fill(&b);
    assert!((7..=8).contains(&written) && refused.contains(refusal), "{written} {refused}");

    daemon.remove("b.yaml");
    daemon.wait_unmounted("default/b");
    assert_eq!(limited.limits(), [], "no project is left");
}

impl Drop for Limited<'_> {
    fn drop(&mut self) {
        let _ = self.guest.try_run(&format!(
            "kill -9 $(cat /run/$(basename {0}).pid); umount -l {0}/root; umount -l {0}/root",
            self.daemon.folder()
        ));
    }
}

#[test]
fn ext4_keeps_each_empty_dir_below_its_limit() {
    let guest = Guest::borrow();
    let limited = Limited::start(&guest, "quota-ext4", "mke2fs -q -F -t ext4 -O quota,project -E quotatype=prjquota");
    check(&limited, "Disk quota exceeded");
}

#[test]
fn xfs_keeps_each_empty_dir_below_its_limit() {
    let guest = Guest::borrow();
    let limited = Limited::start(&guest, "quota-xfs", "mkfs.xfs -q");
    check(&limited, "No space left on device");
}

#[test]
fn a_project_of_the_operator_and_a_file_system_without_limits_are_left_alone() {
    let guest = Guest::borrow();
    let limited = Limited::start(&guest, "quota-own", "mke2fs -q -F -t ext4 -O quota,project -E quotatype=prjquota");
    let (daemon, root) = (&limited.daemon, format!("{}/root", limited.daemon.folder()));
    // The operator limits all pods together.
    guest.run(&format!("mkdir -p {root}/pods; chattr +P -p 7 {root}/pods; setquota -P 7 0 65536 0 0 {root}"));
    daemon.add("a.yaml", &limited_pod("a", "uid-a"));
    daemon.wait_mounted("default/a");
    assert_eq!(limited.project(&limited.volume("uid-a", "cache")), 7);
    assert_eq!(limited.limits(), [(7, 65536)]);
    // Nothing enforces its own limit: it is watched.
    let (written, _) = limited.fill(&limited.volume("uid-a", "cache"));
    assert_eq!(written, 40);
    daemon.wait_event(&["ExceedsSizeLimit", "default/a", "cache"]);
    daemon.remove("a.yaml");
    daemon.wait_unmounted("default/a");
    assert_eq!(limited.limits(), [(7, 65536)]);
}
