//! An iSCSI target of the guest's kernel, and open-iscsi as the initiator.

use volhost_tests::vm::Guest;
use volhost_tests::wait::eventually;

use crate::kit::Daemon;

pub(crate) const ISCSI: &str = "kubernetes.io~iscsi";
const CONFIG: &str = "/sys/kernel/config/target";

/// The guest with open-iscsi running, and one target behind two portals.
pub(crate) struct Target {
    pub(crate) guest: Guest,
    pub(crate) name: String,
}

impl Target {
    /// Begins a target without units, which takes every initiator.
    pub(crate) fn start(name: &str) -> Self {
        Self::start_in(Guest::borrow(), name)
    }

    /// Begins it in this guest.
    pub(crate) fn start_in(guest: Guest, name: &str) -> Self {
        let target = Self { guest, name: format!("iqn.2003-01.org.example:{name}") };
        let group = target.group();
        target.guest.run(&format!(
            "modprobe -a target_core_mod target_core_file iscsi_target_mod iscsi_tcp sd_mod
             mkdir -p /run/lock /disk/units
             mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
             pidof iscsid >/dev/null || iscsid
             mkdir -p {CONFIG}/iscsi {group}/np/127.0.0.1:3260 '{group}/np/[::1]:3260'
             echo 1 >{group}/attrib/generate_node_acls
             echo 0 >{group}/attrib/demo_mode_write_protect
             echo 0 >{group}/attrib/authentication
             echo 1 >{group}/enable"
        ));
        target
    }

    pub(crate) fn group(&self) -> String {
        format!("{CONFIG}/iscsi/{}/tpgt_1", self.name)
    }

    /// Gives the target a unit: a sparse file, as a device that can grow.
    pub(crate) fn unit(&self, lun: u32, bytes: u64) {
        let (short, group) = (self.name.rsplit(':').next().unwrap_or_default(), self.group());
        let backing = format!("{CONFIG}/core/fileio_{lun}/{short}-{lun}");
        self.guest.run(&format!(
            "image=/disk/units/{short}-{lun}.img; rm -f $image; truncate -s {bytes} $image
             device=$(losetup --show -f $image); echo $device >/run/{short}-{lun}
             mkdir -p {backing}; echo fd_dev_name=$device,fd_dev_size={bytes} >{backing}/control; echo 1 >{backing}/enable
             mkdir -p {group}/lun/lun_{lun}; ln -s {backing} {group}/lun/lun_{lun}/unit"
        ));
    }

    /// Lets a unit grow.
    pub(crate) fn grow(&self, lun: u32, bytes: u64) {
        let short = self.name.rsplit(':').next().unwrap_or_default();
        self.guest
            .run(&format!("truncate -s {bytes} /disk/units/{short}-{lun}.img; losetup -c $(cat /run/{short}-{lun})"));
    }

    pub(crate) fn daemon(&self, name: &'static str) -> Daemon<'_> {
        Daemon::start(&self.guest, name, &["empty-dir", "iscsi"])
    }

    /// How many sessions with the target there are.
    pub(crate) fn sessions(&self) -> usize {
        let script = format!("cat /sys/class/iscsi_session/*/targetname 2>/dev/null | grep -cxF {} || true", self.name);
        self.guest.run(&script).trim().parse().unwrap()
    }

    /// The numbers of the units that the node has, one for each path, sorted.
    pub(crate) fn units(&self) -> Vec<String> {
        let script = format!(
            "for session in /sys/class/iscsi_session/session*; do
                 [ \"$(cat $session/targetname 2>/dev/null)\" = {} ] || continue
                 for unit in $session/device/target*/*:*:*:*; do [ -e $unit ] && echo ${{unit##*:}}; done
             done | sort",
            self.name
        );
        self.guest.run(&script).lines().map(str::to_owned).collect()
    }

    /// Waits until the node has nothing of the target: the last pod's volume is unstaged after the
    /// pod has been unmounted.
    pub(crate) fn assert_unused(&self) {
        assert!(eventually(|| self.sessions() == 0), "{:?}", self.units());
        assert_eq!(self.units(), Vec::<String>::new());
        let records = self.guest.run(&format!("find /etc/iscsi/nodes/{} -type f 2>/dev/null || true", self.name));
        assert_eq!(records, "", "open-iscsi keeps no record");
    }

    /// The source's fields.
    pub(crate) fn source(&self, lun: u32, more: &str) -> String {
        format!("iscsi: {{ targetPortal: 127.0.0.1, iqn: '{}', lun: {lun}{more} }}", self.name)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.guest.try_run(&format!(
            "iscsiadm -m node -T {name} -u; iscsiadm -m node -T {name} -o delete; echo 0 >{}/enable",
            self.group(),
            name = self.name
        ));
    }
}
