//! Plugins that try to reach foreign paths, devices and drivers by every primitive that takes text
//! from them. Each row runs on the in-memory kernel and on the real one, in a mount namespace of
//! its own; on both nothing may change except what the row allows.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use nix::sched::{CloneFlags, unshare};
use serde_json::json;
use volhost_kernel::Kernel;
use volhost_process::linux_kernel;
use volhost_runtime::CallError;

use super::host::Host;

/// The primitive, its text, and possible words of the refusal, of which the error must have one.
/// `$G` is a folder that is granted as a host path, `$O` one that is not; the plugin is also
/// granted `/images`, the device `/dev/granted`, the driver `granted.example.com` and the program
/// `granted/driver`.
type Row = (&'static str, &'static str, &'static [&'static str]);

const OUTSIDE: &[&str] = &[
    "not within",
    "outside",
    "no granted",
    "not granted",
    "granted",
    "..",
    "absolute",
    "not a path",
    "symbolic link",
    "No such file",
];
const BAD_PATH: &[&str] = &["path", "NUL", "too long", "name", "granted", "absolute"];
const BAD_OPTION: &[&str] = &["option"];
const BAD_SERVER: &[&str] = &["server"];
const BAD_SHARE_PATH: &[&str] = &["must be relative", "control character", "longer than"];
const BAD_PORTAL: &[&str] = &["must be an IP address"];
const BAD_NAME: &[&str] = &["must be an iSCSI name"];
const BAD_UNIT: &[&str] = &["the name of a unit must begin with"];
const BAD_IMAGE: &[&str] = &["is no ", "names no registry"];
const NOT_GRANTED: &[&str] = &["not granted"];
const NOT_NAMED: &[&str] = &["does not name", "did not say"];
const BAD_FILE_PATH: &[&str] = &["path", "name"];

const ROWS: &[Row] = &[
    // Paths of the host.
    ("open", "/", OUTSIDE),
    ("open", "/etc", OUTSIDE),
    ("open", "$O", OUTSIDE),
    ("open", "$O/secret", OUTSIDE),
    ("open", "$G/../outside", OUTSIDE),
    ("open", "$G/./../outside/secret", OUTSIDE),
    ("open", "$Gx", OUTSIDE),
    ("open", "granted", BAD_PATH),
    ("open", "", BAD_PATH),
    ("open", "$G/nul\0", BAD_PATH),
    ("open", "$G/link", OUTSIDE),
    ("open", "$G/link/secret", OUTSIDE),
    ("open", "$G/$LONG", BAD_PATH),
    ("open", "/proc/self/root$O", OUTSIDE),
    ("open", "/proc/self/fd/0", OUTSIDE),
    ("create-directory", "$O/new", OUTSIDE),
    ("create-directory", "$G/../outside/new", OUTSIDE),
    ("create-directory", "$G/link/new", OUTSIDE),
    ("create-directory", "/", OUTSIDE),
    ("create-file", "$O/new", OUTSIDE),
    ("create-file", "$G/link/new", OUTSIDE),
    ("create-file", "$G/..", OUTSIDE),
    ("create-file", "$G/nul\0", BAD_PATH),
    // Images and devices.
    ("image", "$O/image", OUTSIDE),
    ("image", "/images/../outside", OUTSIDE),
    ("loop", "$O/secret", OUTSIDE),
    ("loop", "/dev/null", OUTSIDE),
    ("remove-loop", "$O/secret", OUTSIDE),
    ("mount-image", "$O/secret", OUTSIDE),
    ("mount-image", "/images/../../etc/passwd", OUTSIDE),
    ("image-type", "tmpfs", &["type", "No such file", "granted", "tmpfs"]),
    ("image-type", "erofs,rw", &["type", "No such file", "erofs,rw"]),
    ("image-option", "context", &["label"]),
    ("image-option", "fscontext", &["label"]),
    ("device", "/dev/mem", OUTSIDE),
    ("device", "/dev/granted/../mem", OUTSIDE),
    ("device", "/dev/null", OUTSIDE),
    ("device", "1:1", BAD_PATH),
    // Options of mounts.
    ("tmpfs-option", "size=1m,suid", BAD_OPTION),
    ("tmpfs-option", "source", BAD_OPTION),
    ("tmpfs-option", "mode=0777\nuid=0", BAD_OPTION),
    ("tmpfs-option", "context", BAD_OPTION),
    ("tmpfs-option", "$LONG", BAD_OPTION),
    ("tmpfs-size", "1m,uid=0", &["option", "size", "Invalid"]),
    ("tmpfs-size", "all\0", &["option", "size", "NUL"]),
    ("set-option", "ro,suid", BAD_OPTION),
    ("set-option", "rbind", BAD_OPTION),
    ("set-option", "remount", BAD_OPTION),
    ("set-option", "", BAD_OPTION),
    // Servers, and what they export.
    ("share", "192.0.2.2", NOT_GRANTED),
    ("share", "::1", NOT_GRANTED),
    ("share", "192.0.2.1,addr=192.0.2.2", BAD_SERVER),
    ("share", "192.0.2.1:/x", BAD_SERVER),
    ("share", "a\0b", BAD_SERVER),
    ("share", "", BAD_SERVER),
    ("share", "*", BAD_SERVER),
    ("share", "$LONG", BAD_SERVER),
    ("share-path", "../etc", BAD_PATH),
    ("share-path", "/../etc", BAD_PATH),
    ("share-path", "/a\nb", BAD_PATH),
    ("share-path", "$LONG", BAD_PATH),
    ("share-type", "ext4", &["over the network"]),
    ("share-type", "nfs\0", &["over the network"]),
    ("share-option", "addr", BAD_OPTION),
    ("share-option", "mounthost", BAD_OPTION),
    ("share-option", "", BAD_OPTION),
    ("share-option", "$LONG", BAD_OPTION),
    ("share-value", "4.2,addr=192.0.2.2", BAD_OPTION),
    ("share-value", "4.2\nsource=x", BAD_OPTION),
    ("share-value", "$LONG", BAD_OPTION),
    ("cifs-path", "/", BAD_PATH),
    ("cifs-path", "/share/../other", BAD_PATH),
    ("cifs-path", "/share\\..\\other", BAD_PATH),
    ("cifs-option", "ip", BAD_OPTION),
    ("cifs-option", "unc", BAD_OPTION),
    ("cifs-option", "password", BAD_OPTION),
    ("cifs-option", "multichannel", BAD_OPTION),
    // Folders of a share that the call has mounted, and of no other mount.
    ("share-folder", "../outside", BAD_SHARE_PATH),
    ("share-folder", "/etc/outside", BAD_SHARE_PATH),
    ("share-folder", "a//b", BAD_SHARE_PATH),
    ("share-folder", "", &["names no folder"]),
    ("share-folder", "a\nb", BAD_SHARE_PATH),
    ("share-folder", "$LONG", BAD_SHARE_PATH),
    ("share-folder", "good", &["a mount of a share"]),
    ("share-file", "a/../b", BAD_SHARE_PATH),
    ("share-file", "good", &["a mount of a share"]),
    ("share-move", "./b", BAD_SHARE_PATH),
    ("share-move", "good", &["a mount of a share"]),
    // iSCSI targets. Nothing of what is refused reaches `iscsiadm`.
    ("portal", "192.0.2.2", NOT_GRANTED),
    ("portal", "::1", NOT_GRANTED),
    ("portal", "nas.example.com", BAD_PORTAL),
    ("portal", "192.0.2.1,192.0.2.2", BAD_PORTAL),
    ("portal", "192.0.2.1:3260", BAD_PORTAL),
    ("portal", "-p", BAD_PORTAL),
    ("portal", "", BAD_PORTAL),
    ("portal", "$LONG", BAD_PORTAL),
    ("target", "--login", BAD_NAME),
    ("target", "iqn.a/../../b", BAD_NAME),
    ("target", "iqn.a\nnode.startup = automatic", BAD_NAME),
    ("target", "iqn.a b", BAD_NAME),
    ("target", "iqn.a\0", BAD_NAME),
    ("target", "", BAD_NAME),
    ("target", "$LONG", BAD_NAME),
    ("target-gone", "iqn.a/../../b", BAD_NAME),
    ("interface", "-I", &["interface"]),
    ("interface", "../default", &["interface"]),
    ("interface", "$LONG", &["interface"]),
    ("initiator", "iqn.a\niface.transport_name = x", BAD_NAME),
    ("initiator", "--op", BAD_NAME),
    // Fibre Channel targets. No adapter looks for what is refused.
    ("fc-port", "50060e801049cfd2", NOT_GRANTED),
    ("fc-port", "0x50060E801049CFD2", NOT_GRANTED),
    ("fc-port", "*", &["16 hexadecimal digits"]),
    ("fc-port", "../../../../etc/passwd", &["16 hexadecimal digits"]),
    ("fc-port", "50060e801049cfd1\n", &["16 hexadecimal digits"]),
    ("fc-port", "$LONG", &["16 hexadecimal digits"]),
    ("fc-lun", "256", &["at most 255"]),
    ("fc-unit", "3600508b400105e210000900000490001", NOT_GRANTED),
    ("fc-unit", "*", BAD_UNIT),
    ("fc-unit", "../sda", BAD_UNIT),
    ("fc-unit", "a/../../sda", BAD_UNIT),
    ("fc-unit", "a\0", BAD_UNIT),
    ("fc-unit", "", BAD_UNIT),
    ("fc-unit", "$LONG", BAD_UNIT),
    ("fc-gone", "3600508b400105e210000900000490001", NOT_GRANTED),
    // Images. No registry is asked for what is refused.
    ("oci-image", "other.example/app:1", NOT_GRANTED),
    ("oci-image", "r.example.evil/app:1", NOT_GRANTED),
    ("oci-image", "user@r.example/app", BAD_IMAGE),
    ("oci-image", "nginx", NOT_GRANTED),
    ("oci-image", "r.example/../app", BAD_IMAGE),
    ("oci-image", "r.example/app:1 --help", BAD_IMAGE),
    ("oci-image", "r.example/app@sha256:../..", BAD_IMAGE),
    ("oci-image", "https://r.example/app", BAD_IMAGE),
    ("oci-image", "", BAD_IMAGE),
    ("oci-image", "$LONG", BAD_IMAGE),
    ("oci-image", "oci:$O", NOT_GRANTED),
    ("oci-image", "oci:$G/../outside", BAD_IMAGE),
    ("oci-image", "oci:/layouts/../etc", BAD_IMAGE),
    ("oci-image", "oci:/layoutsx", NOT_GRANTED),
    ("oci-image", "oci:/", NOT_GRANTED),
    ("oci-image", "oci:relative", NOT_GRANTED),
    // Paths inside of its own volume.
    ("inner-folder", "../outside", BAD_FILE_PATH),
    ("inner-folder", "/etc/outside", BAD_FILE_PATH),
    ("inner-folder", "a/../../outside", BAD_FILE_PATH),
    ("inner-folder", "a\0b", BAD_FILE_PATH),
    ("inner-folder", "$LONG", &["path", "name", "long"]),
    ("file", "../outside", BAD_FILE_PATH),
    ("file", "/etc/outside", BAD_FILE_PATH),
    ("file", "a/../../outside", BAD_FILE_PATH),
    ("file", "..data", BAD_FILE_PATH),
    ("file", "a\0b", BAD_FILE_PATH),
    ("file", "$LONG", &["path", "name", "long"]),
    // Objects, drivers, other volumes.
    ("secret", "mine", NOT_NAMED),
    ("secret", "../kube-system/mine", NOT_NAMED),
    ("config-map", "mine", NOT_NAMED),
    ("referenced", "nodeStageSecretRef", &["refer", "pod", "field", "name"]),
    ("call", "other.example.com", NOT_GRANTED),
    ("call", "granted.example.com.evil", NOT_GRANTED),
    ("call", "*", NOT_GRANTED),
    ("method", "no method", &["is no gRPC method"]),
    ("method", "/a/b\r\nx: y", &["is no gRPC method"]),
    ("run", "other/driver", NOT_GRANTED),
    ("run", "granted/driver/../../../bin/sh", NOT_GRANTED),
    ("run", "*", NOT_GRANTED),
    ("volume", "of-another", NOT_NAMED),
    ("volume", "../uid-2/volumes", NOT_NAMED),
    // Its target.
    ("attach-twice", "", &["mounted", "Busy", "busy", "already"]),
    ("delete-mount", "", &["mount"]),
];

/// The grants of the plugin, with these lines besides.
pub(crate) fn grants(folder: &str, lines: &str) -> String {
    format!(
        "[\"fixture.volhost/trespassing\"]\ninterfaces = [\"files\", \"share-folders\", \"secrets\", \"config-maps\", \"pod-volumes\"]\n\
         host-paths = [{folder:?}]\nloop-files = [\"/images\"]\nimage-files = [\"/images\"]\nnetwork-servers = [\"192.0.2.1\"]\niscsi-portals = [\"192.0.2.1\"]\nfc-targets = [\"50060e801049cfd1\", \"3600508b400105e210000900000490000\"]\nimage-registries = [\"r.example\"]\nimage-layouts = [\"/layouts\"]\nblock-devices = [\"/dev/granted\"]\n\
         csi-drivers = [\"granted.example.com\"]\nflex-drivers = [\"granted/driver\"]\n{lines}\n"
    )
}

/// Tries every row; `picture` is what a change would be seen in.
fn try_all(host: &Host, base: &str, picture: impl Fn() -> String) {
    let plugin = host.fixture("fixture-trespassing");
    let before = picture();
    let mut wrong = Vec::new();
    for (how, word, words) in ROWS {
        let word = word
            .replace("$LONG", &"x".repeat(70_000))
            .replace("$G", &format!("{base}/granted"))
            .replace("$O", &format!("{base}/outside"));
        let shown: String = word.chars().take(60).collect();
        match host.publish(&plugin, "target", json!({ "how": how, "word": word })) {
            Err(CallError::Plugin(error)) if words.iter().any(|words| error.message.contains(words)) => {}
            Err(error @ CallError::BrokeContract { .. })
                if words.iter().any(|words| error.message().contains(words)) => {}
            other => wrong.push(format!("{how} {shown:?}: {:?}", other.map_err(|error| error.message()))),
        }
        let after = picture();
        if after != before {
            wrong.push(format!("{how} {shown:?} changed something:\n{before}\n{after}"));
            break;
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ROWS.len(), wrong.join("\n"));
}

/// Tries every way to name a path with one that exists and one that does not, neither of them
/// granted. The answers must be equal.
fn compare_answers(host: &Host, base: &str) {
    const WAYS: [&str; 8] =
        ["open", "create-directory", "create-file", "image", "loop", "remove-loop", "mount-image", "device"];
    let plugin = host.fixture("fixture-trespassing");
    let answer = |how: &str, word: &str| match host.publish(&plugin, "target", json!({ "how": how, "word": word })) {
        Err(CallError::Plugin(error)) => format!("{:?} {}", error.case, error.message.replace(word, "PATH")),
        other => format!("{:?}", other.map_err(|error| error.message())),
    };
    for how in WAYS {
        let outside = [
            ("outside/secret", "outside/nothing"),
            ("outside/secret", "outside/nothing/below"),
            ("outside/way-in", "outside/nothing"),
            ("granted/link", "granted/link-to-nothing"),
            ("granted/link/secret", "granted/link/nothing"),
        ];
        for (there, missing) in outside.map(|(one, two)| (format!("{base}/{one}"), format!("{base}/{two}"))) {
            let (there, missing) = (answer(how, &there), answer(how, &missing));
            assert_eq!(there, missing, "{how}");
            assert!(there.contains("PermissionDenied PATH"), "{how}: {there}");
        }
    }
}

#[test]
fn what_is_not_granted_looks_the_same_whether_or_not_it_exists() {
    let host = Host::granting(&grants("/srv/granted", ""));
    let machine = host.machine();
    for folder in ["/srv/granted", "/srv/outside/secret", "/images"] {
        machine.add_folder(folder).unwrap();
    }
    machine.add_symlink("/srv/granted/link", "/srv/outside").unwrap();
    machine.add_symlink("/srv/granted/link-to-nothing", "/srv/nothing").unwrap();
    machine.add_symlink("/srv/outside/way-in", "/srv/granted").unwrap();
    compare_answers(&host, "/srv");
}

#[test]
fn on_a_machine_in_memory() {
    let host = Host::granting(&grants("/srv/granted", ""));
    let machine = host.machine();
    for folder in ["/srv/granted", "/srv/outside/secret", "/images", "/outside", "/etc"] {
        machine.add_folder(folder).unwrap();
    }
    machine.add_symlink("/srv/granted/link", "/srv/outside").unwrap();
    let picture = || {
        let lists = ["/", "/srv", "/srv/granted", "/srv/outside", "/images", "/etc", "/var/lib/volhost"];
        let lists: Vec<_> = lists.iter().map(|path| machine.list(path)).collect();
        format!("{lists:?} {:?} {}", machine.mounts(), machine.detached_count())
    };
    try_all(&host, "/srv", picture);
}

/// Every file below the folder, and every mount of this thread's namespace.
fn picture(folder: &Path) -> String {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                folders.push(path.clone());
            }
            names.push(path);
        }
    }
    names.sort();
    format!("{names:?}\n{}", fs::read_to_string("/proc/thread-self/mountinfo").unwrap())
}

#[test]
fn on_the_real_kernel() {
    // A thread of its own, in a mount namespace of its own that ends with it.
    let tried = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)
            .expect("a mount namespace can be made: this needs root");
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["granted", "outside/secret", "root"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(base.join("outside"), base.join("granted/link")).unwrap();
        std::os::unix::fs::symlink(base.join("nothing"), base.join("granted/link-to-nothing")).unwrap();
        std::os::unix::fs::symlink(base.join("granted"), base.join("outside/way-in")).unwrap();
        let kernel = Arc::new(linux_kernel());
        let root = kernel.prepare_root(&base.join("root"), volhost_kernel::Propagation::Private).unwrap();
        let base = base.to_str().unwrap();
        let host = Host::over(kernel, root, &grants(&format!("{base}/granted"), ""));
        try_all(&host, base, || picture(folder.path()));
        compare_answers(&host, base);
    });
    tried.join().unwrap();
}
