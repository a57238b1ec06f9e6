//! Accepts gRPC clients on a unix socket that name the socket's path as the authority.
//!
//! A client that dials a path without naming an authority sends the path, percent-escaped, in the
//! `:authority` of each request. The kubelet does so when it calls a registration socket; gRPC for
//! C++ and Python does so for `unix:` targets. RFC 9110 allows no `%` in a host name, and the HTTP/2
//! implementation below tonic resets such a stream with `PROTOCOL_ERROR` before any service sees
//! it. On a unix socket the authority has no meaning, so this crate replaces it on the way in.
//!
//! ```text
//!  client --bytes--> AuthorityStream --bytes with ":authority: u"--> tonic
//!                      frames: finds header blocks
//!                        block: finds the authority in one
//! ```
//!
//! # Guarantees
//! - Only values of `:authority` change. Every other byte of a connection passes unchanged, but for
//!   the padding of header frames and their division into frames.
//! - Bytes that are no HTTP/2 pass unchanged, from there to the end of the connection: the server
//!   refuses them in its own words.
//! - Memory is bounded: one header block of at most [`MAX_BLOCK_BYTES`].
//!
//! # Why no header compression state is needed
//! A header block (RFC 7541) is a sequence of representations whose lengths can be read without the
//! dynamic table; `:authority` has a static index. The replacement has one octet, so the server's
//! table entry is never larger than the one that the client counts with: every entry that the
//! client may still refer to exists on the server, at the same index.
#![forbid(unsafe_code)]

mod block;
mod frames;
mod stream;

pub use frames::{AuthorityRewriter, MAX_BLOCK_BYTES};
pub use stream::{AuthorityStream, accept};
