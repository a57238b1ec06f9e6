//! OCI images as folders of the node: pulled from registries and image layouts, unpacked by layer,
//! shared by all volumes, and removed when their disk fills up.
//!
//! ```text
//!  Images::pull --> source (registry: a child without privileges; layout: a folder) --> manifest
//!                      |                                                                  |
//!                      '--> layer, checked against size and digest --> unpack --> layers/DIGEST
//!  Images::find --> records --> StoredImage: layers to lay on one another, and a lease
//!  collect: the images that no mount shows and no lease keeps, the one used longest ago first
//! ```
//!
//! ```text
//! STORE/images/DIGEST        the record of an image: its layers; its time is the last use
//! STORE/references/DIGEST    the record of a reference: which image it is, and who may use it
//! STORE/layers/DIGEST/files  a layer, by the digest of its blob, in the form that overlay reads
//! STORE/layers/DIGEST/bytes  what it has on disk
//! STORE/empty/               the lowest layer of each mount, since an overlay has two at least
//! STORE/new/                 what is being made or removed; emptied at every start
//! ```
//!
//! # Guarantees
//! - A record or layer under its name is whole: it is made below `new`, synced, and renamed.
//! - An image is used as long as the mount table shows a mount with its digest as the source, so that
//!   a restart forgets nothing.
//! - Nothing of an image becomes part of a path on this machine but digests, and the names in a layer
//!   below the layer's own folder, which they never leave.
//!
//! Layers stay apart, and overlay joins them: that shares each layer among images, and pages in
//! memory among pods. Whiteouts become overlay's own.
//!
//! | module | its job |
//! |---|---|
//! | [`store`] | [`ImageStore`]: finds and pulls |
//! | `folders` | the store's folders and records |
//! | `collect` | which images are removed |
//! | `in_flight` | one pull of one thing at a time |
//! | `manifest` | manifests, indexes, configs |
//! | `source` | where images come from |
//! | `layer` | one layer: fetched, checked, unpacked |
//! | `tree` | files of an archive below one folder |
//! | `pull_secrets` | which login is for which registry |
#![forbid(unsafe_code)]

mod collect;
mod folders;
mod in_flight;
mod layer;
mod manifest;
mod pull_secrets;
mod source;
pub mod store;
mod tree;

pub use source::registry::{FetchFailure, FetchRequest, Login, RegistryProgram};
pub use store::{ImageStore, ImageStoreOptions, ImageUsage};
