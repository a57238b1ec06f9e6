//! The gRPC protocols of others that volhost speaks: messages, clients and server traits, generated
//! from the `.proto` files beside this crate. Their comments are the documentation.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::large_enum_variant,
    clippy::doc_lazy_continuation,
    clippy::doc_overindented_list_items,
    rustdoc::all,
    reason = "generated code, whose generators decide what it looks like"
)]

/// The Container Storage Interface, version 1.
pub mod csi {
    tonic::include_proto!("csi.v1");
}

/// Kubernetes' plugin registration, version 1.
pub mod registration {
    tonic::include_proto!("pluginregistration");
}
