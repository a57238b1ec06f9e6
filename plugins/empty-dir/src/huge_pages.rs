//! `medium: HugePages` and `HugePages-SIZE`.

use volhost_plugin_sdk::prelude::*;

use crate::MODE;
use crate::source::Source;

const FS_TYPE: &str = "hugetlbfs";

/// Mounts a hugetlbfs at the target. `asked` is the size of a page that the medium names.
pub(crate) fn publish(source: &Source, asked: Option<u64>, pod: &Pod, target: &MountTarget) -> Result<()> {
    let page = page_size(asked, pod)?;
    let size = size(source, page, pod)?;
    match target.state()? {
        TargetState::Mounted => accept(page, target)?,
        state => {
            // A crash leaves the mount point without its mount. This removes it, and refuses if
            // there is data in it.
            if state == TargetState::Plain {
                target.detach().context(
                    "emptyDir.medium is \"HugePages\", and there is a plain folder in place of its mount; only an empty one is replaced",
                )?;
            }
            target.attach(create(page, size, pod)?)?;
        }
    }
    // A hugetlbfs can't be made with setgid, so the root gets it afterwards.
    target.apply_fs_group(pod, false)
}

/// The size of a page: the kubelet's rules.
fn page_size(asked: Option<u64>, pod: &Pod) -> Result<u64> {
    let sizes = pod.huge_page_sizes();
    match (asked, sizes.as_slice()) {
        (Some(size), sizes) if sizes.contains(&size) => Ok(size),
        (None, [only]) => Ok(*only),
        (Some(size), _) => Err(Error::invalid_argument(format!(
            "emptyDir.medium: no container requests huge pages of {}; add hugepages-{} to resources.limits",
            shown(size),
            shown(size)
        ))),
        (None, []) => Err(Error::invalid_argument(
            "emptyDir.medium: no container requests huge pages; add hugepages-2Mi or another size to resources.limits",
        )),
        (None, several) => {
            let several: Vec<String> = several.iter().map(|size| shown(*size)).collect();
            Err(Error::invalid_argument(format!(
                "emptyDir.medium: \"HugePages\" can't be used by a pod that requests several sizes of huge pages ({}); write HugePages-{}",
                several.join(", "),
                several.first().map_or("SIZE", String::as_str)
            )))
        }
    }
}

/// The lowest limit of the volume, in bytes; none without a limit.
fn size(source: &Source, page: u64, pod: &Pod) -> Result<Option<u64>> {
    if let Some(limit) = source.size_limit.filter(|limit| *limit < page) {
        return Err(Error::invalid_argument(format!(
            "emptyDir.sizeLimit: {limit} bytes are less than one huge page of {}",
            shown(page)
        )));
    }
    Ok([source.size_limit, pod.huge_page_limit(page)].into_iter().flatten().min())
}

/// Checks that the existing mount has pages of this size.
fn accept(page: u64, target: &MountTarget) -> Result<()> {
    let found = target.mounted_type()?;
    if found.as_deref() != Some(FS_TYPE) {
        return Err(Error::conflict(format!(
            "there is a {} mount in place of the huge pages of this emptyDir; unmount it, or delete the pod",
            found.as_deref().unwrap_or("foreign")
        )));
    }
    let options = target.mounted_options()?;
    match options.iter().find_map(|option| option.strip_prefix("pagesize=")) {
        Some(found) if kernel_size(found) != Some(page) => Err(Error::conflict(format!(
            "the volume is mounted with huge pages of {found}, and {} is requested; delete the pod",
            shown(page)
        ))),
        _ => Ok(()),
    }
}

fn create(page: u64, size: Option<u64>, pod: &Pod) -> Result<DetachedMount> {
    let mut pages = HugePages::of_size(page).mode(MODE);
    if let Some(bytes) = size {
        pages = pages.size(bytes);
    }
    if let Some(group) = pod.fs_group() {
        pages = pages.group(group);
    }
    pages.create().map_err(|error| match error {
        Error::Unsupported(why) => Error::unsupported(format!(
            "emptyDir.medium: node {} has no huge pages of {}: {why}",
            node::name(),
            shown(page)
        )),
        other => other,
    })
}

/// A size as the kernel writes it: `2M`.
fn kernel_size(text: &str) -> Option<u64> {
    let shift = match text.chars().last()? {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        _ => return text.parse().ok(),
    };
    text.get(..text.len() - 1)?.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A size as Kubernetes writes it: `2Mi`.
fn shown(bytes: u64) -> String {
    for (shift, suffix) in [(30, "Gi"), (20, "Mi"), (10, "Ki")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}
