//! The code generated from `proto/csi.proto` and `proto/pluginregistration.proto`: the same for the client here and the driver that
//! volhost can be.

pub use volhost_csi_driver::pb::{csi, registration};
