//! The code generated from `proto/volhost.proto`; its comments are the documentation.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::allow_attributes_without_reason,
    clippy::large_enum_variant,
    reason = "generated code, whose generators decide what it looks like"
)]

tonic::include_proto!("volhost.v1");
