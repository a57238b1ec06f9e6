//! A tree as Linux 6.1 shows it for two adapters (of fcoe, one the target's own in the recording) that
//! see two ports of one target with two units: recorded, and made again in a folder. Nothing answers
//! orders: a test looks at what was ordered, and does what the kernel would.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use volhost_model::fc::{FcDevices, FcError, FcUnit};

use crate::{HostAdapters, Places};

const PORTS: [&str; 2] = ["2000020000000002", "2000020000000004"];
const NAME: &str = "naa.600140512345678901234567890abcde";
/// As udev writes it.
const UDEV_NAME: &str = "3600140512345678901234567890abcde";

struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["dev/disk/by-id", "bin", "sys/class/fc_host", "sys/class/fc_remote_ports", "sys/class/scsi_host"]
        {
            fs::create_dir_all(machine.path(folder)).unwrap();
        }
        machine
    }

    /// Both adapters with a port each, and units 0 and 3 by both.
    fn whole() -> Self {
        let machine = Self::new();
        for (host, port) in PORTS.iter().enumerate() {
            machine.adapter(host);
            machine.port(host, port, "Online");
            for lun in [0, 3] {
                machine.unit(host, lun);
            }
        }
        machine
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn host(&self, host: usize) -> PathBuf {
        self.path(&format!("sys/devices/virtual/net/f{host}/ctlr_{host}/host{host}"))
    }

    fn unit_folder(&self, host: usize, lun: u32) -> PathBuf {
        self.host(host).join(format!("rport-{host}:0-0/target{host}:0:0/{host}:0:0:{lun}"))
    }

    fn disk(host: usize, lun: u32) -> String {
        format!("sd{}", ["a", "b", "c", "d"][host * 2 + usize::from(lun != 0)])
    }

    fn adapter(&self, host: usize) {
        let name = format!("host{host}");
        for class in ["fc_host", "scsi_host"] {
            let folder = self.host(host).join(class).join(&name);
            fs::create_dir_all(&folder).unwrap();
            symlink(&folder, self.path("sys/class").join(class).join(&name)).unwrap();
        }
        write_all(&self.host(host).join("fc_host").join(&name), &[("port_state", "Online")]);
        write_all(&self.host(host).join("scsi_host").join(&name), &[("scan", "")]);
    }

    fn port(&self, host: usize, port: &str, state: &str) {
        let name = format!("rport-{host}:0-0");
        let device = self.host(host).join(&name);
        let folder = device.join("fc_remote_ports").join(&name);
        fs::create_dir_all(&folder).unwrap();
        symlink("../../../".to_owned() + &name, folder.join("device")).unwrap();
        let port_name = format!("0x{port}");
        let words = [("port_name", port_name.as_str()), ("port_state", state), ("roles", "FCP Target, FCP Initiator")];
        write_all(&folder, &words);
        symlink(&folder, self.path("sys/class/fc_remote_ports").join(&name)).unwrap();
    }

    fn unit(&self, host: usize, lun: u32) {
        let (folder, disk) = (self.unit_folder(host, lun), Self::disk(host, lun));
        let block = folder.join("block").join(&disk);
        fs::create_dir_all(block.join("holders")).unwrap();
        write_all(&block, &[("dev", &format!("8:{}", (host * 2 + usize::from(lun != 0)) * 16))]);
        write_all(&folder, &[("state", "running"), ("delete", ""), ("rescan", ""), ("type", "0")]);
        if lun == 3 {
            write_all(&folder, &[("wwid", NAME)]);
        }
        fs::write(self.path("dev").join(disk), "").unwrap();
    }

    /// multipathd's map over the paths of unit 3.
    fn map(&self) {
        for host in 0..PORTS.len() {
            let holders = self.unit_folder(host, 3).join("block").join(Self::disk(host, 3)).join("holders/dm-0");
            fs::create_dir_all(holders.join("dm")).unwrap();
            write_all(&holders, &[("dev", "253:0"), ("dm/uuid", "mpath-36001405"), ("dm/name", "mpatha")]);
        }
        fs::write(self.path("dev/dm-0"), "").unwrap();
    }

    /// A program that notes its arguments, and does this.
    fn program(&self, name: &str, script: &str) {
        let (path, calls) = (self.path("bin").join(name), self.path("calls"));
        fs::write(&path, format!("#!/bin/sh\necho \"{name} $*\" >>{}\n{script}\n", calls.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }

    fn adapters(&self) -> HostAdapters {
        HostAdapters::new(Places {
            sysfs: self.path("sys"),
            devices: self.path("dev"),
            programs: vec![self.path("bin")],
        })
    }

    fn scanned(&self, host: usize) -> String {
        let name = format!("host{host}");
        fs::read_to_string(self.host(host).join("scsi_host").join(&name).join("scan")).unwrap().trim().to_owned()
    }

    fn ordered(&self, host: usize, lun: u32, file: &str) -> String {
        fs::read_to_string(self.unit_folder(host, lun).join(file)).unwrap().trim().to_owned()
    }
}

fn write_all(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        fs::write(folder.join(name), format!("{text}\n")).unwrap();
    }
}

fn at(ports: &[&str], lun: u32) -> FcUnit {
    let ports: Vec<String> = ports.iter().map(|&port| port.to_owned()).collect();
    FcUnit::new(&ports, Some(lun)).unwrap()
}

fn named(name: &str) -> FcUnit {
    FcUnit::new(&[name.to_owned()], None).unwrap()
}

#[test]
fn a_unit_is_found_by_port_and_number_and_no_adapter_looks_for_what_is_there() {
    let machine = Machine::whole();
    let device = machine.adapters().connect(&at(&PORTS[1..], 3)).unwrap();
    assert_eq!((device.path, device.number), (machine.path("dev/sdd"), (8, 48)));
    assert_eq!(machine.adapters().connect(&at(&["0x2000020000000002"], 0)).unwrap().path, machine.path("dev/sda"));
    assert_eq!((machine.scanned(0), machine.scanned(1)), (String::new(), String::new()));
}

#[test]
fn a_unit_is_found_by_its_own_name_or_the_link_of_udev() {
    let machine = Machine::whole();
    assert_eq!(machine.adapters().connect(&named(UDEV_NAME)).unwrap().path, machine.path("dev/sdb"));
    symlink("../../sdc", machine.path("dev/disk/by-id/scsi-SACME_disk_7")).unwrap();
    assert_eq!(machine.adapters().connect(&named("SACME disk 7")).unwrap().path, machine.path("dev/sdc"));
    // A link to a disk that is of no port.
    fs::write(machine.path("dev/vda"), "").unwrap();
    symlink("../../vda", machine.path("dev/disk/by-id/scsi-other")).unwrap();
    let error = machine.adapters().connect(&named("other")).unwrap_err();
    assert!(matches!(&error, FcError::NotFound(text) if text.contains("FC unit other")), "{error}");
    assert_eq!(machine.scanned(0), "- - -", "every unit was looked for");
}

#[test]
fn a_path_that_is_missing_is_looked_for_by_its_number_alone() {
    let machine = Machine::whole();
    fs::remove_dir_all(machine.unit_folder(1, 3)).unwrap();
    assert_eq!(machine.adapters().connect(&at(&PORTS, 3)).unwrap().path, machine.path("dev/sdb"));
    assert_eq!((machine.scanned(0), machine.scanned(1)), ("- - 3".to_owned(), "- - 3".to_owned()));
    let error = machine.adapters().connect(&at(&PORTS, 5)).unwrap_err();
    assert!(matches!(&error, FcError::NotFound(text) if text.contains("no LUN 5")), "{error}");
}

#[test]
fn each_cause_is_named() {
    let machine = Machine::new();
    let error = machine.adapters().connect(&at(&PORTS, 3)).unwrap_err();
    assert!(matches!(&error, FcError::NotReady(text) if text.contains("no Fibre Channel host adapter")), "{error}");
    machine.adapter(0);
    let error = machine.adapters().connect(&at(&PORTS, 3)).unwrap_err();
    assert!(matches!(&error, FcError::Retryable(text) if text.contains("no adapter of this node sees")), "{error}");
    machine.port(0, PORTS[0], "Not Present");
    let error = machine.adapters().connect(&at(&PORTS, 3)).unwrap_err();
    assert!(matches!(&error, FcError::Retryable(text) if text.contains("the port is not present")), "{error}");
    let error = machine.adapters().rescan(&at(&PORTS, 3)).unwrap_err();
    assert!(matches!(&error, FcError::NotFound(text) if text.contains("not connected")), "{error}");
    machine.adapters().disconnect(&at(&PORTS, 3)).unwrap();
}

#[test]
fn a_path_that_takes_no_commands_does_not_matter_while_another_does() {
    let machine = Machine::whole();
    write_all(&machine.unit_folder(0, 3), &[("state", "transport-offline")]);
    assert_eq!(machine.adapters().connect(&at(&PORTS, 3)).unwrap().path, machine.path("dev/sdd"));
}

#[test]
fn a_multipath_map_over_the_paths_is_the_device_and_grows_with_them() {
    let machine = Machine::whole();
    machine.map();
    for unit in [at(&PORTS, 3), at(&PORTS[..1], 3), named(UDEV_NAME)] {
        let device = machine.adapters().connect(&unit).unwrap();
        assert_eq!((device.path, device.number), (machine.path("dev/dm-0"), (253, 0)), "{unit}");
    }
    // Another unit has no map.
    assert_eq!(machine.adapters().connect(&at(&PORTS, 0)).unwrap().path, machine.path("dev/sda"));
    machine.program("multipathd", "echo ok");
    machine.adapters().rescan(&at(&PORTS, 3)).unwrap();
    assert_eq!((machine.ordered(0, 3, "rescan"), machine.ordered(1, 3, "rescan")), ("1".to_owned(), "1".to_owned()));
    assert_eq!(machine.calls(), "multipathd resize map mpatha\n");
    // udev's link may lead to the map.
    symlink("../../dm-0", machine.path("dev/disk/by-id/scsi-SACME_disk_7")).unwrap();
    assert_eq!(machine.adapters().connect(&named("SACME_disk_7")).unwrap().path, machine.path("dev/dm-0"));
}

#[test]
fn a_map_is_removed_before_every_path_of_it_and_another_unit_stays() {
    let machine = Machine::whole();
    machine.map();
    let missing = machine.adapters().disconnect(&at(&PORTS[..1], 3)).unwrap_err();
    assert!(matches!(&missing, FcError::NotReady(text) if text.contains("install multipath-tools")), "{missing}");
    machine.program("multipath", "echo map in use >&2; exit 1");
    let failed = machine.adapters().disconnect(&at(&PORTS[..1], 3)).unwrap_err();
    assert!(matches!(&failed, FcError::Retryable(text) if text.contains("map in use (exit code 1)")), "{failed}");
    assert_eq!(machine.ordered(0, 3, "delete"), "", "nothing else is touched");
    // The kernel removes a path when it is told to; here the program does.
    let units = [machine.unit_folder(0, 3), machine.unit_folder(1, 3)];
    let script = units.iter().map(|unit| format!("rm -r {}", unit.display())).collect::<Vec<_>>().join("\n");
    machine.program("multipath", &script);
    machine.adapters().disconnect(&at(&PORTS[..1], 3)).unwrap();
    assert!(machine.calls().ends_with("multipath -f mpatha\n"), "{}", machine.calls());
    assert!(machine.unit_folder(0, 0).exists() && machine.unit_folder(1, 0).exists());
    assert_eq!(machine.ordered(0, 0, "delete"), "");
    machine.adapters().disconnect(&at(&PORTS, 3)).unwrap();
}
