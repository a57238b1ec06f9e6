//! The steps on a made-up machine: a folder as sysfs, and a script as `iscsiadm` that writes down
//! its arguments and makes sessions there. `tests/tests/vm/iscsi.rs` has the real ones.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use volhost_model::iscsi::{Chap, ChapUser, IscsiError, IscsiSessions, LogicalUnit};

use crate::places::Places;
use crate::sessions::OpenIscsi;

const TARGET: &str = "iqn.2003-01.org.example:disk";
/// What open-iscsi does, as far as these tests need it. `$B` is the machine's folder.
const SCRIPT: &str = r#"#!/bin/sh
echo "$*" >>$B/calls
case "$*" in
*"-o new") case "$*" in "-m iface"*) exit 0 ;; esac
    folder=$B/records/nodes/$4; mkdir -p $folder
    file=$folder/$(echo "$6" | sed 's/^\[//; s/\]//; s/:\([0-9]*\)$/,\1/')
    printf '# BEGIN RECORD 2\niface.iscsi_ifacename = %s\nnode.session.scan = auto\n# END RECORD\n' "$8" >$file ;;
*"-o delete") rm -f $B/records/nodes/$4/$(echo "$6" | sed 's/^\[//; s/\]//; s/:\([0-9]*\)$/,\1/') ;;
*--login) [ ! -e $B/login ] || { echo "iscsiadm: words of the login" >&2; exit $(cat $B/login); }
    touch $B/logged-in ;;
*discovery*) echo "127.0.0.1:3260,1 iqn.2003-01.org.example:other" ;;
*" -u") rm -rf $B/sys/class/iscsi_session/session$4 $B/sys/devices/host0/session$4 ;;
esac
"#;

struct Machine {
    folder: tempfile::TempDir,
    listener: TcpListener,
}

impl Machine {
    fn new() -> Self {
        let machine =
            Self { folder: tempfile::tempdir().unwrap(), listener: TcpListener::bind("127.0.0.1:0").unwrap() };
        for folder in ["sys/class/iscsi_session", "dev", "bin", "records"] {
            fs::create_dir_all(machine.path(folder)).unwrap();
        }
        machine
    }

    fn with_program(self) -> Self {
        let program = self.path("bin/iscsiadm");
        fs::write(&program, SCRIPT.replace("$B", &self.folder.path().display().to_string())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    fn portal(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    fn unit(&self, lun: u32) -> LogicalUnit {
        let (target, interface) = (TARGET.to_owned(), "default".to_owned());
        LogicalUnit { target, lun, portals: vec![self.portal()], interface, initiator: None }
    }

    fn initiator(&self) -> OpenIscsi {
        OpenIscsi::new(Places {
            sysfs: self.path("sys"),
            devices: self.path("dev"),
            programs: vec![self.path("bin")],
            records: vec![self.path("records")],
        })
    }

    /// A session with these units, as the kernel shows it.
    fn session(&self, id: u32, portal: SocketAddr, state: &str, units: &[u32]) {
        let device = self.path(&format!("sys/devices/host0/session{id}"));
        fs::create_dir_all(&device).unwrap();
        for lun in units {
            let unit = device.join(format!("target0:0:0/0:0:0:{lun}"));
            let block = unit.join(format!("block/sd{lun}"));
            fs::create_dir_all(&block).unwrap();
            fs::write(block.join("dev"), format!("8:{lun}\n")).unwrap();
            for file in ["delete", "rescan"] {
                fs::write(unit.join(file), "").unwrap();
            }
            fs::write(self.path(&format!("dev/sd{lun}")), "").unwrap();
        }
        let host = self.path("sys/devices/host0/scsi_host/host0");
        fs::create_dir_all(&host).unwrap();
        fs::write(host.join("scan"), "").unwrap();
        let class = self.path(&format!("sys/class/iscsi_session/session{id}"));
        fs::create_dir_all(&class).unwrap();
        symlink(&device, class.join("device")).unwrap();
        write_all(&class, &[("targetname", TARGET), ("state", state), ("ifacename", "default")]);
        let connection = self.path(&format!("sys/class/iscsi_connection/connection{id}:0"));
        fs::create_dir_all(&connection).unwrap();
        let (address, port) = (portal.ip().to_string(), portal.port().to_string());
        write_all(&connection, &[("persistent_address", &address), ("persistent_port", &port)]);
    }

    /// A multipath map over the unit of this number of these sessions, as the kernel shows it.
    fn map(&self, lun: u32, sessions: &[u32], uuid: &str) {
        for id in sessions {
            let unit = self.path(&format!("sys/devices/host0/session{id}/target0:0:0/0:0:0:{lun}"));
            let holder = unit.join(format!("block/sd{lun}/holders/dm-4"));
            fs::create_dir_all(holder.join("dm")).unwrap();
            write_all(&holder, &[("dev", "253:4"), ("dm/uuid", uuid), ("dm/name", "mpatha")]);
        }
        fs::write(self.path("dev/dm-4"), "").unwrap();
        for (program, answer) in [("multipath", "exit 0"), ("multipathd", "echo ok")] {
            let path = self.path(&format!("bin/{program}"));
            let calls = self.path("calls");
            let text = format!("#!/bin/sh\necho \"{program} $*\" >>{}\n{answer}\n", calls.display());
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// The record that says that volhost has made the session with this portal.
    fn own(&self, portal: SocketAddr) {
        let record = self.path(&format!("records/nodes/{TARGET}/127.0.0.1,{}", portal.port()));
        fs::create_dir_all(record.parent().unwrap()).unwrap();
        fs::write(&record, "iface.iscsi_ifacename = default\nnode.session.scan = manual\n").unwrap();
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }
}

fn write_all(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        fs::write(folder.join(name), format!("{text}\n")).unwrap();
    }
}

#[test]
fn a_unit_of_a_session_is_found_by_target_portal_and_number() {
    let machine = Machine::new().with_program();
    machine.session(1, "192.0.2.9:3260".parse().unwrap(), "LOGGED_IN", &[5]);
    machine.session(2, machine.portal(), "LOGGED_IN", &[0, 3]);
    let device = machine.initiator().connect(&machine.unit(3), None).unwrap();
    assert_eq!((device.path, device.number), (machine.path("dev/sd3"), (8, 3)));
    assert_eq!(machine.calls(), "", "nothing has to be run");
    let missing = machine.initiator().connect(&machine.unit(5), None).unwrap_err();
    assert!(matches!(&missing, IscsiError::NotFound(text) if text.contains("no LUN 5")), "{missing}");
    let scan = fs::read_to_string(machine.path("sys/devices/host0/scsi_host/host0/scan")).unwrap();
    assert_eq!(scan, "0 0 5", "that unit alone was looked for");
    machine.initiator().rescan(&machine.unit(3)).unwrap();
    let unit = machine.path("sys/devices/host0/session2/target0:0:0/0:0:0:3");
    assert_eq!(fs::read_to_string(unit.join("rescan")).unwrap(), "1");
}

#[test]
fn a_password_is_in_the_record_and_in_no_argument_and_a_failed_login_leaves_none() {
    let machine = Machine::new().with_program();
    let bytes = |text: &str| text.as_bytes().into();
    let chap = Chap { node: ChapUser { name: bytes("node"), password: bytes("hunter2hunter2") }, target: None };
    let failed = machine.initiator().connect(&machine.unit(0), Some(&chap)).unwrap_err();
    assert!(matches!(failed, IscsiError::Retryable(_)), "no session came of it: {failed}");
    let folder = machine.path(&format!("records/nodes/{TARGET}"));
    let file = folder.join(format!("127.0.0.1,{}", machine.portal().port()));
    let record = fs::read_to_string(&file).unwrap();
    assert!(record.contains("node.session.auth.password = hunter2hunter2\n"), "{record}");
    fs::write(machine.path("login"), "24").unwrap();
    let refused = machine.initiator().connect(&machine.unit(0), Some(&chap)).unwrap_err();
    assert!(matches!(&refused, IscsiError::Refused(text) if text.contains("CHAP")), "{refused}");
    assert!(!file.exists());
    assert!(!machine.calls().contains("hunter2") && !refused.to_string().contains("hunter2"));
}

#[test]
fn each_cause_of_a_failed_login_is_named() {
    let machine = Machine::new();
    let error = machine.initiator().connect(&machine.unit(0), None).unwrap_err();
    assert!(matches!(&error, IscsiError::NotReady(text) if text.contains("install open-iscsi")), "{error}");
    let machine = machine.with_program();
    for (code, words) in [
        ("20", "start it (`systemctl start iscsid`)"),
        ("19", "no such target; it has iqn.2003-01.org.example:other"),
        ("8", "no such target; it has iqn.2003-01.org.example:other"),
        ("5", "iscsiadm cannot log in: words of the login (exit code 5)"),
    ] {
        fs::write(machine.path("login"), code).unwrap();
        let error = machine.initiator().connect(&machine.unit(0), None).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(&machine.portal().to_string()), "{code}: {error}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unit = LogicalUnit { portals: vec![closed], ..machine.unit(0) };
    let error = machine.initiator().connect(&unit, None).unwrap_err();
    assert!(matches!(&error, IscsiError::Retryable(text) if text.contains("Connection refused")), "{error}");
}

#[test]
fn a_session_ends_with_its_last_unit_and_one_of_the_administrator_stays() {
    let machine = Machine::new().with_program();
    let initiator = machine.initiator();
    machine.session(7, machine.portal(), "FAILED", &[0]);
    initiator.disconnect(&machine.unit(0)).unwrap();
    assert_eq!(machine.calls(), "", "no record says that it is volhost's");
    let record = machine.path(&format!("records/nodes/{TARGET}/127.0.0.1,{}", machine.portal().port()));
    fs::create_dir_all(record.parent().unwrap()).unwrap();
    fs::write(&record, "iface.iscsi_ifacename = default\nnode.session.scan = manual\n").unwrap();
    initiator.disconnect(&machine.unit(1)).unwrap();
    assert_eq!(machine.calls(), "", "it has another unit");
    initiator.disconnect(&machine.unit(0)).unwrap();
    assert!(machine.calls().contains("-m session -r 7 -u\n"), "{}", machine.calls());
    assert!(!record.exists());
    initiator.disconnect(&machine.unit(0)).unwrap();
}

#[test]
fn a_dead_portal_does_not_matter_while_another_one_leads_to_the_unit() {
    let machine = Machine::new().with_program();
    machine.session(1, machine.portal(), "LOGGED_IN", &[0]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unit = LogicalUnit { portals: vec![closed, machine.portal()], ..machine.unit(0) };
    assert_eq!(machine.initiator().connect(&unit, None).unwrap().number, (8, 0));
}

/// Two sessions with one target, and the unit by both.
fn two_paths(machine: &Machine) -> LogicalUnit {
    let other = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    machine.session(1, machine.portal(), "LOGGED_IN", &[3]);
    machine.session(2, other, "LOGGED_IN", &[3]);
    LogicalUnit { portals: vec![machine.portal(), other], ..machine.unit(3) }
}

#[test]
fn a_multipath_map_over_the_paths_is_the_device_and_grows_with_them() {
    let machine = Machine::new().with_program();
    let unit = two_paths(&machine);
    // A map of another kind, such as one of LVM's, is none.
    machine.map(3, &[1, 2], "LVM-abc");
    assert_eq!(machine.initiator().connect(&unit, None).unwrap().path, machine.path("dev/sd3"));
    machine.map(3, &[1, 2], "mpath-3600a");
    let device = machine.initiator().connect(&unit, None).unwrap();
    assert_eq!((device.path, device.number), (machine.path("dev/dm-4"), (253, 4)));
    machine.initiator().rescan(&unit).unwrap();
    assert_eq!(machine.calls(), "multipathd resize map mpatha\n");
    fs::write(machine.path("bin/multipathd"), "#!/bin/sh\necho fail\n").unwrap();
    let failed = machine.initiator().rescan(&unit).unwrap_err();
    assert!(matches!(&failed, IscsiError::Retryable(text) if text.contains("map \"mpatha\": fail")), "{failed}");
}

#[test]
fn a_map_is_removed_before_its_paths_and_one_with_a_path_of_the_administrator_stays() {
    let machine = Machine::new().with_program();
    let unit = two_paths(&machine);
    machine.map(3, &[1, 2], "mpath-3600a");
    machine.own(unit.portals[0]);
    machine.initiator().disconnect(&unit).unwrap();
    assert_eq!(machine.calls(), "", "one path is not volhost's");
    machine.own(unit.portals[1]);
    // It fails: nothing else is touched.
    fs::write(machine.path("bin/multipath"), "#!/bin/sh\necho map in use >&2; exit 1\n").unwrap();
    let failed = machine.initiator().disconnect(&unit).unwrap_err();
    assert!(matches!(&failed, IscsiError::Retryable(text) if text.contains("map in use (exit code 1)")), "{failed}");
    assert_eq!(machine.calls(), "");
    fs::remove_file(machine.path("bin/multipath")).unwrap();
    let missing = machine.initiator().disconnect(&unit).unwrap_err();
    assert!(matches!(&missing, IscsiError::NotReady(text) if text.contains("install multipath-tools")), "{missing}");
    // The kernel removes a path when it is told to; here the script does.
    let (base, program) = (machine.folder.path().display(), machine.path("bin/dmsetup"));
    let script =
        format!("#!/bin/sh\necho \"dmsetup $*\" >>{base}/calls\nrm -r {base}/sys/devices/host0/session*/target0:0:0\n");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    machine.initiator().disconnect(&unit).unwrap();
    let calls = machine.calls();
    assert!(calls.starts_with("dmsetup remove mpatha\n"), "{calls}");
    for session in ["-m session -r 1 -u", "-m session -r 2 -u"] {
        assert!(calls.contains(session), "{calls}");
    }
}
