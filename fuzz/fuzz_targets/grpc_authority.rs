//! The bytes of a gRPC client, before HTTP/2 has checked them. The first byte of the input says in
//! what pieces the rest arrives.
#![no_main]

#[path = "../../host/grpc-authority/src/block.rs"]
mod block;
#[path = "../../host/grpc-authority/src/frames.rs"]
mod frames;

use frames::{AuthorityRewriter, MAX_BLOCK_BYTES};
use libfuzzer_sys::fuzz_target;

fn rewritten(bytes: &[u8], piece: usize) -> Vec<u8> {
    let (mut rewriter, mut output, mut given) = (AuthorityRewriter::default(), Vec::new(), 0);
    for part in bytes.chunks(piece) {
        rewriter.push(part, &mut output);
        given += part.len();
        // What is kept back is a header block, a frame more at most.
        assert!(output.len() + MAX_BLOCK_BYTES + (64 << 10) > given / 2, "{given} bytes are kept back");
    }
    output
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, bytes)) = data.split_first() else { return };
    let whole = rewritten(bytes, bytes.len().max(1));
    assert_eq!(rewritten(bytes, usize::from(piece).max(1)), whole, "it depends on how the bytes arrive");
    // A server that reads what was written for it finds nothing more to change.
    assert_eq!(rewritten(&whole, whole.len().max(1)), whole, "a second reading changes it again");
});
