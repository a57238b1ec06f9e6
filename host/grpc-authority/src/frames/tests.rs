#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]

use proptest::prelude::*;

use super::*;

const PATH: &[u8] = b"%2Frun%2Fkubelet%2Fcsi-reg.sock";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header block with this authority.
fn block(authority: &[u8]) -> Vec<u8> {
    [&[0x83, 0x86, 0x41][..], &[u8::try_from(authority.len()).unwrap()], authority, &[0x84]].concat()
}

fn rewritten(input: &[u8], pieces: usize) -> Vec<u8> {
    let (mut rewriter, mut output) = (AuthorityRewriter::default(), Vec::new());
    input.chunks(pieces.max(1)).for_each(|piece| rewriter.push(piece, &mut output));
    output
}

fn connection(frames: &[Vec<u8>]) -> Vec<u8> {
    [PREFACE, &frames.concat()].concat()
}

#[test]
fn the_authority_of_each_request_is_replaced_in_any_division() {
    let settings = frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]);
    let data = frame(0, 1, 1, b"the call's message");
    let (before, after) = (block(PATH), block(b"u"));
    let (front, back) = before.split_at(10);
    let priority = [0, 0, 0, 0, 15];
    let padded = [&[3][..], &priority, &before, &[0; 3]].concat();
    let sent = connection(&[
        settings.clone(),
        frame(HEADERS, END_HEADERS, 1, &before),
        data.clone(),
        frame(HEADERS, 1, 3, front),
        frame(CONTINUATION, END_HEADERS, 3, back),
        frame(HEADERS, END_HEADERS | PADDED | PRIORITY, 5, &padded),
    ]);
    let expected = connection(&[
        settings,
        frame(HEADERS, END_HEADERS, 1, &after),
        data,
        frame(HEADERS, END_HEADERS | 1, 3, &after),
        frame(HEADERS, END_HEADERS | PRIORITY, 5, &[&priority[..], &after].concat()),
    ]);
    for pieces in 1..sent.len() {
        assert_eq!(rewritten(&sent, pieces), expected, "in pieces of {pieces}");
    }
}

#[test]
fn a_large_block_stays_whole() {
    let literal = |octet| [&[0x40, 1, octet, 0x7f, 0x81, 0x7e][..], &[b'v'; 16_256]].concat();
    let before = [block(PATH), literal(b'a'), literal(b'b'), literal(b'c')].concat();
    let after = [block(b"u"), literal(b'a'), literal(b'b'), literal(b'c')].concat();
    let sent = connection(&[
        frame(HEADERS, 0, 1, &before[..16_000]),
        frame(CONTINUATION, 0, 1, &before[16_000..32_000]),
        frame(CONTINUATION, 0, 1, &before[32_000..48_000]),
        frame(CONTINUATION, END_HEADERS, 1, &before[48_000..]),
        frame(6, 0, 0, &[0; 8]),
    ]);
    let first = MAX_FRAME_BYTES - PRIORITY_BYTES;
    let expected = connection(&[
        frame(HEADERS, 0, 1, &after[..first]),
        frame(CONTINUATION, 0, 1, &after[first..first + MAX_FRAME_BYTES]),
        frame(CONTINUATION, END_HEADERS, 1, &after[first + MAX_FRAME_BYTES..]),
        frame(6, 0, 0, &[0; 8]),
    ]);
    assert_eq!(rewritten(&sent, 4096), expected);
}

#[test]
fn what_is_wrong_passes_unchanged() {
    let good = block(PATH);
    let wrong = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        // More padding than payload, a string that does not end, a block that another frame breaks.
        connection(&[frame(HEADERS, END_HEADERS | PADDED, 1, &[9, 0x83])]),
        connection(&[frame(HEADERS, END_HEADERS, 1, &[0x41, 0x20, b'a'])]),
        connection(&[frame(HEADERS, 0, 1, &good), frame(0, 0, 1, b"data")]),
        connection(&[frame(HEADERS, 0, 1, &good), frame(CONTINUATION, END_HEADERS, 3, &[])]),
        connection(&[frame(HEADERS, END_HEADERS, 1, &[0x83; MAX_FRAME_BYTES + 1])]),
    ];
    for bytes in wrong {
        let bytes = [bytes, connection(&[frame(HEADERS, END_HEADERS, 1, &good)])].concat();
        assert_eq!(rewritten(&bytes, 7), bytes);
    }
}

#[test]
fn a_block_without_end_is_bounded() {
    let mut rewriter = AuthorityRewriter::default();
    let mut output = Vec::new();
    rewriter.push(&connection(&[frame(HEADERS, 0, 1, &[])]), &mut output);
    let more = frame(CONTINUATION, 0, 1, &[0x83; 16_000]);
    let mut sent = 0;
    while output.len() <= PREFACE.len() {
        rewriter.push(&more, &mut output);
        sent += more.len();
        assert!(sent <= MAX_BLOCK_BYTES + more.len(), "nothing passes after {sent} bytes");
    }
}

proptest! {
    /// Nothing is lost and nothing panics, whatever arrives and however it is divided.
    #[test]
    fn any_bytes_pass(bytes in proptest::collection::vec(any::<u8>(), 0..200), pieces in 1_usize..50) {
        let after_preface = connection(std::slice::from_ref(&bytes));
        prop_assert_eq!(rewritten(&after_preface, pieces), rewritten(&after_preface, after_preface.len()));
        if !PREFACE.starts_with(bytes.get(..1).unwrap_or_default()) {
            prop_assert_eq!(rewritten(&bytes, pieces), bytes);
        }
    }
}
