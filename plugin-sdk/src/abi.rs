//! The stamp a component carries in its custom section `volhost:abi`.

/// The contract's version, and the SDK's: `0.1.0;rust-sdk/0.1.0`.
///
/// ```
/// use volhost_plugin_sdk::abi::{BYTES, STAMP};
///
/// assert!(STAMP.contains(";rust-sdk/"));
/// assert_eq!(BYTES, STAMP.as_bytes());
/// ```
pub const STAMP: &str = concat!("0.1.0;rust-sdk/", env!("CARGO_PKG_VERSION"));

/// [`STAMP`] as the bytes of a static.
#[doc(hidden)]
pub const BYTES: [u8; STAMP.len()] = match STAMP.as_bytes().first_chunk() {
    Some(bytes) => *bytes,
    // Not reachable: the chunk has the length of the whole.
    None => [0; STAMP.len()],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stamp_names_the_contract_that_the_bindings_are_made_from() {
        let contract = include_str!("../wit/plugin.wit");
        let version = STAMP.split(';').next().unwrap();
        assert!(contract.starts_with(&format!("package volhost:plugin@{version};")), "{STAMP}");
        assert_eq!(BYTES, STAMP.as_bytes());
    }
}
