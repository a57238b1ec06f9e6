//! Messages to and from the views. The daemon encodes, the command line decodes.

mod decode;
mod encode;
mod wait;

pub use decode::DecodeError;
pub(super) use encode::volume_stats;
