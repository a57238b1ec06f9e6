//! The bounding set of capabilities: the most that root's programs get.

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capability_is_in_bounding_set, remove_capability_from_bounding_set};

/// The kernel's sets of capabilities have so many bits.
const BITS: u32 = 64;

/// Removes every other capability from this thread's bounding set, which the programs that it
/// starts inherit.
///
/// # Errors
/// The kernel's: `PERM` without `CAP_SETPCAP`.
pub fn limit_bounding_set(kept: CapabilitySet) -> Result<(), Errno> {
    for number in 0..BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(one) {
            Ok(true) if !kept.contains(one) => remove_capability_from_bounding_set(one)?,
            Ok(_) => {}
            // The kernel has no more of them.
            Err(_) => break,
        }
    }
    Ok(())
}
