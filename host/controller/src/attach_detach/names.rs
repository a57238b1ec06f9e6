//! The names that Kubernetes gives to volumes and to their attachments.

use sha2::{Digest as _, Sha256};

/// The beginning of the unique name of a CSI driver's volume: `kubernetes.io/csi/DRIVER^HANDLE`.
const CSI: &str = "kubernetes.io/csi/";
/// The plugins whose volumes nodes attach by themselves: a controller only lists them.
const LISTED: [&str; 2] = ["kubernetes.io/iscsi/", "kubernetes.io/fc/"];
/// The beginnings of the unique names of FlexVolumes, the kubelet's and volhost's: before
/// `DRIVER/NAME`, and before that with `~` in place of the driver's slash.
const FLEX: &str = "flexvolume-";
const FLEX_OF_VOLHOST: &str = "volhost.io/flex-volume/";
/// The beginning of the name of a VolumeAttachment, before 64 hexadecimal digits.
const ATTACHMENT: &str = "csi-";

/// Returns the unique name of a volume of a CSI driver.
pub(super) fn csi_volume(driver: &str, handle: &str) -> String {
    format!("{CSI}{driver}^{handle}")
}

/// Returns the driver in the unique name of a CSI driver's volume.
pub(super) fn driver_of(volume: &str) -> Option<&str> {
    Some(volume.strip_prefix(CSI)?.split_once('^')?.0)
}

/// Returns the name of a volume's attachment to a node, by the volume's unique name: that of the
/// VolumeAttachment, or for a volume without one its unique name.
pub(super) fn attachment(volume: &str, node: &str) -> String {
    match volume.strip_prefix(CSI).and_then(|csi| csi.split_once('^')) {
        Some((driver, handle)) => {
            let hash = Sha256::new().chain_update(handle).chain_update(driver).chain_update(node).finalize();
            let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{ATTACHMENT}{digits}")
        }
        None => volume.to_owned(),
    }
}

/// Whether a VolumeAttachment may be one that Kubernetes' controller or this one has made.
pub(super) fn is_attachment(name: &str) -> bool {
    let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    name.strip_prefix(ATTACHMENT).is_some_and(|digits| digits.len() == 64 && digits.bytes().all(is_digit))
}

/// Whether this is the unique name of a volume that is listed and has no VolumeAttachment.
pub(super) fn is_listed_alone(volume: &str) -> bool {
    LISTED.iter().any(|plugin| volume.starts_with(plugin))
}

/// Returns whether a unique name is that of this volume of a FlexVolume driver. For volhost an inline
/// volume's own name is followed by `_` and a digest.
pub(super) fn is_flex_volume(unique: &str, driver: &str, volume: &str) -> bool {
    let after = |prefix: &str, driver: &str| {
        let rest = unique.strip_prefix(prefix)?.strip_prefix(driver)?.strip_prefix('/')?;
        rest.strip_prefix(volume)
    };
    let of_volhost = after(FLEX_OF_VOLHOST, &driver.replace('/', "~"));
    after(FLEX, driver) == Some("") || of_volhost.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// Returns the plugin of a volume, as Kubernetes' metrics name it.
pub(super) fn plugin_of(volume: &str) -> String {
    if let Some(driver) = driver_of(volume) {
        return format!("kubernetes.io/csi:{driver}");
    }
    volume.split('/').take(2).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flex_volume_is_known_by_its_driver_and_its_name() {
        for (unique, is_it) in [
            ("flexvolume-acme/lun/pv", true),
            ("volhost.io/flex-volume/acme~lun/pv", true),
            ("volhost.io/flex-volume/acme~lun/pv_3f2a", true),
            ("flexvolume-acme/lun/pv-2", false),
            ("flexvolume-acme/lunar/pv", false),
            ("volhost.io/flex-volume/acme~lun/pv-2", false),
            ("kubernetes.io/iscsi/acme/lun/pv", false),
        ] {
            assert_eq!(is_flex_volume(unique, "acme/lun", "pv"), is_it, "{unique}");
        }
    }

    #[test]
    fn an_attachment_is_named_by_handle_driver_and_node() {
        let volume = csi_volume("disk.example", "a^b");
        assert_eq!(volume, "kubernetes.io/csi/disk.example^a^b");
        assert_eq!(driver_of(&volume), Some("disk.example"));
        let name = attachment(&volume, "node");
        // printf %s 'a^bdisk.examplenode' | sha256sum
        let hash: String = Sha256::digest("a^bdisk.examplenode").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(name, format!("csi-{hash}"));
        assert!(is_attachment(&name) && !is_attachment("csi-mine") && !is_attachment(&name.to_uppercase()));
        let target = "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2026-01.example:disk:0";
        assert_eq!(attachment(target, "node"), target);
        assert!(is_listed_alone(target) && !is_listed_alone(&volume));
        assert_eq!(
            (plugin_of(&volume).as_str(), plugin_of(target).as_str()),
            ("kubernetes.io/csi:disk.example", "kubernetes.io/iscsi")
        );
    }
}
