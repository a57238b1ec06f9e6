//! Sizes as Kubernetes writes them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// The binary suffixes, largest first.
const SUFFIXES: [(u64, &str); 6] =
    [(1 << 60, "Ei"), (1 << 50, "Pi"), (1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];

/// Writes bytes with the largest suffix that divides them.
pub fn of_bytes(bytes: u64) -> Quantity {
    let suffix = SUFFIXES.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    Quantity(suffix.map_or_else(|| bytes.to_string(), |(unit, suffix)| format!("{}{suffix}", bytes / unit)))
}

/// Reads the storage of a list of resources, in bytes. `None` if it is absent or no quantity.
pub fn storage(resources: Option<&BTreeMap<String, Quantity>>) -> Option<u64> {
    volhost_model::quantity::parse_bytes(&resources?.get("storage")?.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_people_write_them() {
        let written = [0, 1, 1 << 10, 3 << 20, (1 << 30) + 1, 5 << 40].map(|bytes| of_bytes(bytes).0);
        assert_eq!(written, ["0", "1", "1Ki", "3Mi", "1073741825", "5Ti"]);
    }
}
