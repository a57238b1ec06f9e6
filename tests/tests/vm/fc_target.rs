//! A Fibre Channel fabric in the guest's kernel: two adapters of the node, each over an Ethernet cable
//! (a pair of veth) with a port of the target. libfc is the initiator, LIO the target: what hardware
//! would do, fcoe does.

use volhost_tests::vm::Guest;
use volhost_tests::wait::eventually;

use crate::kit::Daemon;

pub(crate) const FC: &str = "kubernetes.io~fc";
/// The target's ports, as fcoe makes their names of the addresses of their Ethernet devices.
pub(crate) const PORTS: [&str; 2] = ["2000020000000002", "2000020000000004"];
const CONFIG: &str = "/sys/kernel/config/target";

/// The guest with the fabric.
pub(crate) struct Fabric {
    pub(crate) guest: Guest,
}

impl Fabric {
    /// A fabric whose target has these units (number and bytes) at both ports, for this node. The
    /// adapters have found them, as most do by themselves.
    pub(crate) fn start(units: &[(u32, u64)]) -> Self {
        let fabric = Self { guest: Guest::start_with_fibre_channel() };
        fabric.guest.run(&format!(
            "for module in veth fcoe tcm_fc target_core_file sd_mod; do modprobe $module || exit; done
             mkdir -p /disk/units
             mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
             for pair in 0 2; do
                 ip link add f$pair address 02:00:00:00:00:0$((pair + 1)) type veth \\
                     peer name f$((pair + 1)) address 02:00:00:00:00:0$((pair + 2))
                 for end in f$pair f$((pair + 1)); do
                     ip link set $end mtu 3000 up
                     echo $end >/sys/bus/fcoe/ctlr_create
                 done
             done
             for turn in $(seq 100); do [ $(ls /sys/class/fc_host | wc -w) = 4 ] && break; read -t 0.1 line </dev/zero || true; done
             mkdir -p {CONFIG}/fc"
        ));
        for (lun, bytes) in units {
            fabric.unit(*lun, *bytes);
        }
        fabric.guest.run(
            "for adapter in /sys/devices/virtual/net/f?/ctlr_*; do echo vn2vn >$adapter/mode; echo 1 >$adapter/enabled; done",
        );
        let expected = units.len() * PORTS.len();
        assert!(
            eventually(|| fabric.units().len() == expected),
            "{:?}\n{}",
            fabric.units(),
            fabric.guest.run("dmesg | tail -n 40")
        );
        // A port that is lost: accesses fail at once, so that a map takes another path, and its units stay.
        fabric.guest.run(
            "for port in /sys/class/fc_remote_ports/*; do echo 600 >$port/dev_loss_tmo; echo 1 >$port/fast_io_fail_tmo; done",
        );
        fabric
    }

    /// Gives the target a unit: a sparse file, as a device that can grow.
    fn unit(&self, lun: u32, bytes: u64) {
        let backing = format!("{CONFIG}/core/fileio_{lun}/unit-{lun}");
        self.guest.run(&format!(
            "image=/disk/units/unit-{lun}.img; truncate -s {bytes} $image
             device=$(losetup --show -f $image); echo $device >/run/unit-{lun}
             mkdir -p {backing}; echo fd_dev_name=$device,fd_dev_size={bytes} >{backing}/control
             echo {lun}2345678-1234-1234-1234-123456789012 >{backing}/wwn/vpd_unit_serial
             echo 1 >{backing}/enable
             for pair in 0 2; do
                 port=20:00:02:00:00:00:00:0$((pair + 2)); node=20:00:02:00:00:00:00:0$((pair + 1))
                 group={CONFIG}/fc/$port/tpgt_1
                 mkdir -p $group/lun/lun_{lun}; ln -s {backing} $group/lun/lun_{lun}/unit
                 mkdir -p $group/acls/$node/lun_{lun}; ln -s $group/lun/lun_{lun} $group/acls/$node/lun_{lun}/unit
             done"
        ));
    }

    /// Lets a unit grow.
    pub(crate) fn grow(&self, lun: u32, bytes: u64) {
        self.guest.run(&format!("truncate -s {bytes} /disk/units/unit-{lun}.img; losetup -c $(cat /run/unit-{lun})"));
    }

    pub(crate) fn daemon(&self, name: &'static str) -> Daemon<'_> {
        Daemon::start(&self.guest, name, &["empty-dir", "fc"])
    }

    /// The numbers of the units that the node has, one for each path, sorted.
    pub(crate) fn units(&self) -> Vec<String> {
        let script = "for unit in /sys/class/scsi_device/*/device; do
                          [ -e $unit/block ] && ls $unit/block >/dev/null && echo ${unit%/device}
                      done | sed 's/.*://' | sort";
        self.guest.run(script).lines().map(str::to_owned).collect()
    }

    /// The devices of a unit, one for each path.
    pub(crate) fn disks(&self, lun: u32) -> Vec<String> {
        let script = format!("ls /sys/class/scsi_device/*:{lun}/device/block | grep '^sd'");
        self.guest.run(&script).lines().map(str::to_owned).collect()
    }

    /// The name that a unit gives itself, as udev writes it.
    pub(crate) fn name(&self, lun: u32) -> String {
        let script = format!("cat /sys/class/scsi_device/*:{lun}/device/wwid | sed 's/^naa[.]/3/' | sort -u");
        self.guest.run(&script).trim().to_owned()
    }
}

/// The source's fields of a unit at these ports.
pub(crate) fn at(ports: &[&str], lun: u32, more: &str) -> String {
    format!("fc: {{ targetWWNs: ['{}'], lun: {lun}{more} }}", ports.join("', '"))
}
