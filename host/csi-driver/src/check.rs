//! Checks every request against the sizes and forms that the specification allows.

use std::collections::HashMap;

use volhost_model::text::shorten;

use crate::refusal::{Refusal, Result};
use volhost_proto::csi::CapacityRange;

/// The longest name, in bytes: the specification's limit for a text.
const NAME_BYTES: usize = 128;
/// The longest handle, in bytes. The specification says 128; COs that were given longer ones by
/// hand are served too.
const ID_BYTES: usize = 1024;
/// The longest name of a node, in bytes.
const NODE_BYTES: usize = 256;
/// The most that all keys and values of a map may have, in bytes. The specification says 4 KiB; a
/// context with tokens of service accounts has more.
const MAP_BYTES: usize = 256 << 10;
/// How much of a wrong text a message shows, in characters: the kubelet's longest paths of volumes
/// have two hundred.
const SHOWN: usize = 256;

/// The beginning of a text, for messages.
pub(crate) fn shown(text: &str) -> String {
    format!("{:?}", shorten(text, SHOWN))
}

/// Names a volume in messages, by its handle.
pub(crate) fn volume(id: &str) -> String {
    format!("volume {}", shown(id))
}

fn text(field: &'static str, text: &str, most: usize) -> Result<()> {
    if text.is_empty() {
        return Err(Refusal::field(field, "is missing"));
    }
    if text.len() > most {
        return Err(Refusal::field(field, format!("has {} bytes, {most} at most", text.len())));
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::field(field, format!("{} has a control character", shown(text))));
    }
    Ok(())
}

/// The name of what is to be made.
pub(crate) fn name(field: &'static str, value: &str) -> Result<()> {
    text(field, value, NAME_BYTES)
}

/// The handle of a volume or snapshot.
pub(crate) fn id(field: &'static str, value: &str) -> Result<()> {
    text(field, value, ID_BYTES)
}

/// The name of a node.
pub(crate) fn node(value: &str) -> Result<()> {
    text("node_id", value, NODE_BYTES)
}

/// A map of texts.
pub(crate) fn map(field: &'static str, map: &HashMap<String, String>) -> Result<()> {
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAP_BYTES {
        return Err(Refusal::field(field, format!("has {bytes} bytes, {MAP_BYTES} at most")));
    }
    match map.iter().find(|(key, value)| key.is_empty() || key.contains('\0') || value.contains('\0')) {
        Some((key, _)) => {
            Err(Refusal::field(field, format!("the key {} or its value is empty or has a NUL", shown(key))))
        }
        None => Ok(()),
    }
}

/// A size: what is required, and the limit; none for what is not said.
pub(crate) fn range(range: Option<&CapacityRange>) -> Result<(Option<u64>, Option<u64>)> {
    const FIELD: &str = "capacity_range";
    let Some(range) = range else { return Ok((None, None)) };
    let bytes = |bytes: i64| {
        u64::try_from(bytes).map_err(|_| Refusal::OutOfRange(format!("{FIELD}: {bytes} bytes are less than none")))
    };
    let (required, limit) = (bytes(range.required_bytes)?, bytes(range.limit_bytes)?);
    if limit > 0 && limit < required {
        return Err(Refusal::OutOfRange(format!(
            "{FIELD}: the limit of {limit} bytes is below the {required} required"
        )));
    }
    let said = |bytes: u64| (bytes > 0).then_some(bytes);
    Ok((said(required), said(limit)))
}

/// Bytes as the messages have them.
pub(crate) fn wire(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn hostile_texts_are_refused_and_not_repeated_whole() {
        for bad in ["", "a\0b", "a\nb", &"x".repeat(129)] {
            let error = name("name", bad).unwrap_err().to_string();
            assert!(error.starts_with("name: ") && error.len() < 200, "{error}");
        }
        name("name", &"x".repeat(128)).unwrap();
        id("volume_id", "../../etc/passwd").unwrap();
        let huge = HashMap::from([("k".to_owned(), "v".repeat(10 << 20))]);
        assert!(map("parameters", &huge).unwrap_err().to_string().contains("262144 at most"));
        assert!(map("parameters", &HashMap::from([("k".to_owned(), "a\0".to_owned())])).is_err());
    }

    #[test]
    fn a_size_is_a_size() {
        let range_of = |required_bytes, limit_bytes| range(Some(&CapacityRange { required_bytes, limit_bytes }));
        assert_eq!(range_of(5, 0).unwrap(), (Some(5), None));
        assert_eq!(range_of(0, 7).unwrap(), (None, Some(7)));
        for (required, limit) in [(-1, 0), (0, -1), (8, 7)] {
            assert!(matches!(range_of(required, limit), Err(Refusal::OutOfRange(_))), "{required} {limit}");
        }
    }
}
